// Package memstore keeps events in memory. It decides exactly as the durable stores do.
package memstore

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"sync"
	"time"

	"github.com/eyelet-dev/eyelet/dedup"
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

	mu       sync.Mutex
	done     chan struct{}         // closed by Close
	changed  chan struct{}         // closed and replaced when work may be due earlier
	waiting  int                   // blocked Takes
	now      time.Time             // of the call
	dirty    bool                  // whether the call has changed anything
	events   map[string]*entry     // nil after Close
	keys     map[[32]byte][]*entry // all generations, oldest first
	aliases  map[[32]byte]*entry
	order    []*entry // by Seq, with some that were dropped
	swept    int      // the last one that a sweep looked at
	queue    *taskqueue.Queue[*entry]
	traces   traces
	notes    notes
	step     dedup.Step[*entry]
	seq      uint64
	token    uint64
	commits  int64
	accepted int64
}

var _ dedup.Store = (*Store)(nil)

// New returns an empty store.
func New(o Options) *Store {
	if o.Clock == nil {
		o.Clock = dedup.SystemClock()
	}
	o.Remember = o.Remember.WithDefaults()
	return &Store{
		clock: o.Clock, opened: o.Clock.Now(), done: make(chan struct{}), changed: make(chan struct{}),
		events: map[string]*entry{}, keys: map[[32]byte][]*entry{}, aliases: map[[32]byte]*entry{},
		queue: taskqueue.New[*entry](), traces: newTraces(o.Remember, dedup.DayOf(o.Clock.Now())), notes: notes{},
	}
}

// begin locks the store for a call and sweeps. The caller unlocks it if err is nil.
func (m *Store) begin(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	m.mu.Lock()
	if m.events == nil {
		m.mu.Unlock()
		return dedup.ErrClosed
	}
	m.now = m.clock.Now()
	m.sweep()
	return nil
}

// Claim implements [dedup.Store].
func (m *Store) Claim(ctx context.Context, claims ...dedup.Claim) ([]dedup.Decision, error) {
	for i := range claims {
		if err := claims[i].Check(); err != nil {
			return nil, fmt.Errorf("claim %d: %w", i, err)
		}
	}
	if err := m.begin(ctx); err != nil {
		return nil, err
	}
	defer m.mu.Unlock()
	out := make([]dedup.Decision, len(claims))
	for i := range claims {
		var err error
		if out[i], err = m.step.Claim(source{m}, &claims[i], claims[i].Names(), m.now); err != nil {
			return nil, err
		}
	}
	m.commit()
	return out, nil
}

// Take implements [dedup.Store].
func (m *Store) Take(ctx context.Context, want dedup.Want) ([]dedup.Work, error) {
	if err := want.Check(); err != nil {
		return nil, err
	}
	for {
		if err := m.begin(ctx); err != nil {
			return nil, err
		}
		if work := m.start(want); len(work) > 0 {
			m.mu.Unlock()
			return work, nil
		}
		changed := m.changed
		next, ok := m.queue.NextDue(m.now, m.wanted(want))
		m.waiting++
		m.mu.Unlock()
		err := m.wait(ctx, changed, next, ok)
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
		Most: w.Most,
	}
}

// start leases due tasks.
func (m *Store) start(want dedup.Want) []dedup.Work {
	var out []dedup.Work
	for _, it := range m.queue.Take(m.now, m.wanted(want), m.now.Add(want.Lease), nil) {
		m.token++
		var l dedup.Lease
		source{m}.Change(it.Event, func(r *dedup.Record) {
			r.Recover(it.Task, m.now, 0) // still running only if its lease expired
			l = r.Start(it.Task, m.token, m.now, want.Lease)
		})
		out = append(out, dedup.Work{Record: it.Event.Clone(), Lease: l})
	}
	m.commit()
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
		return r.Finish(source{m}, l, res, now)
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
	_, err := m.edit(ctx, l.Event, edit)
	if errors.Is(err, dedup.ErrNotFound) {
		return dedup.ErrLeaseLost
	}
	return err
}

// Reopen implements [dedup.Store].
func (m *Store) Reopen(ctx context.Context, event string, tasks ...dedup.NewTask) (dedup.Record, error) {
	return m.edit(ctx, event, func(r *dedup.Record, now time.Time) error { return r.Reopen(tasks, now) })
}

// Rerun implements [dedup.Store].
func (m *Store) Rerun(ctx context.Context, event string, again dedup.Rerun) (dedup.Record, error) {
	return m.edit(ctx, event, func(r *dedup.Record, now time.Time) error { return r.Rerun(again, now) })
}

