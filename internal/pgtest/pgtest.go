// Package pgtest runs a PostgreSQL server for the tests of one package.
//
// The server is that of EYELET_TEST_POSTGRES, a connection string. If EYELET_REQUIRE_POSTGRES is 1,
// it is a new one of the programs on this machine, which must be there. Without either, tests that
// need a server are skipped, whatever is installed. Call [Main] from TestMain.
package pgtest

import (
	"context"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"
	"go.uber.org/goleak"

	"github.com/eyelet-dev/eyelet/internal/pgserver"
)

const (
	existing = "EYELET_TEST_POSTGRES"
	required = "EYELET_REQUIRE_POSTGRES"
)

// server is what runs for the tests of this process.
var server struct {
	sync.Mutex
	dir            string
	postgres       *pgserver.Server
	pooler         *pgserver.Process
	err            error
	dsn, poolerDSN string
	pooled         bool // the server is behind a pooler
}

// DSN returns the connection string of the server, which it starts for the first caller. The
// database is called postgres and belongs to the user. Each test should use a schema of its own.
func DSN(t testing.TB) string {
	t.Helper()
	if os.Getenv(existing) == "" && os.Getenv(required) != "1" {
		t.Skip("it needs PostgreSQL: set " + required + "=1, or " + existing + " to a connection string")
	}
	server.Lock()
	defer server.Unlock()
	if server.dsn == "" && server.err == nil {
		if given := os.Getenv(existing); given != "" {
			server.dsn, server.pooled, server.err = use(given)
		} else {
			server.dsn, server.err = start()
		}
	}
	if server.err != nil {
		t.Fatal(server.err)
	}
	return server.dsn
}

// use returns a given connection string as name=value pairs, to which tests add others, and whether
// a pooler is in between: it gives its clients process ids of its own.
func use(given string) (dsn string, pooled bool, err error) {
	config, err := pgx.ParseConfig(given)
	if err != nil {
		return "", false, err
	}
	dsn = given
	if strings.Contains(given, "://") {
		dsn = fmt.Sprintf("host=%s port=%d user=%s dbname=%s", config.Host, config.Port, config.User, config.Database)
		if config.Password != "" {
			dsn += " password=" + config.Password
		}
	}
	c, err := pgx.ConnectConfig(context.Background(), config)
	if err != nil {
		return "", false, err
	}
	defer func() { _ = c.Close(context.Background()) }()
	var pid uint32
	err = c.QueryRow(context.Background(), "SELECT pg_backend_pid()", pgx.QueryExecModeExec).Scan(&pid)
	return dsn, c.PgConn().PID() != pid, err
}

// Direct skips a test that needs connections of its own to the server if there is a pooler.
func Direct(t testing.TB) {
	t.Helper()
	DSN(t)
	server.Lock()
	defer server.Unlock()
	if server.pooled {
		t.Skip("it needs a server without a pooler before it in " + existing)
	}
}

// URL returns the connection string of the server as a URL.
func URL(t testing.TB) string {
	t.Helper()
	dsn := DSN(t)
	u, q := url.URL{Scheme: "postgres", Path: "/"}, url.Values{}
	for pair := range strings.FieldsSeq(dsn) {
		switch name, value, _ := strings.Cut(pair, "="); name {
		case "user":
			u.User = url.User(value)
		case "dbname":
			u.Path += value
		default:
			q.Set(name, value)
		}
	}
	u.RawQuery = q.Encode()
	return u.String()
}

// Programs skips a test that starts servers of its own, unless EYELET_REQUIRE_POSTGRES is 1.
func Programs(t testing.TB) {
	t.Helper()
	if os.Getenv(required) != "1" {
		t.Skip("it starts PostgreSQL: set " + required + "=1")
	}
}

// Pooler returns the connection string of a PgBouncer in transaction mode before the server. It
// skips the test if the server is not ours and has none.
func Pooler(t testing.TB) string {
	t.Helper()
	DSN(t)
	server.Lock()
	defer server.Unlock()
	switch {
	case server.pooled:
		return server.dsn
	case server.dir == "":
		t.Skipf("it needs a pooler before the server in %s, or none there and %s=1", existing, required)
	case server.poolerDSN == "":
		dsn, err := startPooler()
		if err != nil {
			t.Fatal(err)
		}
		server.poolerDSN = dsn
	}
	return server.poolerDSN
}

// Main runs the tests of a package, stops the servers, and fails if goroutines are left.
func Main(m *testing.M) {
	code := m.Run()
	Stop()
	if err := goleak.Find(); code == 0 && err != nil {
		fmt.Println(err)
		code = 1
	}
	os.Exit(code)
}

// Stop stops the servers that were started and removes their files.
func Stop() {
	server.Lock()
	defer server.Unlock()
	if server.pooler != nil {
		server.pooler.Stop()
	}
	if server.postgres != nil {
		server.postgres.Stop()
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
	return server.postgres.PID()
}

// start makes a server and starts it.
func start() (dsn string, err error) {
	if server.dir, err = pgserver.TempDir(); err != nil {
		return "", err
	}
	made, err := pgserver.New(filepath.Join(server.dir, "data"), server.dir)
	if err != nil {
		return "", err
	}
	server.postgres = made
	return made.DSN(), made.Start(context.Background())
}

// startPooler runs PgBouncer.
func startPooler() (dsn string, err error) {
	program, err := pgserver.Find("pgbouncer")
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
	if server.pooler, err = pgserver.Launch(server.dir, program, config); err != nil {
		return "", err
	}
	dsn = "host=" + server.dir + " port=6432 user=eyelet dbname=postgres"
	return dsn, server.pooler.Reachable(context.Background(), dsn+" default_query_exec_mode=exec")
}
