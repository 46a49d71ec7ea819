package pgtest

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"go.uber.org/goleak"

	"github.com/eyelet-dev/eyelet/internal/pgserver"
)

func TestMain(m *testing.M) {
	code := m.Run()
	dir, pid := server.dir, PID()
	Stop()
	if err := goleak.Find(); code == 0 && err != nil {
		fmt.Println(err)
		code = 1
	}
	if _, err := os.Stat(dir); dir != "" && err == nil || pid != 0 && pgserver.Alive(pid) {
		fmt.Printf("the server %d or its directory %s is left\n", pid, dir)
		code = 1
	}
	os.Exit(code)
}

func TestTheServerFlushesAndIsInUTF8(t *testing.T) {
	for name, dsn := range map[string]string{"direct": DSN(t), "pooled": Pooler(t) + " default_query_exec_mode=exec"} {
		c, err := pgx.Connect(t.Context(), dsn)
		if err != nil {
			t.Fatal(name, err)
		}
		for setting, want := range map[string]string{"fsync": "on", "server_encoding": "UTF8"} {
			var got string
			err := c.QueryRow(t.Context(), "SELECT current_setting($1)", setting).Scan(&got)
			if err != nil || got != want {
				t.Errorf("%s: %s is %q, %v", name, setting, got, err)
			}
		}
		if err := c.Close(t.Context()); err != nil {
			t.Error(name, err)
		}
	}
	if again := DSN(t); again != DSN(t) {
		t.Error("two callers got two servers")
	}
}

func TestDirectoriesOfKilledProcessesAreRemoved(t *testing.T) {
	DSN(t)
	gone := filepath.Join(filepath.Dir(server.dir), "eyelet-postgres-999999999-1")
	if err := os.Mkdir(gone, 0o700); err != nil {
		t.Fatal(err)
	}
	dir, err := pgserver.TempDir()
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	if _, err := os.Stat(gone); err == nil {
		t.Error("the directory of a process that does not exist is left")
		_ = os.RemoveAll(gone)
	}
	if _, err := os.Stat(server.dir); err != nil {
		t.Error("the directory of this process was removed: ", err)
	}
}

// TestAMissingServerSkipsUnlessItIsRequired runs a test without a server: EYELET_TEST_POSTGRES
// names one that cannot be reached.
func TestAMissingServerSkipsUnlessItIsRequired(t *testing.T) {
	if _, err := pgserver.Find("no-such-program"); err == nil ||
		err.Error() != "no-such-program was not found: "+pgserver.Install {
		t.Errorf("a missing program: %v", err)
	}
	for _, require := range []string{"", "1"} {
		cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run", "^TestDirectoriesOfKilledProcesses", "-test.v")
		cmd.Env = append(os.Environ(), existing+"=host="+t.TempDir()+" user=nobody", required+"="+require)
		out, err := cmd.CombinedOutput()
		want := "--- SKIP"
		if require == "1" {
			want = "--- FAIL"
		}
		if (err != nil) != (require == "1") || !strings.Contains(string(out), want) ||
			!strings.Contains(string(out), existing) && require == "" {
			t.Errorf("required %q: %v: %s", require, err, out)
		}
	}
}
