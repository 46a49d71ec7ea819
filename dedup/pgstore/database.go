package pgstore

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/eyelet-dev/eyelet/dedup"
)

// slots are the connections of a pool that calls of one kind may use at once.
type slots chan struct{}

// enter waits for a free one. The caller frees it.
func (s slots) enter(ctx context.Context) (free func(), err error) {
	timer := time.NewTimer(patience)
	defer timer.Stop()
	select {
	case s <- struct{}{}:
		return func() { <-s }, nil
	case <-timer.C:
		return nil, &dedup.ErrUnavailable{Reason: "all connections to the database are in use", RetryAfter: soon}
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// querier is the pool, or a transaction.
type querier interface {
	rowQuerier
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
	Exec(ctx context.Context, sql string, args ...any) (pgconn.CommandTag, error)
	SendBatch(ctx context.Context, b *pgx.Batch) pgx.BatchResults
}

// database is the pool of connections and what every statement needs.
type database struct {
	pool     *pgxpool.Pool
	schema   string
	remember dedup.Retention
	clock    func() time.Time // nil is the clock of the server
	texts    sync.Map         // statements with the name of the schema
	log      *slog.Logger
	mu       sync.Mutex
	reported map[int64]bool // the damaged events that were logged
}

// maxReported is how many damaged events are distinguished, and so logged only once.
const maxReported = 1000

// report logs a record that cannot be read.
func (d *database) report(w *row) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if !d.reported[w.seq] && len(d.reported) < maxReported {
		d.reported[w.seq] = true
		d.log.Error("stored event is damaged", "event", w.rec.Event, "error", w.damage)
	}
}

// sql puts the name of the schema into a statement.
func (d *database) sql(statement string) string {
	if text, ok := d.texts.Load(statement); ok {
		return text.(string)
	}
	text := inSchema(statement, d.schema)
	d.texts.Store(statement, text)
	return text
}

// now is the argument of coalesce($1::timestamptz, now()): the time of a test, or nil.
func (d *database) now() *time.Time {
	if d.clock == nil {
		return nil
	}
	t := d.clock()
	return &t
}

// begin starts a transaction that sees what others committed before each of its statements, and
// runs the batch in it, in one round trip. done ends the transaction if it was not committed, and
// releases the connection.
func (d *database) begin(ctx context.Context, b *pgx.Batch) (tx *pgxpool.Conn, done func(), err error) {
	c, err := d.pool.Acquire(ctx)
	if err != nil {
		return nil, nil, err
	}
	done = func() {
		if c.Conn().PgConn().TxStatus() != 'I' && !c.Conn().IsClosed() {
			ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), connectTimeout)
			defer cancel()
			_, _ = c.Exec(ctx, "ROLLBACK", pgx.QueryExecModeSimpleProtocol) // without it the pool closes the connection
		}
		c.Release()
	}
	whole := &pgx.Batch{}
	whole.Queue("BEGIN ISOLATION LEVEL READ COMMITTED")
	whole.QueuedQueries = append(whole.QueuedQueries, b.QueuedQueries...)
	if err := c.SendBatch(ctx, whole).Close(); err != nil {
		done()
		return nil, nil, err
	}
	return c, done, nil
}

// commit runs the batch and commits, in one round trip.
func commit(ctx context.Context, tx *pgxpool.Conn, b *pgx.Batch) error {
	b.Queue("COMMIT")
	return tx.SendBatch(ctx, b).Close()
}
