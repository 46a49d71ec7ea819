package campaign

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/eyelet-dev/eyelet/dedup"
	"github.com/eyelet-dev/eyelet/dedup/pgstore"
	"github.com/eyelet-dev/eyelet/internal/pgserver"
)

// Fleet kills and pauses several receivers that share a PostgreSQL database, and the database
// itself, under signed load. Beyond the promises of a [Harness] it checks that a receiver that
// lost a lease finishes nothing, that interrupted tasks are taken over, that tasks of a lane run
// one at a time, and that deliveries get only 503 with Retry-After while the database does not
// answer.
type Fleet struct {
	Harness
	// DSN is the connection string of a database, in which a schema is made. Empty starts a server
	// in Dir.
	DSN       string
	Receivers int
	// ServerStops, ServerFreezes and FailOvers are how often the server is stopped orderly, keeps
	// its connections and does not answer, or is killed and replaced by its synchronous standby. As
	// kills, they need a server of its own.
	ServerStops, ServerFreezes, FailOvers int
	// Outage is how long a stopped or frozen server is away.
	Outage time.Duration
	// Lease is that of the receivers.
	Lease time.Duration

	o       *oracle
	db      *database
	members []*member

	mu          sync.Mutex
	interrupted map[int][]time.Time
	recoveries  []time.Duration
	stuck       int
}

// manyAttempts is the number of attempts of a task where a database is killed too. Kills and pauses
// follow each other quickly, so that some tasks are interrupted often.
const manyAttempts = 50

// member is a receiver that is started again whenever it was killed.
type member struct {
	mu     sync.Mutex
	child  *child // nil while it starts
	paused bool
}

func (m *member) running() *child {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.paused {
		return nil
	}
	return m.child
}

// Run runs the faults and the checks. An error means that the campaign failed; broken promises
// are in the tally, each with a line of progress.
func (f *Fleet) Run(ctx context.Context) (sum Tally, err error) {
	if err := f.checkFleet(); err != nil {
		return sum, err
	}
	f.o = newOracle(f.Progress)
	f.o.effects = f.Effects
	f.interrupted = map[int][]time.Time{}
	if f.db, err = openDatabase(ctx, f); err != nil {
		return sum, err
	}
	defer f.db.close()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	set := f.db.settings(f.Effects)
	set.Shared, set.Lease = true, f.Lease
	if err := set.write(f.Dir); err != nil {
		return sum, err
	}
	var wg sync.WaitGroup
	defer wg.Wait()
	defer cancel(nil)
	for range f.Receivers {
		m := &member{}
		f.members = append(f.members, m)
		wg.Go(func() {
			if err := f.keep(ctx, m); err != nil && ctx.Err() == nil {
				cancel(err)
			}
		})
	}
	sum, err = f.torture(ctx)
	if cause := context.Cause(ctx); err != nil && cause != nil {
		err = cause
	}
	return sum, err
}

func (f *Fleet) checkFleet() error {
	f.Effects = cmp.Or(f.Effects, EffectsLogged)
	switch own := f.ServerKills + f.ServerStops + f.ServerFreezes + f.FailOvers; {
	case f.Receivers < 2:
		return errors.New("there must be at least two receivers")
	case f.Lease <= 0:
		return errors.New("the lease must be positive")
	case f.DSN != "" && own > 0:
		return errors.New("only a server of its own can be killed, stopped or replaced")
	case !slices.Contains([]string{EffectsLogged, EffectsPlain, EffectsTx, EffectsSQL, EffectsOnce}, f.Effects):
		return fmt.Errorf("there are no handlers of the kind %q", f.Effects)
	}
	return f.check()
}

// keep runs a receiver, and starts it again whenever it was killed, until ctx ends.
func (f *Fleet) keep(ctx context.Context, m *member) error {
	for ctx.Err() == nil {
		c, err := startChild(ctx, f.Child(f.Dir))
		if err != nil {
			return err
		}
		m.mu.Lock()
		m.child = c
		m.mu.Unlock()
		<-c.exited
		f.interrupt(c)
		m.mu.Lock()
		m.child, m.paused = nil, false
		m.mu.Unlock()
		if ctx.Err() == nil && !killed(c.err) {
			return fmt.Errorf("a receiver ended by itself: %w", cmp.Or(c.err, errors.New("without an error")))
		}
	}
	return nil
}

