// Package oncepgx lets handlers of package once work in transactions of pgx.
//
//	onPaid := func(ctx context.Context, tx pgx.Tx, ev receiver.Event[Order]) error {
//		_, err := tx.Exec(ctx, "UPDATE invoice SET paid = true WHERE id = $1", ev.ID)
//		return err
//	}
//	h := once.On(oncepgx.Pool(pool), "shop", "order.paid", onPaid)
package oncepgx

import (
	"context"
	"database/sql"
	"errors"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/eyelet-dev/eyelet/once"
)

// Pool returns the marks in the database of a pool. Each handler that runs needs a connection.
// Pool panics if pool is nil.
func Pool(pool *pgxpool.Pool) *once.Marks[pgx.Tx] {
	if pool == nil {
		panic("oncepgx: Pool(nil): open the pool first")
	}
	return once.New(database{pool})
}

type database struct{ pool *pgxpool.Pool }

func (d database) Begin(ctx context.Context) (pgx.Tx, error) { return d.pool.Begin(ctx) }

func (d database) Exec(ctx context.Context, tx pgx.Tx, statement string, args ...any) (int64, error) {
	tag, err := tx.Exec(ctx, statement, args...)
	return tag.RowsAffected(), err
}

func (d database) Commit(ctx context.Context, tx pgx.Tx) error   { return done(tx.Commit(ctx)) }
func (d database) Rollback(ctx context.Context, tx pgx.Tx) error { return done(tx.Rollback(ctx)) }

// done converts the error of a transaction that has ended.
func done(err error) error {
	if errors.Is(err, pgx.ErrTxClosed) {
		return sql.ErrTxDone
	}
	return err
}
