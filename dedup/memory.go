package dedup

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/eyelet-dev/eyelet/dedup/internal/taskqueue"
)

// MemoryOptions are the settings of a Memory store. The zero value is ready to use.
type MemoryOptions struct {
	// Clock defaults to SystemClock.
	Clock Clock
	// MaxRecords bounds the records. Beyond it Claim returns ErrUnavailable, or ErrTooLarge for
	// claims that never fit. Zero is unlimited.
	MaxRecords int
	// Remember bounds the traces of keys beyond their windows.
	Remember Retention
	// MaxBytes bounds payloads, responses and names of all records together in the same way.
	MaxBytes int64
}

// Memory is a store for tests and to try things out: it forgets everything when the process
// ends. It decides exactly as the durable stores do. Create one with [NewMemory].
type Memory struct {
	options MemoryOptions
	clock   Clock
	opened  time.Time

	mu          sync.Mutex
	done        chan struct{}           // closed by Close
	changed     chan struct{}           // closed and replaced when work may be due earlier
	waiting     int                     // blocked Takes
	events      map[string]*memoryEntry // nil after Close
	names       memoryNames
	order       []*memoryEntry // by Seq; stale ones are removed once they are the majority
	stale       int            // entries of order that are no longer in events
	queue       *taskqueue.Queue[string]
	windows     taskqueue.Heap[*memoryEntry]
	traces      memoryTraces
	seq         uint64
	token       uint64
	bytes       int64
	backlog     int64
	dead        int64
	held        int64
	freed       int64 // tasks of released claims, which the queue does not have
	quarantined map[QuarantineGroup]int64
	commits     int64
	accepted    int64
}

var (
	_ Store = (*Memory)(nil)
)

// NewMemory returns an empty store.
func NewMemory(o MemoryOptions) *Memory {
	if o.Clock == nil {
		o.Clock = SystemClock()
	}
	o.Remember = o.Remember.WithDefaults()
	return &Memory{
		options:     o,
		clock:       o.Clock,
		opened:      o.Clock.Now(),
		done:        make(chan struct{}),
		changed:     make(chan struct{}),
		events:      map[string]*memoryEntry{},
		quarantined: map[QuarantineGroup]int64{},
		names:       memoryNames{keys: map[[32]byte][]*memoryEntry{}, aliases: map[[32]byte]*memoryEntry{}},
		queue:       taskqueue.New[string](),
		windows: taskqueue.NewHeap(func(a, b *memoryEntry) bool { return a.ends.Before(b.ends) },
			func(e *memoryEntry, i int) { e.window = i + 1 }),
		traces: newMemoryTraces(o.Remember, DayOf(o.Clock.Now())),
	}
}

// begin locks the store for a call and sweeps. The caller unlocks it if err is nil.
func (m *Memory) begin(ctx context.Context) (now time.Time, err error) {
	if err := ctx.Err(); err != nil {
		return time.Time{}, err
	}
	m.mu.Lock()
	if m.events == nil {
		m.mu.Unlock()
		return time.Time{}, ErrClosed
	}
	now = m.clock.Now()
	m.sweep(now, sweepBound)
	return now, nil
}

// Claim implements [Store].
func (m *Memory) Claim(ctx context.Context, claims ...Claim) ([]Decision, error) {
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
	step := m.newStep(now)
	out := make([]Decision, len(claims))
	for i, c := range claims {
		out[i] = step.claim(c)
	}
	if err := m.fit(step); err != nil {
		return nil, err
	}
	step.apply()
	return out, nil
}

// Take implements [Store].
func (m *Memory) Take(ctx context.Context, want Want) ([]Work, error) {
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
func (m *Memory) wait(ctx context.Context, changed <-chan struct{}, next time.Time, ok bool) error {
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
		return ErrClosed
	}
	return nil
}

