// Package pgstore is a [dedup.Store] in a PostgreSQL database, which several receivers on several
// machines share. An event is accepted once by all of them together, and its tasks are taken by
// whichever has time.
//
// Call [Migrate] once to make the tables, then [Open] in each receiver. All times are those of the
// database: the clocks of the receivers do not matter.
package pgstore

import (
	"container/list"
	"context"
	"errors"
	"log/slog"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/eyelet-dev/eyelet/dedup"
)

// DefaultSchema is the schema of the tables unless [Options] names another one.
const DefaultSchema = "eyelet"

// Options are the settings of a store. The zero value is ready to use.
type Options struct {
	// Schema is the schema of the tables, so that several stores can share a database. Defaults
	// to [DefaultSchema].
	Schema string
	// Remember bounds the traces of keys beyond their windows. Max is checked every few minutes.
	Remember dedup.Retention
	// HandlerConns is how many handlers' transactions run at once, each on a connection of its own
	// beside those of the store. Defaults to 4 per CPU, as receiver.Config.Workers does. They are
	// made when they are needed. A handler that finds none free for a second is postponed, or its
	// delivery gets 503.
	HandlerConns int
	// Logger logs each event that cannot be read, once. Defaults to slog.Default().
	Logger *slog.Logger

	clock func() time.Time // of tests; nil is the clock of the server
	poll  time.Duration    // how often a Take that waits looks
	fresh time.Duration    // how old statistics and health may be
	batch int              // claims or results in one statement
}

const (
	defaultPoll = 250 * time.Millisecond
	maxAge      = time.Second
	maxBatch    = 256
	// stepTimeout bounds the statements of one step. It is below the patience of a receiver.
	stepTimeout = 25 * time.Second
)

// Store is a [dedup.Store] in PostgreSQL. Create one with [Open].
type Store struct {
	db      *database
	txs     *pgxpool.Pool // of handlers' transactions, else they would keep leases from being extended
	options Options
	callers slots // of the connections of db, those that are not for the steps of the store
	lent    slots // of txs

	durability atomic.Int64
	ctx        context.Context // of the steps, which outlive the calls that asked for them
	cancel     context.CancelFunc
	done       chan struct{} // closed by Close
	ending     sync.Once     // closes done
	closing    sync.RWMutex  // held for reading by every call
	closed     bool
	wg         sync.WaitGroup
	watching   sync.WaitGroup // until the steps have ended

	claims   gatherer[*claimOp]
	finishes gatherer[*finishOp]
	blocked  sync.Mutex    // held by the result that waits for a lock
	turn     chan struct{} // held by the Take that looks for work
	take     take          // of the turn
	kept     kept
	handlers handlers
	changed  signal // work may be due

	commits, accepted atomic.Int64
	flush             atomic.Int64 // how long the last statement with new events took
	stats             cached[dedup.Stats]
	health            cached[struct{}]
}

var (
	_ dedup.Store      = (*Store)(nil)
	_ dedup.Transactor = (*Store)(nil)
)

// Open opens a store. dsn is a connection string as libpq takes it, with pool_max_conns (10
// by default) for the number of connections. A busy store uses six for claims, takes, results and
// sweeping. The others are for Get, List, Stats and changes by operators: a call that finds none
// free for a second gets [dedup.ErrUnavailable]. Handlers' transactions have connections of their
// own ([Options.HandlerConns]). On one more, the store asks every second whether the server
// answers; if it does not for three seconds, all connections are closed. Behind a pooler, that is
// the pooler's task.
//
// Open fails if the tables are missing or of another version ([VersionError]), and if the
// database would break a promise: a server before version 15, an encoding other than UTF-8, fsync,
// full_page_writes or synchronous_commit off, a default isolation other than read committed. For a
// standby, and for a server that does not answer or has no free connection, it returns
// [dedup.ErrUnavailable]. The same is checked for each later connection, so after a fail-over a
// server with other settings is not used.
//
// A pooler in transaction mode, such as PgBouncer, is recognized: statements are then not
// prepared by name.
func Open(ctx context.Context, dsn string, o Options) (*Store, error) {
	o.Remember = o.Remember.WithDefaults()
	if o.poll == 0 {
		o.poll, o.fresh = defaultPoll, maxAge
	}
	if o.batch == 0 {
		o.batch = maxBatch
	}
	if o.HandlerConns <= 0 {
		o.HandlerConns = 4 * runtime.GOMAXPROCS(0)
	}
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	s := &Store{options: o, done: make(chan struct{}), turn: make(chan struct{}, 1)}
	config, err := poolConfig(dsn, func(d dedup.Durability) { s.durability.Store(int64(d)) })
	if err != nil {
		return nil, err
	}
	w := &watch{config: config.ConnConfig.Copy(), lines: lines{open: map[*line]bool{}}}
	config.ConnConfig.DialFunc = w.lines.dial(config.ConnConfig.DialFunc)
	c, err := w.connect(ctx)
	if err != nil {
		return nil, openError(err)
	}
	if err := s.open(ctx, w, c, config); err != nil {
		_ = c.Close(context.WithoutCancel(ctx))
		return nil, openError(err)
	}
	return s, nil
}