// RunNow implements [dedup.Store].
func (m *Store) RunNow(ctx context.Context, event string) (dedup.Record, error) {
	return m.edit(ctx, event, (*dedup.Record).RunNow)
}

// edit changes the record of an event, unless that fails, and returns the result.
func (m *Store) edit(
	ctx context.Context, event string, edit func(*dedup.Record, time.Time) error,
) (out dedup.Record, err error) {
	err = m.with(ctx, event, func(e *entry) error {
		if err := m.change(e, func(r *dedup.Record) error { return edit(r, m.now) }); err != nil {
			return err
		}
		out = e.Clone()
		return nil
	})
	return out, err
}

// with calls f with an event.
func (m *Store) with(ctx context.Context, event string, f func(*entry) error) error {
	if err := m.begin(ctx); err != nil {
		return err
	}
	defer m.mu.Unlock()
	e, err := m.find(event), dedup.ErrNotFound
	if e != nil {
		err = f(e)
	}
	if err != nil {
		return fmt.Errorf("event %q: %w", event, err)
	}
	m.commit()
	return nil
}

// Get implements [dedup.Store].
func (m *Store) Get(ctx context.Context, event string) (out dedup.Record, err error) {
	err = m.with(ctx, event, func(e *entry) error { out = e.Clone(); return nil })
	return out, err
}

// Purge implements [dedup.Store].
func (m *Store) Purge(ctx context.Context, event string) error {
	return m.with(ctx, event, func(e *entry) error {
		if e.Open() {
			return dedup.ErrOpen
		}
		if !e.retired {
			m.traces.forget(e.Key)
		}
		m.drop(e)
		m.dirty = true
		return nil
	})
}

// List implements [dedup.Store].
func (m *Store) List(ctx context.Context, f dedup.Filter) iter.Seq2[dedup.Record, error] {
	if f.Text != "" {
		return f.Search(func(f dedup.Filter) iter.Seq2[dedup.Record, error] { return m.List(ctx, f) })
	}
	return func(yield func(dedup.Record, error) bool) {
		err := m.begin(ctx)
		if err != nil {
			yield(dedup.Record{}, err)
			return
		}
		matches := m.match(f)
		m.mu.Unlock()
		for _, r := range matches { // records are immutable, so this needs no lock
			if err := ctx.Err(); err != nil {
				yield(dedup.Record{}, err)
				return
			}
			shown := *r
			if !f.WithBody(int64(len(r.Payload.Body))) {
				shown.Payload.Body = nil
			}
			if !yield(shown.Clone(), nil) {
				return
			}
		}
	}
}

func (m *Store) match(f dedup.Filter) []*dedup.Record {
	var out []*dedup.Record
	for _, e := range slices.Backward(m.order) {
		if e.dropped || e.Disposable(m.now) || !f.Match(e.Record, m.now) {
			continue
		}
		out = append(out, e.Record)
		if f.Limit > 0 && len(out) == f.Limit {
			break
		}
	}
	return out
}

// Stats implements [dedup.Store].
func (m *Store) Stats(ctx context.Context) (dedup.Stats, error) {
	if err := m.begin(ctx); err != nil {
		return dedup.Stats{}, err
	}
	defer m.mu.Unlock()
	s := dedup.Stats{
		Records: int64(len(m.events)), Free: -1, Commits: m.commits, Accepted: m.accepted,
		Quarantined: map[dedup.QuarantineGroup]int64{},
	}
	s.Oldest, _ = m.queue.Oldest()
	for _, e := range m.events {
		if e.Open() {
			s.Backlog += int64(len(e.Payload.Body))
		}
		if e.Quarantined() {
			s.Quarantined[dedup.QuarantineGroup{Endpoint: e.Payload.Endpoint, Reason: e.QuarantineReason}]++
		}
		for _, t := range e.Tasks {
			switch t.State {
			case dedup.Pending:
				s.Pending++
			case dedup.Running:
				s.Running++
			case dedup.Dead:
				s.Dead++
			}
		}
	}
	return s, nil
}

// Health implements [dedup.Store].
func (m *Store) Health(ctx context.Context) error {
	if err := m.begin(ctx); err != nil {
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
	m.events, m.keys, m.aliases, m.order, m.queue, m.traces = nil, nil, nil, nil, nil, traces{}
	return nil
}

// commit ends a call. If it has changed anything, the blocked Takes check again.
func (m *Store) commit() {
	if !m.dirty {
		return
	}
	m.dirty = false
	m.commits++
	if m.waiting > 0 {
		close(m.changed)
		m.changed = make(chan struct{})
	}
}
