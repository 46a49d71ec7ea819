package pgstore

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"reflect"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/pgx/v5/stdlib"

	"github.com/eyelet-dev/eyelet/dedup"
)

const (
	// maxReruns is how often a handler runs again because the database undid its transaction.
	maxReruns = 3
	// txGrace is how long a transaction may stand still after its handler should have returned.
	txGrace = 5 * time.Second
	// txTime is the time of a handler without a deadline.
	txTime = 30 * time.Second
)

var (
	errEnded = errors.New("the handler must not end its transaction: the store commits when it returns nil, " +
		"and undoes everything when it returns an error")
	errRolledBack = errors.New("the handler returned nil after a rollback, so nothing is done: " +
		"remove its Rollback, which is not needed after an error either")
	errOpenRows = errors.New("the handler returned with open rows: close them, or read them to their end")
	errAborted  = errors.New("a statement of the handler failed, and the handler returned no error: " +
		"PostgreSQL undid its transaction")
)

// inTx runs the handler once. own is true if the error is the handler's.
func inTx(
	ctx context.Context, s *Store, l dedup.Lease, as reflect.Type, fn func(context.Context, any) (dedup.Result, error),
) (own bool, err error) {
	free, err := s.lent.enter(ctx)
	if err != nil {
		return false, err
	}
	defer free()
	lent, err := lend(ctx, s.txs, as)
	if err != nil {
		return false, err
	}
	defer lent.release(ctx) // also after a panic
	result, err := fn(ctx, lent.as)
	lent.settle()
	switch conn := lent.conn.Conn().PgConn(); {
	case err != nil:
		return true, err
	case lent.committed.Load(), conn.TxStatus() == 'I': // by Commit, or by a statement
		return true, errEnded
	case lent.rolledBack.Load():
		return true, errRolledBack
	case conn.IsBusy():
		return true, errOpenRows
	case conn.TxStatus() == 'E':
		return true, errAborted
	case s.ctx.Err() != nil:
		return false, dedup.ErrClosed
	}
	// The handler is done, so its outcome counts even if its time is over.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), stepTimeout)
	defer cancel()
	if err := finishLent(ctx, s, lent.Tx, newFinish(l, result)); err != nil {
		return errors.Is(err, errEnded), err
	}
	return false, lent.Tx.Commit(ctx)
}

const (
	heldSQL = `SELECT EXISTS (SELECT 1 FROM {{schema}}.task t
WHERE t.seq = $1 AND t.idx = $2 AND t.token = $3 AND t.state = 2), ` + unchained

	// markSQL marks a transaction. The mark ends with it, so unchained finds out that a statement
	// of the handler ended it and began the next one (COMMIT AND CHAIN).
	markSQL   = `SET LOCAL eyelet.lent = 'yes'`
	unchained = `coalesce(current_setting('eyelet.lent', true), '') = 'yes'`
)

// finishLent finishes the task in the handler's transaction. It is the last statement: the row of
// the task is locked for moments only, so that leases are extended and taken over as for all
// handlers. From here on a Finish of the same task waits for the end of the transaction.
func finishLent(ctx context.Context, s *Store, tx pgx.Tx, e *finishEntry) error {
	if e.simple() && !e.ended {
		if err := s.finishSimple(ctx, tx, true, nil, []*finishEntry{e}); err != nil {
			return err
		}
	}
	if e.ended {
		return e.err
	}
	// A statement that waited for a row and found it changed keeps its lock. The locks below come
	// in another order, so a lease that is lost must be found out before.
	var held, whole bool
	row := tx.QueryRow(ctx, s.db.sql(heldSQL), e.seq, e.lease.Task, int64(e.lease.Token))
	if err := row.Scan(&held, &whole); err != nil {
		return err
	}
	switch {
	case !whole:
		return errEnded
	case !held:
		return dedup.ErrLeaseLost
	}
	v := newView(ctx, s.db, tx)
	if err := v.load(&wanted{seqs: []int64{e.seq}}); err != nil {
		return err
	}
	refused, err := v.apply([]*finishEntry{e})
	switch {
	case err != nil:
		return err
	case refused[0] != nil:
		return refused[0]
	case e.result.Reason != dedup.ReasonStale && v.bySeq[e.seq].rec.Tasks[e.lease.Task].Stale():
		return dedup.ErrStale
	}
	b := &pgx.Batch{}
	v.save(b)
	return tx.SendBatch(ctx, b).Close()
}