// open opens the pools, and starts what runs beside the calls. The watch begins on c.
func (s *Store) open(ctx context.Context, w *watch, c *pgx.Conn, config *pgxpool.Config) error {
	between, err := pooled(ctx, c)
	if err != nil {
		return err
	}
	if between {
		config.ConnConfig.DefaultQueryExecMode = pgx.QueryExecModeCacheDescribe
	}
	o := s.options
	pool, err := pgxpool.NewWithConfig(context.WithoutCancel(ctx), config)
	if err != nil {
		return err
	}
	s.db = &database{
		pool: pool, schema: o.Schema, remember: o.Remember, clock: o.clock, log: o.Logger,
		reported: map[int64]bool{},
	}
	s.handlers.noted, s.handlers.named = map[string]bool{}, []string{}
	if _, err = migrated(ctx, pool, o.Schema); err == nil {
		err = unfinished(ctx, pool, o.Schema)
	}
	if err == nil {
		err = s.handlers.see(ctx, s.db)
	}
	if err != nil {
		pool.Close()
		return err
	}
	s.txs, err = pgxpool.NewWithConfig(context.WithoutCancel(ctx), handlersConfig(config, o.HandlerConns))
	if err != nil {
		pool.Close()
		return err
	}
	s.callers, s.lent = make(slots, max(1, config.MaxConns-ownConns)), make(slots, o.HandlerConns)
	s.ctx, s.cancel = context.WithCancel(context.Background())
	s.changed.c = make(chan struct{})
	s.kept.events = map[int64]*list.Element{}
	s.take = take{db: s.db, kept: &s.kept, lanes: []byte{}, seen: &s.handlers.seen}
	s.claims.start(&s.wg, 2, o.batch*claimWeight, (*claimOp).weight, s.writeClaims)
	s.finishes.rest = pace
	s.finishes.start(&s.wg, 1, o.batch, (*finishOp).weight, s.writeFinishes)
	s.wg.Go(s.sweepAlways)
	s.wg.Go(func() { s.handlers.seeAlways(s.ctx, s.db, s.done) })
	w.pools = []*pgxpool.Pool{pool, s.txs}
	if between { // a pooler lets the watch wait for a connection of the server
		_ = c.Close(ctx)
		return nil
	}
	s.watching.Go(func() { w.run(s.ctx, c) })
	return nil
}

// begin starts a call. The caller calls end if err is nil.
func (s *Store) begin(ctx context.Context) (end func(), err error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	s.closing.RLock()
	if s.closed {
		s.closing.RUnlock()
		return nil, dedup.ErrClosed
	}
	return s.closing.RUnlock, nil
}

// Close implements [dedup.Store]. Transactions of handlers that still run are undone.
func (s *Store) Close() error {
	s.ending.Do(func() { close(s.done) })
	s.closing.Lock() // waits for calls in progress; blocked Takes have seen done
	already := s.closed
	s.closed = true
	s.closing.Unlock()
	if already {
		return nil
	}
	s.claims.stop()
	s.finishes.stop()
	s.wg.Wait()
	s.cancel()
	s.watching.Wait()
	s.db.pool.Close()
	closeTxs(s.txs)
	return nil
}

// Guarantees implements [dedup.Store]. Durability is replicated while the newest connection is to
// a server that waits for a synchronous standby.
func (s *Store) Guarantees() dedup.Guarantees {
	return dedup.Guarantees{Durability: dedup.Durability(s.durability.Load()), Shared: true, Transactional: true}
}

// Health implements [dedup.Store]. The result may be a second old.
func (s *Store) Health(ctx context.Context) error {
	end, err := s.begin(ctx)
	if err != nil {
		return err
	}
	defer end()
	_, err = s.health.get(s.options.fresh, func() (none struct{}, err error) {
		return none, fault(primary(ctx, s.db.pool))
	})
	return err
}

// signal wakes goroutines that wait for a change.
type signal struct {
	mu sync.Mutex
	c  chan struct{}
}

// wait returns a channel that is closed by the next wake.
func (g *signal) wait() <-chan struct{} {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.c
}

func (g *signal) wake() {
	g.mu.Lock()
	defer g.mu.Unlock()
	close(g.c)
	g.c = make(chan struct{})
}

// cached is a value that may be a little old.
type cached[T any] struct {
	mu    sync.Mutex
	at    time.Time
	value T
	err   error
}

func (c *cached[T]) get(age time.Duration, read func() (T, error)) (T, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if now := time.Now(); c.at.IsZero() || now.Sub(c.at) >= age {
		c.value, c.err = read()
		if c.at = now; errors.Is(c.err, context.Canceled) || errors.Is(c.err, context.DeadlineExceeded) {
			c.at = time.Time{} // of the caller, not of the store
		}
	}
	return c.value, c.err
}
