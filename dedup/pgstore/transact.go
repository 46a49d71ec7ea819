package pgstore

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
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
	ctx context.Context, s *Store, l dedup.Lease, lend lender, fn func(context.Context, any) (dedup.Result, error),
) (own bool, err error) {
	free, err := s.lent.enter(ctx)
	if err != nil {
		return false, err
	}
	defer free()
	tx, err := lend(ctx, s.txs)
	if err != nil {
		return false, err
	}
	defer tx.release() // also after a panic
	result, err := fn(ctx, tx.as)
	tx.settle()
	switch status := tx.Conn().PgConn().TxStatus(); {
	case err != nil:
		return true, err
	case tx.committed.Load(), status == 'I': // by Commit, or by a statement
		return true, errEnded
	case tx.rolledBack.Load():
		return true, errRolledBack
	case tx.Conn().PgConn().IsBusy():
		return true, errOpenRows
	case status == 'E':
		return true, errAborted
	case s.ctx.Err() != nil:
		return false, dedup.ErrClosed
	}
	// The handler is done, so its outcome counts even if its time is over.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), stepTimeout)
	defer cancel()
	if err := fence(ctx, s, tx, newFinish(l, result)); err != nil {
		return errors.Is(err, errEnded), err
	}
	return false, tx.Commit(ctx)
}

const (
	heldSQL = `SELECT EXISTS (SELECT 1 FROM {{schema}}.task t
WHERE t.seq = $1 AND t.idx = $2 AND t.token = $3 AND t.state = 2), ` + unchained

	// markSQL marks a transaction. The mark ends with it, so unchained finds out that a statement
	// of the handler ended it and began the next one (COMMIT AND CHAIN).
	markSQL   = `SET LOCAL eyelet.lent = 'yes'`
	unchained = `coalesce(current_setting('eyelet.lent', true), '') = 'yes'`
)

// fence finishes the task in the handler's transaction. It is the last statement: the row of the
// task is locked for moments only, so that leases are extended and taken over as for all handlers.
// From here on a Finish of the same task waits for the end of the transaction.
func fence(ctx context.Context, s *Store, tx pgx.Tx, e *finishEntry) error {
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
	refused, err := e.apply(v)
	if refused != nil || err != nil {
		return errors.Join(refused, err)
	}
	b := &pgx.Batch{}
	v.save(b)
	return tx.SendBatch(ctx, b).Close()
}

// lender begins a transaction.
type lender = func(context.Context, *pgxpool.Pool) (*loan, error)

// loan is a transaction while its handler has it.
type loan struct {
	pgx.Tx
	as         any         // what the handler gets
	committed  atomic.Bool // the handler tried to
	rolledBack atomic.Bool // the handler wants its effect undone, which happens when it has returned
	settle     func()      // takes it back from the handler
	release    func()      // undoes it unless it was committed, and frees the connection
}

// begin begins the transaction. A receiver that stands still, or is gone, holds the locks of its
// handler until the database undoes it.
func (t *loan) begin(ctx context.Context, c *pgx.Conn) (err error) {
	most := txTime
	if deadline, ok := ctx.Deadline(); ok {
		most = max(0, time.Until(deadline))
	}
	ms := (most + txGrace).Milliseconds()
	t.Tx, err = c.BeginTx(ctx, pgx.TxOptions{BeginQuery: fmt.Sprintf("BEGIN ISOLATION LEVEL READ COMMITTED; "+
		"SET LOCAL idle_in_transaction_session_timeout = %d; SET LOCAL statement_timeout = %d; "+markSQL, ms, ms)})
	return err
}

// undo rolls back. A connection that is still in a transaction afterwards is closed by its pool.
func (t *loan) undo(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), connectTimeout)
	defer cancel()
	_ = t.Rollback(ctx) // nothing to do if it is committed or the connection is gone
}

func lendPgx(ctx context.Context, pool *pgxpool.Pool) (*loan, error) {
	c, err := pool.Acquire(ctx)
	if err != nil {
		return nil, err
	}
	t := &loan{settle: func() {}}
	if err := t.begin(ctx, c.Conn()); err != nil {
		c.Release()
		return nil, err
	}
	t.as = &guardedTx{Tx: t.Tx, loan: t}
	t.release = func() {
		t.undo(ctx)
		c.Release()
	}
	return t, nil
}

// guardedTx is the transaction of a handler. It does not end.
type guardedTx struct {
	pgx.Tx
	loan *loan
}

// Commit implements pgx.Tx. It refuses.
func (g *guardedTx) Commit(context.Context) error { return g.loan.refuse() }

// Rollback implements pgx.Tx. It is noted.
func (g *guardedTx) Rollback(context.Context) error {
	g.loan.rolledBack.Store(true)
	return nil
}

func (t *loan) refuse() error {
	t.committed.Store(true)
	return errEnded
}

// lendSQL lends a transaction of database/sql. It is the only one of a sql.DB whose only
// connection is in a transaction already.
func lendSQL(ctx context.Context, pool *pgxpool.Pool) (*loan, error) {
	c, err := stdlib.GetPoolConnector(pool).Connect(ctx)
	if err != nil {
		return nil, err
	}
	conn := c.(*stdlib.Conn)
	t := &loan{}
	if err := t.begin(ctx, conn.Conn()); err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	over := &atomic.Bool{}
	db := sql.OpenDB(&guardedConn{Conn: conn, loan: t, over: over})
	// The end of ctx must not close the connection under the store.
	tx, err := db.BeginTx(context.WithoutCancel(ctx), nil)
	t.as = tx
	t.settle = func() {
		over.Store(true)
		_ = tx.Commit() // closes the handler's rows; the driver does nothing
	}
	t.release = func() {
		t.undo(ctx)
		if tx != nil {
			t.settle()
		}
		_ = db.Close()
	}
	if err != nil {
		t.release()
		return nil, err
	}
	return t, nil
}

// guardedConn is the connection of a sql.DB that has no other one. Its transaction was begun, and
// does not end.
type guardedConn struct {
	*stdlib.Conn
	loan *loan
	over *atomic.Bool // the handler has returned
}

// Connect implements driver.Connector.
func (g *guardedConn) Connect(context.Context) (driver.Conn, error) { return g, nil }

// Driver implements driver.Connector.
func (g *guardedConn) Driver() driver.Driver { return stdlib.GetDefaultDriver() }

// BeginTx implements driver.ConnBeginTx.
func (g *guardedConn) BeginTx(context.Context, driver.TxOptions) (driver.Tx, error) { return g, nil }

// Commit implements driver.Tx. It refuses until the handler has returned.
func (g *guardedConn) Commit() error {
	if g.over.Load() {
		return nil
	}
	return g.loan.refuse()
}

// Rollback implements driver.Tx. It is noted.
func (g *guardedConn) Rollback() error {
	g.loan.rolledBack.Store(true)
	return nil
}

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
