package pgstore

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/eyelet-dev/eyelet/dedup"
	"github.com/eyelet-dev/eyelet/internal/pgtest"
)

func TestServersThatBreakAPromiseAreRefused(t *testing.T) {
	t.Parallel()
	good := serverSettings{
		version: 150003, encoding: "UTF8", fsync: "on", full: "on", sync: "on", isolation: "read committed",
		readOnly: "off",
	}
	if err := good.refused(); err != nil || good.durability() != dedup.DurableMachine {
		t.Errorf("good settings: %v, %v", err, good.durability())
	}
	for want, change := range map[string]func(*serverSettings){
		"version 14":                  func(s *serverSettings) { s.version = 140011 },
		"LATIN1":                      func(s *serverSettings) { s.encoding = "LATIN1" },
		"fsync is off":                func(s *serverSettings) { s.fsync = "off" },
		"full_page_writes is off":     func(s *serverSettings) { s.full = "off" },
		"synchronous_commit is off":   func(s *serverSettings) { s.sync = "off" },
		"synchronous_commit is local": func(s *serverSettings) { s.sync, s.standbys = "local", "one" },
		"default_transaction_isol":    func(s *serverSettings) { s.isolation = "serializable" },
		"standby":                     func(s *serverSettings) { s.recovers = true },
		"read-only":                   func(s *serverSettings) { s.readOnly = "on" },
	} {
		bad := good
		change(&bad)
		err := bad.refused()
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", want, err)
		}
		passes := want == "standby" || want == "read-only"
		if unavailable := (&dedup.ErrUnavailable{}); errors.As(err, &unavailable) != passes {
			t.Errorf("%s: %v", want, err)
		}
	}
	for sync, want := range map[string]dedup.Durability{
		"on": dedup.DurableReplicated, "remote_apply": dedup.DurableReplicated, "remote_write": dedup.DurableMachine,
	} {
		s := good
		s.sync, s.standbys = sync, "one"
		if got := s.durability(); got != want || s.refused() != nil {
			t.Errorf("synchronous_commit %s with standbys: %v, %v", sync, got, s.refused())
		}
	}
}

func TestOpenChecksTheServerOfEveryConnection(t *testing.T) {
	t.Parallel()
	pgtest.Direct(t)
	dsn, schema := newSchema(t)
	for setting, want := range map[string]string{
		"synchronous_commit=off":                          "acknowledged events could be lost",
		`default_transaction_isolation=repeatable\\ read`: "set it to read committed",
		"default_transaction_read_only=on":                "read-only",
	} {
		_, err := Open(t.Context(), dsn+" options='-c "+setting+"'", Options{Schema: schema})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", setting, err)
		}
	}
	c := connected(t, dsn)
	latin := fmt.Sprintf("latin%d", os.Getpid())
	if _, err := c.Exec(t.Context(), "CREATE DATABASE "+latin+" ENCODING LATIN1 TEMPLATE template0"); err != nil {
		t.Fatal(err)
	}
	defer execute(t, dsn, "", "DROP DATABASE "+latin+" WITH (FORCE)")
	_, err := Open(t.Context(), dsn+" dbname="+latin, Options{Schema: schema})
	for _, err := range []error{err, Migrate(t.Context(), dsn+" dbname="+latin, "")} {
		if err == nil || !strings.Contains(err.Error(), "encoded in LATIN1: create it with ENCODING UTF8") {
			t.Errorf("a database in LATIN1: %v", err)
		}
	}
}

func TestErrorsOfOpenHaveNoPassword(t *testing.T) {
	t.Parallel()
	for _, dsn := range []string{
		"postgres://eyelet:hunter2@127.0.0.1:1/db?connect_timeout=1",
		"postgres://eyelet:hun:ter2@host:port/db", "host=x password='hunter2", "password=hunter2 sslmode=wrong",
		"password=hun ter2", "host=x pasword=hunter2 port=z", // pgx shows these
	} {
		_, openErr := Open(t.Context(), dsn, Options{})
		for call, err := range map[string]error{"Open": openErr, "Migrate": Migrate(t.Context(), dsn, "")} {
			if err == nil || strings.Contains(err.Error(), "ter2") {
				t.Errorf("%s: %v", call, err)
			}
		}
	}
	_, err := Open(t.Context(), "postgres://127.0.0.1:1/db?connect_timeout=1", Options{})
	var unavailable *dedup.ErrUnavailable
	if !errors.As(err, &unavailable) || unavailable.RetryAfter != soon {
		t.Errorf("no server: %v", err)
	}
}

// migrateAtOnce lets four programs make the same tables.
func migrateAtOnce(t *testing.T, dsn, schema string) {
	t.Helper()
	errs := make([]error, 4)
	var wg sync.WaitGroup
	for i := range errs {
		wg.Go(func() { errs[i] = Migrate(t.Context(), dsn, schema) })
	}
	wg.Wait()
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
}