// loan is a transaction while its handler has it. The handler gets it as a pgx.Tx or a *sql.Tx, and
// can end neither.
type loan struct {
	pgx.Tx
	conn       *stdlib.Conn
	db         *sql.DB     // for a *sql.Tx, which is the only one of a connection that has no other
	as         any         // what the handler gets
	over       atomic.Bool // the handler has returned
	committed  atomic.Bool // the handler tried to
	rolledBack atomic.Bool // the handler wants its effect undone, which happens when it has returned
}

// lend begins a transaction.
func lend(ctx context.Context, pool *pgxpool.Pool, as reflect.Type) (*loan, error) {
	c, err := stdlib.GetPoolConnector(pool).Connect(ctx)
	if err != nil {
		return nil, err
	}
	t := &loan{conn: c.(*stdlib.Conn)}
	if err := t.begin(ctx); err != nil {
		return nil, errors.Join(err, c.Close())
	}
	if t.as = pgx.Tx(t); as == reflect.TypeFor[*sql.Tx]() {
		t.db = sql.OpenDB(&lentConn{t.conn, t})
		// The end of ctx must not close the connection under the store.
		if t.as, err = t.db.BeginTx(context.WithoutCancel(ctx), nil); err != nil {
			t.release(ctx)
			return nil, err
		}
	}
	return t, nil
}

// begin begins the transaction. A receiver that stands still, or is gone, holds the locks of its
// handler until the database undoes it.
func (t *loan) begin(ctx context.Context) (err error) {
	most := txTime
	if deadline, ok := ctx.Deadline(); ok {
		most = max(0, time.Until(deadline))
	}
	ms := (most + txGrace).Milliseconds()
	begin := fmt.Sprintf("BEGIN ISOLATION LEVEL READ COMMITTED; "+
		"SET LOCAL idle_in_transaction_session_timeout = %d; SET LOCAL statement_timeout = %d; "+markSQL, ms, ms)
	t.Tx, err = t.conn.Conn().BeginTx(ctx, pgx.TxOptions{BeginQuery: begin})
	return err
}

// settle takes it back from the handler.
func (t *loan) settle() {
	t.over.Store(true)
	if tx, ok := t.as.(*sql.Tx); ok && tx != nil {
		_ = tx.Commit() // closes the handler's rows; the driver does nothing
	}
}

// release undoes it unless it was committed, and frees the connection. One that is still in a
// transaction afterwards is closed by its pool.
func (t *loan) release(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), connectTimeout)
	defer cancel()
	_ = t.Tx.Rollback(ctx) // nothing to do if it is committed or the connection is gone
	if t.settle(); t.db != nil {
		_ = t.db.Close()
		return
	}
	_ = t.conn.Close()
}

// Commit implements pgx.Tx. It refuses.
func (t *loan) Commit(context.Context) error {
	t.committed.Store(true)
	return errEnded
}

// Rollback implements pgx.Tx. It is noted.
func (t *loan) Rollback(context.Context) error {
	t.rolledBack.Store(true)
	return nil
}

// lentConn is the connection of a sql.DB that has no other one. Its transaction was begun, and does
// not end.
type lentConn struct {
	*stdlib.Conn
	loan *loan
}

// Connect implements driver.Connector.
func (c *lentConn) Connect(context.Context) (driver.Conn, error) { return c, nil }

// Driver implements driver.Connector.
func (c *lentConn) Driver() driver.Driver { return stdlib.GetDefaultDriver() }

// BeginTx implements driver.ConnBeginTx.
func (c *lentConn) BeginTx(context.Context, driver.TxOptions) (driver.Tx, error) { return c, nil }

// Commit implements driver.Tx. It refuses until the handler has returned.
func (c *lentConn) Commit() error {
	if c.loan.over.Load() {
		return nil
	}
	return c.loan.Commit(context.Background())
}

// Rollback implements driver.Tx. It is noted.
func (c *lentConn) Rollback() error { return c.loan.Rollback(context.Background()) }

// closeTxs closes the connections of handlers, which need not return in time.
func closeTxs(pool *pgxpool.Pool) {
	closed := make(chan struct{})
	go func() {
		pool.Close()
		close(closed)
	}()
	select {
	case <-closed:
	case <-time.After(txGrace):
	}
}