// interrupt notes that the handlers of a receiver stop now.
func (f *Fleet) interrupt(c *child) {
	f.mu.Lock()
	defer f.mu.Unlock()
	pid := c.cmd.Process.Pid
	f.interrupted[pid] = append(f.interrupted[pid], time.Now())
}

// interruptions returns a copy of what was noted: the receivers run on, and end, while it is read.
func (f *Fleet) interruptions() map[int][]time.Time {
	f.mu.Lock()
	defer f.mu.Unlock()
	all := maps.Clone(f.interrupted)
	for pid, times := range all {
		all[pid] = slices.Clone(times)
	}
	return all
}

// faultStream is the stream of the seed for faults. The clients have those from 0 on: an event of a
// fault must not have the content of theirs.
const faultStream = 1 << 32

// torture loads the receivers, does the faults, and checks.
func (f *Fleet) torture(ctx context.Context) (Tally, error) {
	rng := rand.New(rand.NewPCG(f.Seed, faultStream))
	if err := f.ready(ctx); err != nil {
		return Tally{}, err
	}
	load, stop := context.WithCancel(ctx)
	defer stop()
	var wg sync.WaitGroup
	wg.Go(func() { f.load(load) })
	err := f.doFaults(ctx, rng)
	stop()
	wg.Wait()
	if err != nil {
		return Tally{}, err
	}
	if err := f.drain(ctx); err != nil {
		return Tally{}, fmt.Errorf("after the last fault: %w", err)
	}
	return f.examine(ctx)
}

// thinkTime is how long a client waits between two deliveries at most.
const thinkTime = 30 * time.Millisecond

// load sends deliveries to random receivers until ctx ends.
func (f *Fleet) load(ctx context.Context) {
	clientsOf(ctx, f.Clients, f.Seed, func(rng *rand.Rand, client *http.Client, _ int) bool {
		ids, rest := f.atOnce(rng), rand.N(thinkTime)
		var wg sync.WaitGroup
		for _, id := range ids {
			url := f.url(rng.IntN, rng.IntN(10) == 0)
			wg.Go(func() { f.o.send(ctx, client, url, id) })
		}
		if wg.Wait(); !f.o.acknowledged(ids[0]) {
			rest += 100 * time.Millisecond
		}
		wait(ctx, rest)
		return true
	})
}

// atOnce returns what a client sends at once: one event, several of a lane in which nothing else
// waits, or the same event with an answer several times, also again if it has none yet.
func (f *Fleet) atOnce(rng *rand.Rand) []string {
	o := f.o
	switch n := rng.IntN(60); {
	case n == 0:
		return []string{o.create(rng, typeSlow)}
	case n < 8:
		lane := fmt.Sprint("burst ", rng.Uint64())
		return []string{o.createIn(rng, lane), o.createIn(rng, lane), o.createIn(rng, lane)}
	case n < 12:
		id := o.create(rng, typeAsk)
		return []string{id, id, id, id, id, id}
	default:
		return []string{o.next(rng, "push", "push", typeLane, typeLane, typeAsk)}
	}
}

// url returns the address of a random receiver; empty if none runs.
func (f *Fleet) url(intN func(int) int, alsoPaused bool) string {
	var urls []string
	for _, m := range f.members {
		m.mu.Lock()
		if m.child != nil && m.child.url != "" && (alsoPaused || !m.paused) {
			urls = append(urls, m.child.url)
		}
		m.mu.Unlock()
	}
	if len(urls) == 0 {
		return ""
	}
	return urls[intN(len(urls))]
}

// ready waits until every receiver that is not paused accepts a delivery.
func (f *Fleet) ready(ctx context.Context) error {
	client := &http.Client{Timeout: 5 * time.Second}
	defer client.CloseIdleConnections()
	rng := rand.New(rand.NewPCG(rand.Uint64(), 0))
	for _, m := range f.members {
		for accepted := false; !accepted; {
			if c := m.running(); c != nil && c.url != "" {
				id := f.o.create(rng, "push")
				accepted = f.o.send(ctx, client, c.url, id) && f.o.acknowledged(id)
			} else {
				m.mu.Lock()
				accepted = m.paused
				m.mu.Unlock()
			}
			if accepted {
				break
			}
			select {
			case <-ctx.Done():
				return ctx.Err()
			case <-time.After(20 * time.Millisecond):
			}
		}
	}
	return nil
}