// TestMigrationsBehindPgBouncerRunOnce lets programs migrate on connections that have looked for
// the tables before.
func TestMigrationsBehindPgBouncerRunOnce(t *testing.T) {
	t.Parallel()
	dsn := pgtest.Pooler(t)
	for range 8 {
		schema := fmt.Sprintf("At once %d-%d", os.Getpid(), schemas.Add(1))
		var wg sync.WaitGroup
		for range 8 {
			wg.Go(func() { _, _ = Open(t.Context(), dsn, Options{Schema: schema}) })
		}
		wg.Wait()
		migrateAtOnce(t, dsn, schema)
	}
}

func TestMigrationsRunOnceAndOpenNeedsThem(t *testing.T) {
	t.Parallel()
	dsn := pgtest.DSN(t)
	schema := fmt.Sprintf(`Migrated "%d-%d"; it's`, os.Getpid(), schemas.Add(1))
	_, err := Open(t.Context(), dsn, Options{Schema: schema})
	if err == nil || !strings.Contains(err.Error(), "version 0") || !strings.Contains(err.Error(), "pgstore.Migrate") {
		t.Errorf("without tables: %v", err)
	}
	migrateAtOnce(t, dsn, schema)
	s := opened(t, dsn, Options{Schema: schema})
	everything(t, s)
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}

