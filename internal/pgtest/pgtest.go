// Package pgtest runs a PostgreSQL server for the tests of one package.
//
// The server is that of EYELET_TEST_POSTGRES, a connection string, or a new one of the programs
// on this machine. Without either, tests that need it are skipped, or fail if
// EYELET_REQUIRE_POSTGRES is 1. Call [Stop] from TestMain after the tests.
package pgtest

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
)

const (
	existing = "EYELET_TEST_POSTGRES"
	required = "EYELET_REQUIRE_POSTGRES"
	install  = "install PostgreSQL 15 or newer (Debian: apt-get install postgresql pgbouncer), or set " + existing
	prefix   = "eyelet-postgres-"
	patience = 30 * time.Second
)

// server is what runs for the tests of this process.
var server struct {
	sync.Mutex
	dir              string
	postgres, pooler *process
	err              error
	dsn, poolerDSN   string
}

// DSN returns the connection string of the server, which it starts for the first caller. The
// database is called postgres and belongs to the user. Each test should use a schema of its own.
func DSN(t testing.TB) string {
	t.Helper()
	server.Lock()
	defer server.Unlock()
	if server.dsn == "" && server.err == nil {
		if server.dsn = os.Getenv(existing); server.dsn == "" {
			server.dsn, server.err = start()
		}
	}
	need(t, server.err)
	return server.dsn
}

// Pooler returns the connection string of a PgBouncer in transaction mode before the server. It
// is missing, like a missing server, if PgBouncer is not installed or the server is not ours.
func Pooler(t testing.TB) string {
	t.Helper()
	DSN(t)
	server.Lock()
	defer server.Unlock()
	var err error
	if server.poolerDSN == "" {
		server.poolerDSN, err = startPooler()
	}
	need(t, err)
	return server.poolerDSN
}

// need skips the test, or fails it if the server is required.
func need(t testing.TB, err error) {
	t.Helper()
	switch {
	case err == nil:
	case os.Getenv(required) == "1":
		t.Fatalf("%s=1, but %v", required, err)
	default:
		t.Skip(err)
	}
}

// Stop stops the servers that were started and removes their files.
func Stop() {
	server.Lock()
	defer server.Unlock()
	for _, p := range []*process{server.pooler, server.postgres} {
		if p != nil {
			p.stop()
		}
	}
	if server.dir != "" {
		_ = os.RemoveAll(server.dir)
	}
	server.pooler, server.postgres, server.dir, server.dsn, server.poolerDSN = nil, nil, "", "", ""
}

// PID returns the process id of the server, 0 if this process did not start it.
func PID() int {
	server.Lock()
	defer server.Unlock()
	if server.postgres == nil {
		return 0
	}
	return server.postgres.cmd.Process.Pid
}

// start runs initdb and the server.
func start() (dsn string, err error) {
	initdb, err := find("initdb")
	if err != nil {
		return "", err
	}
	dir, err := newDir()
	if err != nil {
		return "", err
	}
	server.dir = dir
	data := filepath.Join(dir, "data")
	init := command(initdb, "-D", data, "-U", "eyelet", "-A", "trust", "-E", "UTF8", "--locale=C", "--no-sync")
	if out, err := init.CombinedOutput(); err != nil {
		return "", fmt.Errorf("initdb: %w: %s", err, out)
	}
	server.postgres, err = launch(dir, filepath.Join(filepath.Dir(initdb), "postgres"), "-D", data, "-k", dir,
		"-c", "listen_addresses=", "-c", "max_connections=200", "-c", "shared_buffers=64MB",
		"-c", "log_min_messages=fatal", "-c", "log_statement=none", "-c", "log_min_error_statement=panic",
		"-c", "max_wal_size=4GB")
	if err != nil {
		return "", err
	}
	dsn = "host=" + dir + " user=eyelet dbname=postgres"
	return dsn, reachable(dsn, server.postgres)
}

