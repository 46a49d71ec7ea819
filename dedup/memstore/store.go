// Package memstore keeps events in memory. It decides exactly as the durable stores do.
package memstore

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/eyelet-dev/eyelet/dedup"
	"github.com/eyelet-dev/eyelet/dedup/internal/step"
	"github.com/eyelet-dev/eyelet/dedup/internal/taskqueue"
)

// Options are the settings of a [Store]. The zero value is ready to use.
type Options struct {
	// Clock defaults to [dedup.SystemClock].
	Clock dedup.Clock
	// Remember bounds the traces of keys beyond their windows.
	Remember dedup.Retention
}

// Store is a store for tests and to try things out: it forgets everything when the process ends.
// Create one with [New].
type Store struct {
	clock  dedup.Clock
	opened time.Time

	mu          sync.Mutex
	done        chan struct{}     // closed by Close
	changed     chan struct{}     // closed and replaced when work may be due earlier
	waiting     int               // blocked Takes
	events      map[string]*entry // nil after Close
	names       names
	order       []*entry // by Seq; stale ones are removed once they are the majority
	stale       int      // entries of order that are no longer in events
	queue       *taskqueue.Queue[string]
	windows     taskqueue.Heap[*entry]
	traces      traces
	step        step.Step[*dedup.Record]
	seq         uint64
	token       uint64
	backlog     int64
	dead        int64
	held        int64
	freed       int64 // tasks of released claims, which the queue does not have
	quarantined map[dedup.QuarantineGroup]int64
	commits     int64
	accepted    int64
}

var _ dedup.Store = (*Store)(nil)

// New returns an empty store.
func New(o Options) *Store {
	if o.Clock == nil {
		o.Clock = dedup.SystemClock()
	}
	o.Remember = o.Remember.WithDefaults()
	return &Store{
		clock:       o.Clock,
		opened:      o.Clock.Now(),
		done:        make(chan struct{}),
		changed:     make(chan struct{}),
		events:      map[string]*entry{},
		quarantined: map[dedup.QuarantineGroup]int64{},
		names:       names{keys: map[[32]byte][]*entry{}, aliases: map[[32]byte]*entry{}},
		queue:       taskqueue.New[string](),
		windows: taskqueue.NewHeap(func(a, b *entry) bool { return a.ends.Before(b.ends) },
			func(e *entry, i int) { e.window = i + 1 }),
		traces: newTraces(o.Remember, dedup.DayOf(o.Clock.Now())),
	}
}

// begin locks the store for a call and sweeps. The caller unlocks it if err is nil.
func (m *Store) begin(ctx context.Context) (now time.Time, err error) {
	if err := ctx.Err(); err != nil {
		return time.Time{}, err
	}
	m.mu.Lock()
	if m.events == nil {
		m.mu.Unlock()
		return time.Time{}, dedup.ErrClosed
	}
	now = m.clock.Now()
	m.sweep(now, sweepBound)
	return now, nil
}

// Claim implements [dedup.Store].
func (m *Store) Claim(ctx context.Context, claims ...dedup.Claim) ([]dedup.Decision, error) {
	for i := range claims {
		if err := claims[i].Check(); err != nil {
			return nil, fmt.Errorf("claim %d: %w", i, err)
		}
	}
	now, err := m.begin(ctx)
	if err != nil {
		return nil, err
	}
	defer m.mu.Unlock()
	in := m.newSource(now)
	out := make([]dedup.Decision, len(claims))
	for i := range claims {
		var err error
		if out[i], err = m.step.Claim(in, &claims[i], nil, now); err != nil {
			return nil, err
		}
	}
	in.apply()
	return out, nil
}

// Take implements [dedup.Store].
func (m *Store) Take(ctx context.Context, want dedup.Want) ([]dedup.Work, error) {
	if err := want.Check(); err != nil {
		return nil, err
	}
	for {
		now, err := m.begin(ctx)
		if err != nil {
			return nil, err
		}
		if work := m.start(now, want); len(work) > 0 {
			m.mu.Unlock()
			return work, nil
		}
		changed := m.changed
		next, ok := m.queue.NextDue(now, m.wanted(want))
		m.waiting++
		m.mu.Unlock()
		err = m.wait(ctx, changed, next, ok)
		m.mu.Lock()
		m.waiting--
		m.mu.Unlock()
		if err != nil {
			return nil, err
		}
	}
}

