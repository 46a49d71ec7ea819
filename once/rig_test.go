package once_test

import (
	"context"
	"database/sql"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/pgx/v5/stdlib"

	"github.com/eyelet-dev/eyelet/internal/pgtest"
	"github.com/eyelet-dev/eyelet/once"
	"github.com/eyelet-dev/eyelet/once/oncepgx"
	"github.com/eyelet-dev/eyelet/receiver"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

var tables atomic.Int64

// rig is a table of marks and a table of effects, through one driver.
type rig struct {
	t       *testing.T
	dsn     string        // of the handlers
	pool    *pgxpool.Pool // beside the handlers
	effects string
	wire    *wire

	run   func(context.Context, receiver.Event[any], receiver.Next) error
	prune func(context.Context) error
	set   func(table string, keep time.Duration)
	sql   func() string // the statement that creates the table of marks
}

// each runs a test with each driver, and through a pooler in transaction mode.
func each(t *testing.T, test func(*rig)) {
	t.Helper()
	t.Run("sql", func(t *testing.T) {
		t.Parallel()
		r := newRig(t)
		db := stdlib.OpenDB(*r.config().ConnConfig)
		t.Cleanup(func() { _ = db.Close() })
		use(r, once.SQL(db))
		test(r)
	})
	t.Run("pgx", func(t *testing.T) {
		t.Parallel()
		overPgx(newRig(t), test)
	})
	t.Run("PgBouncer", func(t *testing.T) {
		t.Parallel()
		r := newRig(t)
		r.dsn = pgtest.Pooler(t) + " default_query_exec_mode=exec"
		overPgx(r, test)
	})
}

func overPgx(r *rig, test func(*rig)) {
	r.t.Helper()
	pool, err := pgxpool.NewWithConfig(r.t.Context(), r.config())
	if err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(pool.Close)
	use(r, oncepgx.Pool(pool))
	test(r)
}

func newRig(t *testing.T) *rig {
	t.Helper()
	r := &rig{t: t, dsn: pgtest.DSN(t), wire: &wire{}, effects: fmt.Sprint("effect", tables.Add(1))}
	pool, err := pgxpool.New(t.Context(), r.dsn)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	r.pool = pool
	r.exec("CREATE TABLE " + r.effects + " (event text, run int)")
	return r
}

// config is that of the handlers' connections.
func (r *rig) config() *pgxpool.Config {
	r.t.Helper()
	config, err := pgxpool.ParseConfig(r.dsn)
	if err != nil {
		r.t.Fatal(err)
	}
	config.ConnConfig.DialFunc = r.wire.dial
	return config
}

// use gives the rig its marks, and creates their table.
func use[Tx any](r *rig, m *once.Marks[Tx]) {
	r.t.Helper()
	m.Table = fmt.Sprint("done", tables.Add(1))
	r.run, r.prune, r.sql = m.Run, m.Prune, m.Schema
	r.set = func(table string, keep time.Duration) { m.Table, m.Keep = table, keep }
	r.exec(m.Schema())
}

func (r *rig) exec(statement string, args ...any) {
	r.t.Helper()
	if _, err := r.pool.Exec(context.Background(), statement, args...); err != nil {
		r.t.Fatalf("%s: %v", statement, err)
	}
}

// count returns the number that a query returns.
func (r *rig) count(query string, args ...any) (n int) {
	r.t.Helper()
	if err := r.pool.QueryRow(r.t.Context(), query, args...).Scan(&n); err != nil {
		r.t.Fatal(err)
	}
	return n
}

// want fails unless there are as many effects.
func (r *rig) want(effects int) {
	r.t.Helper()
	if n := r.count("SELECT count(*) FROM " + r.effects); n != effects {
		r.t.Errorf("%d effects, want %d", n, effects)
	}
}

// handle runs a handler that does what it is given after its effect.
func (r *rig) handle(ctx context.Context, ev receiver.Event[any], after func(ctx context.Context, tx any) error) error {
	return r.run(ctx, ev, func(ctx context.Context, ev receiver.Event[any]) (*receiver.Response, error) {
		tx := once.TxOf(ctx)
		if err := execTx(ctx, tx, "INSERT INTO "+r.effects+" VALUES ($1, $2)", ev.EventID, ev.Attempt); err != nil {
			return nil, err
		}
		return nil, after(ctx, tx)
	})
}

func execTx(ctx context.Context, tx any, statement string, args ...any) error {
	if std, ok := tx.(*sql.Tx); ok {
		_, err := std.ExecContext(ctx, statement, args...)
		return err
	}
	_, err := tx.(pgx.Tx).Exec(ctx, statement, args...)
	return err
}

func commitTx(ctx context.Context, tx any) error {
	if std, ok := tx.(*sql.Tx); ok {
		return std.Commit()
	}
	return tx.(pgx.Tx).Commit(ctx)
}

func rollbackTx(ctx context.Context, tx any) error {
	if std, ok := tx.(*sql.Tx); ok {
		return std.Rollback()
	}
	return tx.(pgx.Tx).Rollback(ctx)
}

func nothing(context.Context, any) error { return nil }

var accepted = time.Date(2026, 1, 2, 3, 4, 5, 678_901_734, time.UTC)

func event(id string) receiver.Event[any] {
	return receiver.Event[any]{EventID: id, Handler: "shop/order.paid", Accepted: accepted, Attempt: 1}
}