// startPooler runs PgBouncer.
func startPooler() (dsn string, err error) {
	if server.dir == "" {
		return "", errors.New("PgBouncer runs before a server of these tests only: unset " + existing)
	}
	program, err := find("pgbouncer")
	if err != nil {
		return "", err
	}
	config := filepath.Join(server.dir, "pgbouncer.ini")
	text := "[databases]\npostgres = host=" + server.dir + " user=eyelet\n[pgbouncer]\npool_mode = transaction\n" +
		"auth_type = any\nunix_socket_dir = " + server.dir + "\nlisten_port = 6432\nmax_client_conn = 500\n" +
		"default_pool_size = 40\nlog_connections = 0\nlog_disconnections = 0\nlog_stats = 0\n"
	if err := os.WriteFile(config, []byte(text), 0o644); err != nil {
		return "", err
	}
	if server.pooler, err = launch(server.dir, program, config); err != nil {
		return "", err
	}
	dsn = "host=" + server.dir + " port=6432 user=eyelet dbname=postgres"
	return dsn, reachable(dsn+" default_query_exec_mode=exec", server.pooler)
}

// find returns the path of a program of PostgreSQL, the newest version first.
func find(program string) (string, error) {
	var newest []string
	for _, pattern := range []string{
		"/usr/lib/postgresql/*/bin", "/usr/pgsql-*/bin", "/opt/homebrew/opt/postgresql@*/bin",
		"/usr/local/opt/postgresql@*/bin", "/opt/homebrew/bin", "/usr/local/bin", "/usr/sbin",
	} {
		dirs, _ := filepath.Glob(pattern) // the patterns are right
		slices.SortFunc(dirs, func(a, b string) int { return version(b) - version(a) })
		newest = append(newest, dirs...)
	}
	if path, err := exec.LookPath(program); err == nil {
		return path, nil
	}
	for _, dir := range newest {
		if path, err := exec.LookPath(filepath.Join(dir, program)); err == nil {
			return path, nil
		}
	}
	return "", fmt.Errorf("%s was not found: %s", program, install)
}

// version returns the number in the name of a folder.
func version(dir string) int {
	digits := strings.FieldsFunc(dir, func(r rune) bool { return r < '0' || r > '9' })
	if len(digits) == 0 {
		return 0
	}
	n, _ := strconv.Atoi(digits[len(digits)-1])
	return n
}

// newDir makes a directory for the server: in memory if possible, where a flush costs nothing,
// unless TMPDIR is set. It removes those of processes that were killed.
func newDir() (string, error) {
	var errs []error
	parents := []string{os.TempDir()}
	if os.Getenv("TMPDIR") == "" {
		parents = []string{"/dev/shm", os.TempDir()}
	}
	for _, parent := range parents {
		left, _ := filepath.Glob(filepath.Join(parent, prefix+"*"))
		for _, dir := range left {
			pid, _, _ := strings.Cut(strings.TrimPrefix(filepath.Base(dir), prefix), "-")
			if n, err := strconv.Atoi(pid); err == nil && !alive(n) {
				_ = os.RemoveAll(dir)
			}
		}
		dir, err := os.MkdirTemp(parent, prefix+strconv.Itoa(os.Getpid())+"-")
		if err == nil {
			return dir, giveAway(dir)
		}
		if !errors.Is(err, fs.ErrNotExist) {
			errs = append(errs, err)
		}
	}
	return "", errors.Join(errs...)
}

// reachable waits until a server accepts connections.
func reachable(dsn string, p *process) error {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	for {
		c, err := pgx.Connect(ctx, dsn)
		if err == nil {
			return c.Close(ctx)
		}
		select {
		case <-p.ended:
			return fmt.Errorf("%s ended: %s", p.cmd.Path, p.output())
		case <-ctx.Done():
			return fmt.Errorf("%s: %w: %s", p.cmd.Path, err, p.output())
		case <-time.After(20 * time.Millisecond):
		}
	}
}