// wait blocks until work may be due earlier, until next (if ok), until ctx ends or the store is
// closed.
func (m *Store) wait(ctx context.Context, changed <-chan struct{}, next time.Time, ok bool) error {
	var rings <-chan struct{}
	if ok {
		var stop func()
		rings, stop = m.clock.Alarm(next)
		defer stop()
	}
	select {
	case <-changed:
	case <-rings:
	case <-ctx.Done():
		return ctx.Err()
	case <-m.done:
		return dedup.ErrClosed
	}
	return nil
}

func (m *Store) wanted(w dedup.Want) taskqueue.Want {
	return taskqueue.Want{
		Tasks: w.Tasks, Bytes: w.Bytes, Handlers: w.Handlers, Orphans: m.opened.Add(w.OrphanAfter),
	}
}

// start leases due tasks.
func (m *Store) start(now time.Time, want dedup.Want) []dedup.Work {
	var out []dedup.Work
	for _, it := range m.queue.Take(now, m.wanted(want), now.Add(want.Lease)) {
		r := m.events[it.Event].edit()
		r.Recover(it.Task, now, 0) // still running only if its lease expired
		m.token++
		l := r.Start(it.Task, m.token, now, want.Lease)
		m.replace(r)
		out = append(out, dedup.Work{Record: r.Clone(), Lease: l})
	}
	if len(out) > 0 {
		m.commits++
	}
	return out
}

// Extend implements [dedup.Store].
func (m *Store) Extend(ctx context.Context, l dedup.Lease, d time.Duration) error {
	if d <= 0 {
		return fmt.Errorf("%w: extension by %v", dedup.ErrInvalid, d)
	}
	return m.leased(ctx, l, func(r *dedup.Record, now time.Time) error { return r.Extend(l, d, now) })
}

// Finish implements [dedup.Store].
func (m *Store) Finish(ctx context.Context, l dedup.Lease, res dedup.Result) error {
	return m.leased(ctx, l, func(r *dedup.Record, now time.Time) error {
		res.Response = res.Response.Clone()
		return r.Finish(l, res, now)
	})
}

// FinishMany implements [dedup.Store].
func (m *Store) FinishMany(ctx context.Context, results ...dedup.LeaseResult) []error {
	errs := make([]error, len(results))
	for i, r := range results {
		errs[i] = m.Finish(ctx, r.Lease, r.Result)
	}
	return errs
}

// leased edits the record of a lease.
func (m *Store) leased(ctx context.Context, l dedup.Lease, edit func(*dedup.Record, time.Time) error) error {
	_, err := m.update(ctx, l.Event, edit)
	if errors.Is(err, dedup.ErrNotFound) {
		return dedup.ErrLeaseLost
	}
	return err
}

// Get implements [dedup.Store].
func (m *Store) Get(ctx context.Context, event string) (dedup.Record, error) {
	now, err := m.begin(ctx)
	if err != nil {
		return dedup.Record{}, err
	}
	defer m.mu.Unlock()
	e := m.find(event, now)
	if e == nil {
		return dedup.Record{}, fmt.Errorf("event %q: %w", event, dedup.ErrNotFound)
	}
	return e.Clone(), nil
}

// List implements [dedup.Store].
func (m *Store) List(ctx context.Context, f dedup.Filter) iter.Seq2[dedup.Record, error] {
	if f.Text != "" {
		return f.Search(func(f dedup.Filter) iter.Seq2[dedup.Record, error] { return m.List(ctx, f) })
	}
	return func(yield func(dedup.Record, error) bool) {
		now, err := m.begin(ctx)
		if err != nil {
			yield(dedup.Record{}, err)
			return
		}
		matches := m.match(f, now)
		m.mu.Unlock()
		for _, r := range matches { // records are immutable, so this needs no lock
			if err := ctx.Err(); err != nil {
				yield(dedup.Record{}, err)
				return
			}
			shown := r.Clone()
			if !f.Body {
				shown.Payload.Body = nil
			}
			if !yield(shown, nil) {
				return
			}
		}
	}
}

