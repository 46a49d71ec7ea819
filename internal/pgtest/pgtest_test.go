package pgtest

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
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

// TestNothingIsStartedUnlessItIsRequired runs the other tests beside programs that only leave a
// mark: all are skipped, or fail where a server is required.
func TestNothingIsStartedUnlessItIsRequired(t *testing.T) {
	t.Parallel()
	bin := t.TempDir()
	mark := filepath.Join(bin, "mark")
	for _, program := range []string{"initdb", "postgres", "pgbouncer"} {
		script := "#!/bin/sh\necho " + program + " >>" + mark + "\nexit 1\n"
		if err := os.WriteFile(filepath.Join(bin, program), []byte(script), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(os.Chmod(bin, 0o777), os.Chmod(filepath.Dir(bin), 0o755)); err != nil { // not as root
		t.Fatal(err)
	}
	for _, row := range []struct{ require, dsn, outcome string }{
		{"", "", "SKIP"}, {"0", "", "SKIP"}, {"1", "", "FAIL"}, {"", "host=" + t.TempDir() + " user=nobody", "FAIL"},
	} {
		cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.v", "-test.run", "^TestTheServer|^TestDirectories")
		cmd.Env = append(os.Environ(), existing+"="+row.dsn, required+"="+row.require, "PATH="+bin)
		out, err := cmd.CombinedOutput()
		tests, outcomes := strings.Count(string(out), "=== RUN"), strings.Count(string(out), "--- "+row.outcome)
		if (err != nil) != (row.outcome == "FAIL") || tests < 3 || outcomes != tests {
			t.Errorf("%+v: %v: %s", row, err, out)
		}
		if n := strings.Count(string(out), required+"=1, or "+existing); (n == tests) != (row.outcome == "SKIP") {
			t.Errorf("%+v: the line names the variables %d times: %s", row, n, out)
		}
		ran, _ := os.ReadFile(mark)
		if (len(ran) > 0) != (row.require == "1") {
			t.Errorf("%+v: these were started: %q", row, ran)
		}
		_ = os.Remove(mark)
	}
	if _, err := pgserver.Find("no-such-program"); err == nil ||
		err.Error() != "no-such-program was not found: "+pgserver.Install {
		t.Errorf("a missing program: %v", err)
	}
}

// TestServersAreStartedByTestsThatAskForPrograms reads the tests of all packages. One that starts
// servers past this package calls Programs.
func TestServersAreStartedByTestsThatAskForPrograms(t *testing.T) {
	t.Parallel()
	starts := regexp.MustCompile(`pgserver\.(New|Launch)\(|initdb"|pgbouncer"|torture\.Fleet|run\.sh"`)
	found := 0
	err := filepath.WalkDir(filepath.Join("..", ".."), func(path string, _ fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, "_test.go") || filepath.Base(path) == "pgtest_test.go" {
			return err
		}
		text, err := os.ReadFile(path)
		if err == nil && starts.Match(text) {
			if found++; !strings.Contains(string(text), "pgtest.Programs(") {
				t.Errorf("%s: %s", path, starts.Find(text))
			}
		}
		return err
	})
	if err != nil || found < 2 {
		t.Errorf("%d files, %v", found, err)
	}
}
