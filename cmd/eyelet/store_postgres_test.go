package main

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/eyelet-dev/eyelet/internal/pgserver"
	"github.com/eyelet-dev/eyelet/internal/pgtest"
)

var schemas atomic.Int64

// onPostgres writes a configuration with a GitHub endpoint and a schema of its own, and returns its
// name. There are no tables yet.
func onPostgres(t *testing.T, store, rest string) (file string) {
	t.Helper()
	schema := fmt.Sprintf("binary %d-%d", os.Getpid(), schemas.Add(1))
	return configured(t, fmt.Sprintf("store: %q\nschema: %s\n%s", store, schema, rest))
}

// migrated is onPostgres with tables.
func migrated(t *testing.T, store, rest string) (file string) {
	t.Helper()
	file = onPostgres(t, store, rest)
	if code, _, errs := run(t, "store", "migrate", "--config", file); code != exitOK {
		t.Fatal(errs)
	}
	return file
}

func TestServeNeedsMigratedTables(t *testing.T) {
	t.Parallel()
	file := onPostgres(t, pgtest.URL(t), "handlers: [{producer: gh, type: \"*\", stdout: true}]\n")
	code, _, errs := run(t, "serve", "--config", file)
	if code != exitUsage || !strings.Contains(errs, "hint: eyelet store migrate --config "+file+"\n") ||
		!strings.Contains(errs, file+":6: schema binary") {
		t.Errorf("without tables: exit %d, %s", code, errs)
	}
	if code, out, errs := run(t, "store", "migrate", "--print", "--config", file); code != exitOK ||
		!strings.Contains(out, "CREATE TABLE \"binary ") || errs != "" {
		t.Errorf("the statements: exit %d, %s%s", code, out, errs)
	}
	if code, _, _ := run(t, "serve", "--config", file); code != exitUsage {
		t.Error("--print made the tables")
	}
	for range 2 {
		code, out, errs := run(t, "store", "migrate", "--config", file)
		if code != exitOK || !strings.HasPrefix(out, "postgres://") ||
			!strings.HasSuffix(out, ": the tables have version 3\n") {
			t.Errorf("exit %d, %s%s", code, out, errs)
		}
	}
	r := launch(t, "serve", "--config", file)
	if status, _ := push(t, http.DefaultClient, r.deliveries, "g-1", "{}"); status != 200 {
		t.Errorf("status %d", status)
	}
	eventually(t, "the event is done", func() bool { return state(t, file, "g-1") == "done 1" })
	r.stop()
	if code := <-r.ended; code != exitOK {
		t.Errorf("exit %d: %s", code, r.errs.String())
	}
	if got := state(t, file, "g-1"); got != "done 1" { // without a server
		t.Errorf("the event is %q", got)
	}
}

func TestOnlyPostgreSQLIsMigrated(t *testing.T) {
	t.Parallel()
	code, _, errs := run(t, "store", "migrate", "--config", configured(t, "store: badger:./data\n"))
	if code != exitUsage || !strings.Contains(errs, "a store in files needs none") {
		t.Errorf("exit %d, %s", code, errs)
	}
}

// withLogin returns a connection string with another user and password.
func withLogin(t *testing.T, dsn, user, password string) string {
	t.Helper()
	u, err := url.Parse(dsn)
	if err != nil {
		t.Fatal(err)
	}
	u.User = url.UserPassword(user, password)
	return u.String()
}

