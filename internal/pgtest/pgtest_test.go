package pgtest

import (
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/eyelet-dev/eyelet/internal/pgserver"
)

func TestMain(m *testing.M) { Main(m) }

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
	for _, row := range []struct {
		require, dsn    string
		failed, skipped int
	}{{"", "", 0, 2}, {"0", "", 0, 2}, {"1", "", 2, 0}, {"", "host=" + t.TempDir() + " user=nobody", 1, 1}} {
		cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.v", "-test.run", "^TestTheServer|^TestNothingIsLeft")
		cmd.Env = append(os.Environ(), existing+"="+row.dsn, required+"="+row.require,
			"PATH="+bin+":"+os.Getenv("PATH"))
		out, err := cmd.CombinedOutput()
		for text, want := range map[string]int{
			"--- FAIL": row.failed, "--- SKIP": row.skipped, "set " + required + "=1": row.skipped,
		} {
			if n := strings.Count(string(out), text); n != want || (err != nil) != (row.failed > 0) {
				t.Errorf("%+v: %q comes %d times, want %d, %v: %s", row, text, n, want, err, out)
			}
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