func (m *Memory) wanted(w Want) taskqueue.Want {
	return taskqueue.Want{
		Tasks: w.Tasks, Bytes: w.Bytes, Handlers: w.Handlers, Orphans: m.opened.Add(w.OrphanAfter),
	}
}

// start leases due tasks.
func (m *Memory) start(now time.Time, want Want) []Work {
	var out []Work
	for _, it := range m.queue.Take(now, m.wanted(want), now.Add(want.Lease)) {
		r := m.events[it.Event].edit()
		r.Recover(it.Task, now, 0) // still running only if its lease expired
		m.token++
		l := r.Start(it.Task, m.token, now, want.Lease)
		m.replace(r)
		out = append(out, Work{Record: r.Clone(), Lease: l})
	}
	if len(out) > 0 {
		m.commits++
	}
	return out
}

// Extend implements [Store].
func (m *Memory) Extend(ctx context.Context, l Lease, d time.Duration) error {
	if d <= 0 {
		return fmt.Errorf("%w: extension by %v", ErrInvalid, d)
	}
	return m.leased(ctx, l, func(r *Record, now time.Time) error { return r.Extend(l, d, now) })
}

// Finish implements [Store].
func (m *Memory) Finish(ctx context.Context, l Lease, res Result) error {
	return m.leased(ctx, l, func(r *Record, now time.Time) error {
		res.Response = res.Response.Clone()
		return r.Finish(l, res, now)
	})
}

// FinishMany implements [Store].
func (m *Memory) FinishMany(ctx context.Context, results ...LeaseResult) []error {
	errs := make([]error, len(results))
	for i, r := range results {
		errs[i] = m.Finish(ctx, r.Lease, r.Result)
	}
	return errs
}

// leased edits the record of a lease.
func (m *Memory) leased(ctx context.Context, l Lease, edit func(*Record, time.Time) error) error {
	_, err := m.update(ctx, l.Event, edit)
	if errors.Is(err, ErrNotFound) {
		return ErrLeaseLost
	}
	return err
}

// Get implements [Store].
func (m *Memory) Get(ctx context.Context, event string) (Record, error) {
	now, err := m.begin(ctx)
	if err != nil {
		return Record{}, err
	}
	defer m.mu.Unlock()
	e := m.find(event, now)
	if e == nil {
		return Record{}, fmt.Errorf("event %q: %w", event, ErrNotFound)
	}
	return e.Clone(), nil
}

// List implements [Store].
func (m *Memory) List(ctx context.Context, f Filter) iter.Seq2[Record, error] {
	if f.Text != "" {
		return f.Search(func(f Filter) iter.Seq2[Record, error] { return m.List(ctx, f) })
	}
	return func(yield func(Record, error) bool) {
		now, err := m.begin(ctx)
		if err != nil {
			yield(Record{}, err)
			return
		}
		matches := m.match(f, now)
		m.mu.Unlock()
		for _, r := range matches { // records are immutable, so this needs no lock
			if err := ctx.Err(); err != nil {
				yield(Record{}, err)
				return
			}
			shown := r.withoutBody
			if f.Body {
				shown = r.Clone
			}
			if !yield(shown(), nil) {
				return
			}
		}
	}
}

