package once

import (
	"context"
	"database/sql"
	"errors"
	"time"
)

const (
	// grace is how long a transaction may last after its handler should have returned.
	grace = 5 * time.Second
	// handlerTime is the time of a handler without a deadline.
	handlerTime = 30 * time.Second
)

// Database runs transactions of type Tx in a PostgreSQL database. [SQL] and package oncepgx make
// the marks of two; implement it for another library.
type Database[Tx any] interface {
	// Begin begins a transaction. It waits for a connection until ctx ends. The transaction may be
	// undone when ctx ends later.
	Begin(ctx context.Context) (Tx, error)
	// Exec runs a statement with parameters $1, $2 and so on, and returns the number of rows.
	Exec(ctx context.Context, tx Tx, statement string, args ...any) (int64, error)
	// Commit and Rollback end the transaction and free its connection. Their error is
	// sql.ErrTxDone if the transaction has ended. Commit returns an error if the database undid
	// it because a statement had failed.
	Commit(ctx context.Context, tx Tx) error
	Rollback(ctx context.Context, tx Tx) error
}

// transaction is one that has begun.
type transaction[Tx any] struct {
	db     Database[Tx]
	tx     Tx
	life   context.Context // longer than the handler's, whose outcome counts even if its time is over
	cancel context.CancelFunc
	lasts  time.Duration
}

// begin begins a transaction for a handler with the context ctx.
func begin[Tx any](ctx context.Context, db Database[Tx]) (*transaction[Tx], error) {
	lasts := handlerTime + grace
	if deadline, ok := ctx.Deadline(); ok {
		lasts = max(0, time.Until(deadline)) + grace
	}
	life, cancel := context.WithTimeout(context.WithoutCancel(ctx), lasts)
	stop := context.AfterFunc(ctx, cancel) // a connection is awaited until ctx ends
	tx, err := db.Begin(life)
	if err != nil {
		cancel()
		return nil, errors.Join(context.Cause(ctx), err)
	}
	t := &transaction[Tx]{db, tx, life, cancel, lasts}
	if !stop() {
		t.release()
		return nil, context.Cause(ctx)
	}
	return t, nil
}

// ended reports whether an error means that the handler ended the transaction.
func (t *transaction[Tx]) ended(err error) bool {
	return errors.Is(err, sql.ErrTxDone) && t.life.Err() == nil
}

func (t *transaction[Tx]) commit() error   { return t.db.Commit(t.life, t.tx) }
func (t *transaction[Tx]) rollback() error { return t.db.Rollback(t.life, t.tx) }

// release undoes the transaction, unless it has ended.
func (t *transaction[Tx]) release() {
	_ = t.rollback()
	t.cancel()
}

// SQL returns the marks in a database of database/sql. It is tested with the driver of pgx. Another
// one must accept parameters as $1, and its errors need a method SQLState() string: without it, a
// transaction that the database undid does not run again at once.
// SQL panics if db is nil.
func SQL(db *sql.DB) *Marks[*sql.Tx] {
	if db == nil {
		panic("once: SQL(nil): open the database first")
	}
	return New(sqlDatabase{db})
}

type sqlDatabase struct{ db *sql.DB }

func (d sqlDatabase) Begin(ctx context.Context) (*sql.Tx, error) { return d.db.BeginTx(ctx, nil) }

func (d sqlDatabase) Exec(ctx context.Context, tx *sql.Tx, statement string, args ...any) (int64, error) {
	result, err := tx.ExecContext(ctx, statement, args...)
	if err != nil {
		return 0, err
	}
	return result.RowsAffected()
}

func (d sqlDatabase) Commit(_ context.Context, tx *sql.Tx) error   { return tx.Commit() }
func (d sqlDatabase) Rollback(_ context.Context, tx *sql.Tx) error { return tx.Rollback() }