func (m *Store) match(f dedup.Filter, now time.Time) []*dedup.Record {
	var out []*dedup.Record
	for _, e := range slices.Backward(m.order) {
		r := e.Record
		if m.events[r.Event] != e || r.Disposable(now) || !f.Match(r, now) {
			continue
		}
		out = append(out, r)
		if f.Limit > 0 && len(out) == f.Limit {
			break
		}
	}
	return out
}

// Reopen implements [dedup.Store].
func (m *Store) Reopen(ctx context.Context, event string, tasks ...dedup.NewTask) (dedup.Record, error) {
	return m.change(ctx, event, func(r *dedup.Record, now time.Time) error { return r.Reopen(tasks, now) })
}

// Rerun implements [dedup.Store].
func (m *Store) Rerun(ctx context.Context, event string, handlers ...string) (dedup.Record, error) {
	return m.change(ctx, event, func(r *dedup.Record, now time.Time) error { return r.Rerun(handlers, now) })
}

// RunNow implements [dedup.Store].
func (m *Store) RunNow(ctx context.Context, event string) (dedup.Record, error) {
	return m.change(ctx, event, (*dedup.Record).RunNow)
}

// change edits the record of an event and returns the result.
func (m *Store) change(
	ctx context.Context, event string, edit func(*dedup.Record, time.Time) error,
) (dedup.Record, error) {
	r, err := m.update(ctx, event, edit)
	if err != nil {
		return dedup.Record{}, err
	}
	return r.Clone(), nil
}

func (m *Store) update(
	ctx context.Context, event string, edit func(*dedup.Record, time.Time) error,
) (*dedup.Record, error) {
	now, err := m.begin(ctx)
	if err != nil {
		return nil, err
	}
	defer m.mu.Unlock()
	e := m.find(event, now)
	if e == nil {
		return nil, fmt.Errorf("event %q: %w", event, dedup.ErrNotFound)
	}
	r := e.edit()
	if err := edit(r, now); err != nil {
		return nil, fmt.Errorf("event %q: %w", event, err)
	}
	m.replace(r)
	m.commits++
	m.wake()
	return r, nil
}

// Purge implements [dedup.Store].
func (m *Store) Purge(ctx context.Context, event string) error {
	now, err := m.begin(ctx)
	if err != nil {
		return err
	}
	defer m.mu.Unlock()
	e := m.find(event, now)
	switch {
	case e == nil:
		return fmt.Errorf("event %q: %w", event, dedup.ErrNotFound)
	case e.Open():
		return fmt.Errorf("event %q: %w", event, dedup.ErrOpen)
	}
	if !e.retired {
		m.traces.forget(e.Key)
	}
	m.drop(e)
	m.commits++
	return nil
}

// Stats implements [dedup.Store].
func (m *Store) Stats(ctx context.Context) (dedup.Stats, error) {
	if _, err := m.begin(ctx); err != nil {
		return dedup.Stats{}, err
	}
	defer m.mu.Unlock()
	open, running := m.queue.Len()
	s := dedup.Stats{
		Records: int64(len(m.events)),
		Pending: int64(open-running) + m.freed, Running: int64(running) + m.held, Dead: m.dead,
		Backlog: m.backlog, Free: -1,
		Commits: m.commits, Accepted: m.accepted, Quarantined: maps.Clone(m.quarantined),
	}
	s.Oldest, _ = m.queue.Oldest()
	return s, nil
}

// Health implements [dedup.Store].
func (m *Store) Health(ctx context.Context) error {
	if _, err := m.begin(ctx); err != nil {
		return err
	}
	m.mu.Unlock()
	return nil
}

// Guarantees implements [dedup.Store].
func (m *Store) Guarantees() dedup.Guarantees { return dedup.Guarantees{Durability: dedup.DurableNone} }

// Close implements [dedup.Store]. It discards all records.
func (m *Store) Close() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.events == nil {
		return nil
	}
	close(m.done)
	m.events, m.order = nil, nil
	m.windows.Reset(nil)
	m.names, m.traces = names{}, traces{}
	return nil
}

// wake makes the blocked Takes check again.
func (m *Store) wake() {
	if m.waiting > 0 {
		close(m.changed)
		m.changed = make(chan struct{})
	}
}