func TestAPoolerIsRecognized(t *testing.T) {
	t.Parallel()
	_, schema := newSchema(t)
	for dsn, want := range map[string]pgx.QueryExecMode{
		pgtest.DSN(t): pgx.QueryExecModeCacheStatement, pgtest.Pooler(t): pgx.QueryExecModeCacheDescribe,
	} {
		s := opened(t, dsn, Options{Schema: schema})
		if got := s.db.pool.Config().ConnConfig.DefaultQueryExecMode; got != want {
			t.Errorf("statements are sent in mode %v, want %v", got, want)
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}
}

// TestTheOwnerOfASchemaMigrates connects as a role that may not create schemas.
func TestTheOwnerOfASchemaMigrates(t *testing.T) {
	t.Parallel()
	pgtest.Direct(t)
	dsn := pgtest.DSN(t)
	c := connected(t, dsn)
	role := fmt.Sprintf("owner_%d_%d", os.Getpid(), schemas.Add(1))
	schema := "Schema of the " + role
	sql := inSchema("CREATE ROLE "+role+" LOGIN; CREATE SCHEMA {{schema}} AUTHORIZATION "+role, schema)
	if _, err := c.Exec(t.Context(), sql, pgx.QueryExecModeSimpleProtocol); err != nil {
		t.Fatal(err)
	}
	dsn += " user=" + role
	if err := errors.Join(Migrate(t.Context(), dsn, schema), Migrate(t.Context(), dsn, schema)); err != nil {
		t.Fatal(err)
	}
	if r, err := Check(t.Context(), dsn, schema); err != nil || !r.Sound() {
		t.Errorf("%+v, %v", r, err)
	}
	if err := Migrate(t.Context(), dsn, schema+"'s"); codeOf(err) != "42501" {
		t.Errorf("a schema that does not exist: %v", err)
	}
}

// TestAReceiverNeedsFewRights uses a store as a role with the rights that docs/postgres.md grants,
// also on tables of the next version.
func TestAReceiverNeedsFewRights(t *testing.T) {
	t.Parallel()
	pgtest.Direct(t)
	dsn, schema := freshSchema(t)
	c := connected(t, dsn)
	role := fmt.Sprintf("receiver_%d_%d", os.Getpid(), schemas.Add(1))
	page, err := os.ReadFile(filepath.Join("..", "..", "docs", "postgres.md"))
	if err != nil {
		t.Fatal(err)
	}
	for _, part := range strings.Split(string(page), "```sql\n")[1:] {
		grants, _, _ := strings.Cut(part, "```")
		grants = strings.ReplaceAll(grants, "eyelet_receiver", role)
		grants = strings.NewReplacer(" eyelet ", " {{schema}} ", " eyelet.", " {{schema}}.").Replace(grants)
		grants = inSchema(grants, schema)
		if _, err := c.Exec(t.Context(), grants, pgx.QueryExecModeSimpleProtocol); err != nil {
			t.Fatalf("%s: %v", grants, err)
		}
	}
	if _, err := c.Exec(t.Context(), inSchema(nextVersion(t), schema), pgx.QueryExecModeSimpleProtocol); err != nil {
		t.Fatal(err)
	}
	s := opened(t, dsn+" user="+role, Options{Schema: schema})
	everything(t, s)
	claim(t, s, event("in a transaction", "ship"), dedup.New)
	w := takeOne(t, s)
	err = errors.Join(s.Extend(t.Context(), w.Lease, time.Minute), s.InTx(t.Context(), w.Lease, txTypes["pgx"],
		func(ctx context.Context, tx any) (dedup.Result, error) {
			_, err := tx.(pgx.Tx).Exec(ctx, inSchema("INSERT INTO {{schema}}.region (name) VALUES ('later')", schema))
			return done, err
		}))
	if err != nil {
		t.Error(err)
	}
	for _, forbidden := range []string{
		"CREATE TABLE {{schema}}.other ()", "INSERT INTO {{schema}}.migration VALUES (99)", "TRUNCATE {{schema}}.event",
		"ALTER TABLE {{schema}}.task ADD COLUMN other int",
	} {
		if _, err := s.db.pool.Exec(t.Context(), s.db.sql(forbidden)); codeOf(err) != "42501" {
			t.Errorf("%s: %v", forbidden, err)
		}
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	if r, err := Check(t.Context(), dsn+" user="+role, schema); err != nil || !r.Sound() {
		t.Errorf("check: %+v, %v", r, err)
	}
}

// TestBrokenConnectionsAreReplaced ends all connections of a store, again and again, while it is
// used.
func TestBrokenConnectionsAreReplaced(t *testing.T) {
	t.Parallel()
	pgtest.Direct(t)
	dsn, schema := freshSchema(t)
	name := strings.ReplaceAll(schema, " ", "-")
	s := opened(t, dsn+" application_name="+name, Options{Schema: schema})
	c := connected(t, dsn)
	broken := 0
	for i := range 40 {
		const kill = "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE application_name = $1"
		var n int
		if err := c.QueryRow(t.Context(), kill, name).Scan(&n); err != nil || n == 0 && i > 0 {
			t.Fatalf("%d connections are ended, %v", n, err)
		}
		for tries := 0; ; tries++ {
			ds, err := s.Claim(t.Context(), event(fmt.Sprint("k", i), "ship"))
			if unavailable := (&dedup.ErrUnavailable{}); errors.As(err, &unavailable) && tries < 20 {
				broken++
				continue
			}
			if err != nil || ds[0].Verdict != dedup.New && tries == 0 {
				t.Fatalf("claim %d: %+v, %v", i, ds, err)
			}
			break
		}
	}
	if broken == 0 {
		t.Error("no call met a broken connection")
	}
	if st, err := s.Stats(t.Context()); err != nil || st.Pending != 40 {
		t.Errorf("stats %+v, %v", st, err)
	}
}

// TestOpenWaitsForAServerThatEndsUnderIt: a server that ends between two statements of Open may be
// back soon, so the error is that of one that cannot be reached.
func TestOpenWaitsForAServerThatEndsUnderIt(t *testing.T) {
	t.Parallel()
	for _, err := range []error{
		&net.OpError{Op: "write", Err: syscall.EPIPE}, io.ErrUnexpectedEOF, fmt.Errorf("receive message: %w", io.EOF),
	} {
		if _, unavailable := errors.AsType[*dedup.ErrUnavailable](openError(err)); !unavailable {
			t.Errorf("%v: not an ErrUnavailable", err)
		}
	}
	if _, unavailable := errors.AsType[*dedup.ErrUnavailable](openError(errors.New("fsync is off"))); unavailable {
		t.Error("a server that would break a promise is not waited for")
	}
}

func TestTLSOfServersBeyondThisMachineIsVerified(t *testing.T) {
	for _, name := range []string{"PGHOST", "PGSSLMODE", "PGSSLROOTCERT"} {
		t.Setenv(name, "")
	}
	for dsn, want := range map[string]string{
		"postgres://u@db.example/d":                                     "db.example", // may continue in plain text
		"postgres://u@db.example/d?sslmode=disable":                     "db.example",
		"postgres://u@db.example/d?sslmode=allow":                       "db.example",
		"postgres://u@db.example/d?sslmode=require":                     "db.example",
		"postgres://u@db.example/d?sslmode=verify-ca":                   "",
		"postgres://u@db.example/d?sslmode=verify-full":                 "",
		"host=db.example dbname=d":                                      "db.example",
		"postgres://u@a.example,b.example/d?sslmode=prefer":             "a.example b.example",
		"postgres://u@127.0.0.1,b.example/d":                            "b.example",
		"postgres://u@localhost/d":                                      "",
		"postgres://u@[::1]:5433/d":                                     "",
		"postgres://u@/d?host=/run/postgresql":                          "",
		"postgres://u@a.example,b.example/d?sslmode=verify-full&port=1": "",
	} {
		if hosts, err := Unverified(dsn); err != nil || strings.Join(hosts, " ") != want {
			t.Errorf("%s: %q, %v, want %q", dsn, hosts, err, want)
		}
	}
	t.Setenv("PGSSLMODE", "verify-full")
	if hosts, err := Unverified("postgres://u@db.example/d"); err != nil || len(hosts) > 0 {
		t.Errorf("PGSSLMODE=verify-full: %q, %v", hosts, err)
	}
	if _, err := Unverified("postgres://u:secret@db.example/d?sslmode=strict"); err == nil ||
		strings.Contains(err.Error(), "secret") {
		t.Errorf("a wrong sslmode: %v", err)
	}
}