// TestNoOutputHasThePassword runs commands with databases that cannot be used.
func TestNoOutputHasThePassword(t *testing.T) {
	t.Parallel()
	const secret = "hunter2-planted"
	good := withLogin(t, pgtest.URL(t), "eyelet", secret)
	if pgtest.PID() == 0 {
		t.Skip("the server of these tests takes any password; others do not: unset EYELET_TEST_POSTGRES")
	}
	for what, store := range map[string]string{
		"a good one":        good,
		"an unreadable one": "postgres://u:" + secret + "@h:port/db",
		"a wrong host":      "postgres://u:" + secret + "@127.0.0.1:1/db?connect_timeout=1",
		"a refused login":   withLogin(t, good, "mallory", secret),
		"a wrong parameter": good + "&no_such=" + secret,
	} {
		file := onPostgres(t, store, "handlers: [{producer: gh, type: \"*\", forward: \"http://127.0.0.1:1\"}]\n")
		ran := 0
		for _, args := range [][]string{
			{"config", "check"}, {"config", "show"}, {"config", "show", "-o", "json"}, {"store", "migrate"},
			{"store", "migrate", "--print"}, {"store", "check"}, {"store", "backup", "-"},
			{"events", "list"}, {"events", "list", "--state", "dead"}, {"targets", "list"}, {"events", "tail"},
		} {
			_, out, errs := run(t, append(args, "--config", file)...)
			if strings.Contains(out+errs, "planted") {
				t.Errorf("%s: %v: %s%s", what, args, out, errs)
			}
			if out+errs != "" {
				ran++
			}
		}
		if ran < 10 {
			t.Errorf("%s: only %d commands printed something", what, ran)
		}
		ctx, cancel := context.WithCancel(t.Context())
		r := &bytes.Buffer{}
		p := &program{In: strings.NewReader(""), Out: r, Err: r, Serving: func(string, string) { cancel() }}
		p.Starting = func(_, operations string) {
			if what == "a wrong host" {
				defer cancel()
			}
			for _, path := range []string{"/readyz", "/metrics", "/policy"} {
				if _, _, body := fetch(t, getRequest(t, "http://"+operations+path)); strings.Contains(body, "planted") {
					t.Errorf("%s: %s: %s", what, path, body)
				}
			}
		}
		code := p.Run(ctx, "serve", "--config", file, "--log-level", "debug")
		cancel()
		if strings.Contains(r.String(), "planted") || r.Len() == 0 && what != "a wrong host" {
			t.Errorf("%s: serve: exit %d, %s", what, code, r.String())
		}
		if refused := what != "a good one" && what != "a wrong host"; refused != (code == exitUsage) {
			t.Errorf("%s: serve: exit %d, %s", what, code, r.String())
		}
		if left, _ := filepath.Glob(filepath.Join(filepath.Dir(file), "state", "*.addr")); len(left) > 0 {
			t.Errorf("%s: %v was left", what, left)
		}
	}
}

func TestStoreCommandsKnowPostgreSQL(t *testing.T) {
	t.Parallel()
	dsn := pgtest.URL(t)
	file := migrated(t, dsn, "handlers: [{producer: gh, type: \"*\", stdout: true}]\n")
	r := launch(t, "serve", "--config", file)
	pushOwn(t, r, "g-1")
	eventually(t, "the event is done", func() bool { return state(t, file, "g-1") == "done 1" })
	out, _ := command(t, 0, "", "store", "check", "--config", file)
	if !strings.Contains(out, "0 pending, 0 running, 1 done") || !strings.HasSuffix(out, "0 promises\n") {
		t.Error(out)
	}
	out, _ = command(t, 0, "", "store", "check", "-o", "json", "--config", file)
	if !strings.Contains(out, `"events":1`) {
		t.Error(out)
	}
	for hint, args := range map[string][]string{
		"restore a backup with pg_restore": {"store", "check", "--repair"},
		"pg_dump --username=USER":          {"store", "backup", "x"},
	} {
		code, _, errs := run(t, append(args, "--config", file)...)
		if code != exitUsage || !strings.Contains(errs, "hint: "+hint) {
			t.Errorf("%v: exit %d, %s", args, code, errs)
		}
	}
	code, _, errs := run(t, "store", "restore", "x")
	if code != exitUsage || !strings.Contains(errs, "pg_restore restores") {
		t.Errorf("exit %d, %s", code, errs)
	}
}

// TestTheLineForABackupWorks runs it.
func TestTheLineForABackupWorks(t *testing.T) {
	t.Parallel()
	dsn := pgtest.URL(t)
	program, err := pgserver.Find("pg_dump")
	if err != nil {
		pgtest.Programs(t)
		t.Fatal(err)
	}
	file := migrated(t, dsn, "")
	_, _, errs := run(t, "store", "backup", "-", "--config", file)
	_, line, _ := strings.Cut(strings.TrimSpace(errs), "hint: ")
	u, err := url.Parse(dsn)
	if err != nil {
		t.Fatal(err)
	}
	to := filepath.Join(t.TempDir(), "backup")
	line = strings.NewReplacer("USER", u.User.Username(), "FILE", to).Replace(line)
	c := exec.Command("sh", "-c", line)
	password, _ := u.User.Password()
	c.Env = append(os.Environ(), "PATH="+filepath.Dir(program)+":"+os.Getenv("PATH"), "PGPASSWORD="+password)
	if out, err := c.CombinedOutput(); err != nil {
		t.Fatalf("%s: %v: %s", line, err, out)
	}
	if dump, err := os.ReadFile(to); err != nil || !bytes.Contains(dump, []byte("remembered")) {
		t.Errorf("the backup has no tables: %v", err)
	}
}