func (m *Memory) match(f Filter, now time.Time) []*Record {
	var out []*Record
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

// Reopen implements [Store].
func (m *Memory) Reopen(ctx context.Context, event string, tasks ...NewTask) (Record, error) {
	return m.change(ctx, event, func(r *Record, now time.Time) error { return r.Reopen(tasks, now) })
}

// Rerun implements [Store].
func (m *Memory) Rerun(ctx context.Context, event string, handlers ...string) (Record, error) {
	return m.change(ctx, event, func(r *Record, now time.Time) error { return r.Rerun(handlers, now) })
}

// RunNow implements [Store].
func (m *Memory) RunNow(ctx context.Context, event string) (Record, error) {
	return m.change(ctx, event, (*Record).RunNow)
}

// change edits the record of an event and returns the result.
func (m *Memory) change(ctx context.Context, event string, edit func(*Record, time.Time) error) (Record, error) {
	r, err := m.update(ctx, event, edit)
	if err != nil {
		return Record{}, err
	}
	return r.Clone(), nil
}

func (m *Memory) update(ctx context.Context, event string, edit func(*Record, time.Time) error) (*Record, error) {
	now, err := m.begin(ctx)
	if err != nil {
		return nil, err
	}
	defer m.mu.Unlock()
	e := m.find(event, now)
	if e == nil {
		return nil, fmt.Errorf("event %q: %w", event, ErrNotFound)
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

// Purge implements [Store].
func (m *Memory) Purge(ctx context.Context, event string) error {
	now, err := m.begin(ctx)
	if err != nil {
		return err
	}
	defer m.mu.Unlock()
	e := m.find(event, now)
	switch {
	case e == nil:
		return fmt.Errorf("event %q: %w", event, ErrNotFound)
	case e.Open():
		return fmt.Errorf("event %q: %w", event, ErrOpen)
	}
	if !e.retired {
		m.traces.forget(e.Key)
	}
	m.drop(e)
	m.commits++
	return nil
}

// Stats implements [Store].
func (m *Memory) Stats(ctx context.Context) (Stats, error) {
	if _, err := m.begin(ctx); err != nil {
		return Stats{}, err
	}
	defer m.mu.Unlock()
	open, running := m.queue.Len()
	s := Stats{
		Records: int64(len(m.events)),
		Pending: int64(open-running) + m.freed, Running: int64(running) + m.held, Dead: m.dead,
		Backlog: m.backlog, Bytes: m.bytes, Free: -1,
		Commits: m.commits, Accepted: m.accepted, Quarantined: maps.Clone(m.quarantined),
	}
	s.Oldest, _ = m.queue.Oldest()
	return s, nil
}

// Health implements [Store].
func (m *Memory) Health(ctx context.Context) error {
	now, err := m.begin(ctx)
	if err != nil {
		return err
	}
	defer m.mu.Unlock()
	return m.fit(&memoryStep{m: m, now: now, records: 1, bytes: 1})
}

// Guarantees implements [Store].
func (m *Memory) Guarantees() Guarantees { return Guarantees{Durability: DurableNone} }

// Close implements [Store]. It discards all records.
func (m *Memory) Close() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.events == nil {
		return nil
	}
	close(m.done)
	m.events, m.order = nil, nil
	m.windows.Reset(nil)
	m.names, m.traces = memoryNames{}, memoryTraces{}
	return nil
}

// wake makes the blocked Takes check again.
func (m *Memory) wake() {
	if m.waiting > 0 {
		close(m.changed)
		m.changed = make(chan struct{})
	}
}

// fit returns an error unless the store has the capacity for what a step adds. It sweeps if
// necessary.
func (m *Memory) fit(s *memoryStep) error {
	o := m.options
	if o.MaxRecords > 0 && s.records > o.MaxRecords || o.MaxBytes > 0 && s.bytes > o.MaxBytes {
		return fmt.Errorf("%w: %d records of %d bytes, but MaxRecords is %d and MaxBytes %d (0 is unlimited)",
			ErrTooLarge, s.records, s.bytes, o.MaxRecords, o.MaxBytes)
	}
	for !m.fits(s) {
		if m.sweep(s.now, sweepBound) == 0 {
			reason := fmt.Sprintf("memory is full: %d records of %d bytes", len(m.events), m.bytes)
			return &ErrUnavailable{Reason: reason}
		}
	}
	return nil
}

func (m *Memory) fits(s *memoryStep) bool {
	o := m.options
	return (s.records == 0 || o.MaxRecords <= 0 || len(m.events)+s.records <= o.MaxRecords) &&
		(s.bytes <= 0 || o.MaxBytes <= 0 || m.bytes+s.bytes <= o.MaxBytes)
}
