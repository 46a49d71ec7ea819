package pgstore

import (
	"context"
	"errors"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/eyelet-dev/eyelet/dedup"
)

const (
	// watchInterval is how long after an answer the server is asked again.
	watchInterval = time.Second
	// silence is how long the server may take to answer that. A new connection has as much time.
	silence = connectTimeout
)

// lines are the network connections of a store.
type lines struct {
	mu   sync.Mutex
	open map[*line]bool
}

// line is a network connection.
type line struct {
	net.Conn
	of       *lines
	received atomic.Int64 // when the server last sent something, in Unix nanoseconds
}

// dial notes the connections that are made.
func (l *lines) dial(dial pgconn.DialFunc) pgconn.DialFunc {
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		c, err := dial(ctx, network, address)
		if err != nil {
			return nil, err
		}
		l.mu.Lock()
		defer l.mu.Unlock()
		made := &line{Conn: c, of: l}
		l.open[made] = true
		return made, nil
	}
}

// Read implements net.Conn.
func (c *line) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	if n > 0 {
		c.received.Store(time.Now().UnixNano())
	}
	return n, err
}

// Close implements net.Conn.
func (c *line) Close() error {
	c.of.mu.Lock()
	delete(c.of.open, c)
	c.of.mu.Unlock()
	return c.Conn.Close()
}

// cut closes all. Calls that wait for an answer fail, as if the server had closed them.
func (l *lines) cut() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for c := range l.open {
		_ = c.Conn.Close()
	}
	clear(l.open)
}

// sentSince reports whether a server sent something since then.
func (l *lines) sentSince(server string, since time.Time) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	for c := range l.open {
		if c.RemoteAddr().String() == server && c.received.Load() > since.UnixNano() {
			return true
		}
	}
	return false
}

// watch asks the server every second whether it answers. Statements may take longer than a
// fail-over should, so their own time says little. A server that is frozen, or vanished without a
// packet, keeps its connections: they are closed here, and new ones find the primary. So are those
// to a server that became read-only. One that answers others is only slow.
type watch struct {
	config *pgx.ConnConfig
	lines  lines // those of the pools
	pools  []*pgxpool.Pool
}

// run watches until ctx ends, first on the connection c.
func (w *watch) run(ctx context.Context, c *pgx.Conn) {
	var server string // that was asked last
	var err error
	for {
		if err == nil {
			server = c.PgConn().Conn().RemoteAddr().String()
		}
		for err == nil {
			if err = primary(ctx, c); err == nil {
				sleep(ctx, watchInterval)
			}
		}
		if c != nil {
			_ = c.Close(context.WithoutCancel(ctx))
		}
		if ctx.Err() != nil {
			return
		}
		if !w.answers(server, err) {
			w.lines.cut()
			for _, pool := range w.pools {
				pool.Reset() // does not give out the closed ones
			}
		}
		if c, err = w.connect(ctx); err != nil {
			sleep(ctx, watchInterval)
		}
	}
}

// answers reports whether the server answers although the watch failed with err.
func (w *watch) answers(server string, err error) bool {
	if _, readOnly := errors.AsType[*dedup.ErrUnavailable](err); readOnly {
		return false
	}
	_, refused := errors.AsType[*pgconn.PgError](err) // it has no connection left, say
	return refused || w.lines.sentSince(server, time.Now().Add(-silence/2))
}

// connect returns a connection that is not one of a pool.
func (w *watch) connect(ctx context.Context) (*pgx.Conn, error) {
	config := w.config.Copy()
	refuseCancels(config)
	return pgx.ConnectConfig(ctx, config)
}

// primary returns an error unless the server answers in time and can be written to.
func primary(ctx context.Context, q rowQuerier) error {
	ctx, cancel := context.WithTimeout(ctx, silence)
	defer cancel()
	var readOnly string
	err := q.QueryRow(ctx, "SELECT current_setting('transaction_read_only')", pgx.QueryExecModeExec).Scan(&readOnly)
	if err == nil && readOnly != "off" {
		err = &dedup.ErrUnavailable{Reason: "the database is a standby or read-only", RetryAfter: later}
	}
	return err
}

// sleep waits, at most until ctx ends.
func sleep(ctx context.Context, long time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(long):
	}
}
