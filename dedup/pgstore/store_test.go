package pgstore

import (
	"context"
	"fmt"
	"os"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/eyelet-dev/eyelet/dedup"
	"github.com/eyelet-dev/eyelet/dedup/deduptest"
	"github.com/eyelet-dev/eyelet/internal/pgtest"
)

func TestMain(m *testing.M) {
	if os.Getenv("EYELET_LONG") == "" && os.Getenv("EYELET_RUNS") == "" {
		_ = os.Setenv("EYELET_RUNS", "1") // of the model; see package deduptest
	}
	pgtest.Main(m)
}

var (
	schemas atomic.Int64
	emptied = make(chan string, 1000) // schemas that earlier tests left empty, and as they were made
)

// shape lists what a schema has: relations with their columns and options, triggers, functions and
// constraints.
const shape = `SELECT md5(string_agg(thing, ',' ORDER BY thing)) FROM (
SELECT concat_ws(' ', relname, reloptions, attname) thing FROM pg_class
LEFT JOIN pg_attribute ON attrelid = pg_class.oid AND attnum > 0 WHERE relnamespace = '{{schema}}'::regnamespace
UNION ALL SELECT tgname FROM pg_trigger JOIN pg_class ON pg_class.oid = tgrelid
WHERE relnamespace = '{{schema}}'::regnamespace
UNION ALL SELECT proname FROM pg_proc WHERE pronamespace = '{{schema}}'::regnamespace
UNION ALL SELECT conname FROM pg_constraint WHERE connamespace = '{{schema}}'::regnamespace) things`

// shapeOf returns a digest of what a schema has.
func shapeOf(t testing.TB, dsn, schema string) (sum string) {
	t.Helper()
	c := connected(t, dsn)
	defer c.Close(context.Background())
	row := c.QueryRow(context.Background(), inSchema(shape, schema), pgx.QueryExecModeSimpleProtocol)
	if err := row.Scan(&sum); err != nil {
		t.Fatal(err)
	}
	return sum
}

// newSchema returns a schema with the empty tables of a store.
func newSchema(t testing.TB) (dsn, schema string) {
	t.Helper()
	dsn = pgtest.DSN(t)
	select {
	case schema = <-emptied:
	default:
		schema = fmt.Sprintf("Test's %d-%d", os.Getpid(), schemas.Add(1))
		if err := Migrate(t.Context(), dsn, schema); err != nil {
			t.Fatal(err)
		}
	}
	made := shapeOf(t, dsn, schema)
	t.Cleanup(func() {
		if !t.Failed() && shapeOf(t, dsn, schema) == made {
			empty(t, dsn, schema)
		}
	})
	return dsn, schema
}

// empty leaves a schema for another test, which is faster than making the tables again. Its stores
// are closed, and no statement of theirs runs any more.
func empty(t testing.TB, dsn, schema string) {
	t.Helper()
	sql := "UPDATE {{schema}}.remembered SET evicted = 0;"
	for _, table := range []string{"event", "task", "alias", "trace", "handler", "note"} {
		sql += "DELETE FROM {{schema}}." + table + ";"
	}
	execute(t, dsn, schema, sql, pgx.QueryExecModeSimpleProtocol)
	emptied <- schema
}

// connected connects to the server until the end of a test.
func connected(t testing.TB, dsn string) *pgx.Conn {
	t.Helper()
	c, err := pgx.Connect(context.Background(), dsn)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close(context.Background()) })
	return c
}

// opened opens a store until the end of a test.
func opened(t testing.TB, dsn string, o Options) *Store {
	t.Helper()
	s, err := Open(t.Context(), dsn, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// openAt opens a store on the clock of a test.
func openAt(t testing.TB, dsn, schema string, clock *deduptest.Clock) *Store {
	t.Helper()
	return opened(t, dsn, Options{Schema: schema, clock: clock.Now, poll: 20 * time.Millisecond})
}

// scan reads one row. Strings of the statement name the schema.
func scan(t testing.TB, s *Store, sql string, args []any, to ...any) {
	t.Helper()
	if err := s.db.pool.QueryRow(context.Background(), s.db.sql(sql), args...).Scan(to...); err != nil {
		t.Fatal(err)
	}
}

func TestStoreKeepsTheContract(t *testing.T) {
	t.Parallel()
	suite(t, func(t *testing.T) string { return pgtest.DSN(t) })
}

// A pooler in transaction mode gives each transaction another connection of the server.
func TestStoreKeepsTheContractBehindPgBouncer(t *testing.T) {
	t.Parallel()
	long(t)
	suite(t, func(t *testing.T) string { return pgtest.Pooler(t) })
}

func suite(t *testing.T, dsn func(*testing.T) string) {
	t.Helper()
	deduptest.Run(t, deduptest.Harness{
		Open: func(t *testing.T, clock *deduptest.Clock) dedup.Store {
			_, schema := newSchema(t)
			return openAt(t, dsn(t), schema, clock)
		},
		Second: func(t *testing.T, s dedup.Store, clock *deduptest.Clock) dedup.Store {
			return openAt(t, dsn(t), s.(*Store).db.schema, clock)
		},
		Reopen: func(t *testing.T, s dedup.Store, clock *deduptest.Clock) dedup.Store {
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
			return openAt(t, dsn(t), s.(*Store).db.schema, clock)
		},
	})
}