// drain delivers events without a response until they have one, and waits until no task is left.
func (f *Fleet) drain(ctx context.Context) error {
	const tries = 200
	for range tries {
		ids := f.o.ids(false)
		if len(ids) == 0 {
			break
		}
		f.printf("draining: %d events have no answer", len(ids))
		f.o.deliver(ctx, f.anyURL, ids)
		wait(ctx, 100*time.Millisecond)
	}
	if n := len(f.o.ids(false)); n > 0 {
		return fmt.Errorf("%d events get no answer, however often they are sent", n)
	}
	for end := time.Now().Add(5 * time.Minute); ; {
		open, err := f.db.openTasks(ctx)
		if err != nil || open == 0 {
			return err
		}
		if time.Now().After(end) {
			return fmt.Errorf("%d tasks are left", open)
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(100 * time.Millisecond):
		}
	}
}

func (f *Fleet) anyURL() string { return f.url(rand.IntN, false) }

// examine checks everything.
func (f *Fleet) examine(ctx context.Context) (Tally, error) {
	f.printf("checking %d events", len(f.o.ids(true)))
	fleet := &FleetTally{
		Receivers: f.Receivers, Faults: f.counts(), Effects: f.Effects, Stuck: f.stuck,
		Recoveries: timesOf(f.recoveries),
	}
	var tally Tally
	j := &audit{
		o: f.o, tally: &tally, fleet: fleet, lease: f.Lease, interrupted: f.interruptions(), outages: f.db.outages,
		tasks: map[task]*taskRuns{}, lanes: map[string]string{}, ends: map[string]int{},
	}
	effects, err := f.readEffects(ctx, f.db, j.read)
	if err != nil {
		return tally, err
	}
	j.order()
	fleet.Takeovers = timesOf(j.takeovers)
	sum, _, err := f.o.check(ctx, f.db.list, effects)
	if err != nil {
		return tally, err
	}
	sum.Disordered, sum.Rounds, sum.Fleet = tally.Disordered, f.Rounds, fleet
	f.printf("sending all of them once more")
	f.o.duplicates(ctx, f.anyURL)
	return sum, f.o.checkAgain(ctx, f.db.list, &sum)
}

// database is the database of the receivers.
type database struct {
	dsn, schema      string
	dir              string
	primary, standby *pgserver.Server
	sockets          []string // directories of the two servers; the first is the primary's
	data             []string
	outages          []span
}

// openDatabase starts the servers, and makes the tables.
func openDatabase(ctx context.Context, f *Fleet) (d *database, err error) {
	d = &database{dsn: f.DSN, schema: fmt.Sprintf("eyelet_torture_%x", f.Seed)}
	if f.DSN == "" {
		err = d.startServers(ctx, f.Dir, f.FailOvers > 0)
	}
	if err == nil {
		err = pgstore.Migrate(ctx, d.dsn, d.schema)
	}
	if err == nil {
		err = d.with(ctx, func(c *pgx.Conn) error { return tableOf(d.schema).create(ctx, c) })
	}
	if err != nil {
		d.close()
		return nil, err
	}
	return d, nil
}

// settings returns those of a receiver whose handlers have effects in the database.
func (d *database) settings(effects string) settings {
	return settings{DSN: d.dsn, Schema: d.schema, Effects: effects, Attempts: manyAttempts}
}

func (d *database) with(ctx context.Context, f func(*pgx.Conn) error) error {
	c, err := pgx.Connect(ctx, d.dsn)
	if err != nil {
		return err
	}
	defer func() { _ = c.Close(context.WithoutCancel(ctx)) }()
	return f(c)
}

// openTasks counts the tasks without an outcome.
func (d *database) openTasks(ctx context.Context) (n int, err error) {
	err = d.with(ctx, func(c *pgx.Conn) error {
		return c.QueryRow(ctx, "SELECT count(*) FROM "+pgx.Identifier{d.schema, "task"}.Sanitize()+
			" WHERE state < 3").Scan(&n)
	})
	return n, err
}

func (d *database) effects(ctx context.Context, f func(run)) error {
	return d.with(ctx, func(c *pgx.Conn) error { return tableOf(d.schema).each(ctx, c, f) })
}

func (d *database) list(ctx context.Context, f func(dedup.Record)) error {
	store, err := pgstore.Open(ctx, d.dsn, pgstore.Options{Schema: d.schema})
	if err != nil {
		return err
	}
	return listStore(ctx, store, f)
}
