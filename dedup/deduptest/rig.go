package deduptest

import (
	"context"
	"hash/crc32"
	"math/rand/v2"
	"os"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/eyelet-dev/eyelet/dedup"
)

// rig is the store of one check, with the calls that checks make.
type rig struct {
	*testing.T
	harness Harness
	clock   *Clock
	store   dedup.Store
	both    []dedup.Store // the store, and the second one once it is open
	ctx     context.Context
}

func newRig(t *testing.T, h Harness) *rig {
	t.Helper()
	clock := NewClock()
	ctx, cancel := context.WithTimeout(t.Context(), 4*patience)
	x := &rig{T: t, harness: h, clock: clock, store: h.Open(t, clock), ctx: ctx}
	t.Cleanup(func() {
		cancel()
		if err := x.store.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
		x.store, x.both = nil, nil // package testing keeps this function until all tests end
	})
	return x
}

func (x *rig) advance(d time.Duration) { x.clock.Advance(d) }

// reopen closes and reopens the store, or skips the rest of the check if the store is not durable.
func (x *rig) reopen() {
	x.Helper()
	if x.harness.Reopen == nil {
		x.Skip("the store is not durable")
	}
	x.store = x.harness.Reopen(x.T, x.store, x.clock)
}

// again closes and reopens a durable store.
func (x *rig) again() {
	x.Helper()
	if x.harness.Reopen != nil {
		x.reopen()
	}
}

const (
	minute = time.Minute
	hour   = time.Hour
	day    = 24 * time.Hour
)

func (x *rig) claim(c dedup.Claim) dedup.Decision {
	x.Helper()
	return x.claims(c)[0]
}

func (x *rig) claims(cs ...dedup.Claim) []dedup.Decision {
	x.Helper()
	ds, err := x.store.Claim(x.ctx, cs...)
	x.must(err, "Claim")
	if len(ds) != len(cs) {
		x.Fatalf("Claim of %d: %d decisions", len(cs), len(ds))
	}
	return ds
}

// started accepts an event and takes its task.
func (x *rig) started(c dedup.Claim) (event string, w dedup.Work) {
	x.Helper()
	event = x.accept(c)
	return event, x.takeOf(event)
}

// finished accepts an event and finishes its first task with the result.
func (x *rig) finished(c dedup.Claim, r dedup.Result) (event string) {
	x.Helper()
	event, w := x.started(c)
	x.finish(w.Lease, r)
	return event
}

// run takes and finishes a task of the event.
func (x *rig) run(r dedup.Result, event string) {
	x.Helper()
	x.finish(x.takeOf(event).Lease, r)
}

// stores returns the store and a second one with its content, or only the store if it belongs to
// one process.
func (x *rig) stores() []dedup.Store {
	x.Helper()
	if x.both == nil {
		x.both = []dedup.Store{x.store}
		if x.harness.Second != nil {
			second := x.harness.Second(x.T, x.store, x.clock)
			x.both = append(x.both, second)
			x.Cleanup(func() {
				x.must(second.Close(), "Close of the second store")
				second = nil
			})
		}
	}
	return x.both
}

// other returns a rig of the second store, or skips the rest of the check without one.
func (x *rig) other() *rig {
	x.Helper()
	if x.harness.Second == nil {
		x.Skip("the store belongs to one process")
	}
	y := *x
	y.store = x.stores()[1]
	return &y
}

// take takes one task for a minute.
func (x *rig) take() dedup.Work {
	x.Helper()
	return x.takeUpTo(1)[0]
}

// takeUpTo takes tasks for a minute, of these handlers if there are any. At least one must be due.
func (x *rig) takeUpTo(n int, handlers ...string) []dedup.Work {
	x.Helper()
	ctx, cancel := context.WithTimeout(x.ctx, patience)
	defer cancel()
	want := wanting(handlers...)
	want.Tasks = n
	ws, err := x.store.Take(ctx, want)
	x.must(err, "Take with work due")
	if len(ws) == 0 || len(ws) > n {
		x.Fatalf("Take of up to %d: %d tasks", n, len(ws))
	}
	return ws
}

// takeAll takes exactly so many tasks.
func (x *rig) takeAll(n int) (all []dedup.Work) {
	x.Helper()
	for len(all) < n {
		all = append(all, x.takeUpTo(n-len(all))...)
	}
	return all
}

// takeOf takes one task, which must be of the event.
func (x *rig) takeOf(event string) dedup.Work {
	x.Helper()
	w := x.take()
	if w.Record.Event != event {
		x.Fatalf("Take returned %s, want event %s", text(w.Record), event)
	}
	return w
}

func (x *rig) finish(l dedup.Lease, r dedup.Result) {
	x.Helper()
	x.must(x.store.Finish(x.ctx, l, r), "Finish of "+l.Event)
}

func (x *rig) get(event string) dedup.Record {
	x.Helper()
	r, err := x.store.Get(x.ctx, event)
	x.must(err, "Get of "+event)
	return r
}

func (x *rig) list(f dedup.Filter) []dedup.Record {
	x.Helper()
	var out []dedup.Record
	for r, err := range x.store.List(x.ctx, f) {
		x.must(err, "List")
		out = append(out, r)
	}
	return out
}

func (x *rig) close() {
	x.Helper()
	x.must(x.store.Close(), "Close")
}

func (x *rig) purge(event string) {
	x.Helper()
	x.must(x.store.Purge(x.ctx, event), "Purge")
	_, err := x.store.Get(x.ctx, event)
	x.fails(err, dedup.ErrNotFound, "Get after Purge")
	if rs := x.list(dedup.Filter{Event: event}); len(rs) != 0 {
		x.Errorf("listed after Purge: %s", text(rs[0]))
	}
	x.fails(x.store.Purge(x.ctx, event), dedup.ErrNotFound, "second Purge")
}

// stats waits until the counts of the store, which may be a second old, are as wanted.
func (x *rig) stats(what string, wanted func(dedup.Stats) bool) dedup.Stats {
	x.Helper()
	for end := time.Now().Add(patience); ; time.Sleep(50 * time.Millisecond) {
		s, err := x.store.Stats(x.ctx)
		x.must(err, "Stats")
		if wanted(s) {
			return s
		}
		if time.Now().After(end) {
			x.Fatalf("%s: %+v", what, s)
		}
	}
}

// waiting starts a Take while nothing is due, and returns a function that waits for its result.
func (x *rig) waiting(handlers ...string) func() dedup.Work {
	x.Helper()
	type result struct {
		works []dedup.Work
		err   error
	}
	got := make(chan result, 1)
	ctx, cancel := context.WithTimeout(x.ctx, patience)
	go func() {
		ws, err := x.store.Take(ctx, wanting(handlers...))
		got <- result{ws, err}
	}()
	time.Sleep(5 * time.Millisecond) // it is probably blocked; if not, the check is still valid
	return func() dedup.Work {
		x.Helper()
		defer cancel()
		r := <-got
		if r.err != nil || len(r.works) != 1 {
			x.Fatalf("the waiting Take returned %d tasks, %v", len(r.works), r.err)
		}
		return r.works[0]
	}
}

func (x *rig) reopenEvent(event string, tasks ...dedup.NewTask) dedup.Record {
	x.Helper()
	r, err := x.store.Reopen(x.ctx, event, tasks...)
	x.must(err, "Reopen")
	return r
}

func (x *rig) rerunEvent(event string, handlers ...string) dedup.Record {
	x.Helper()
	r, err := x.store.Rerun(x.ctx, event, handlers...)
	x.must(err, "Rerun")
	return r
}

func (x *rig) extend(l dedup.Lease, d time.Duration) {
	x.Helper()
	x.must(x.store.Extend(x.ctx, l, d), "Extend")
}

// random returns a source of random numbers. It logs its seed, which EYELET_SEED can set.
func (x *rig) random() *rand.Rand {
	x.Helper()
	seed, err := strconv.ParseUint(os.Getenv("EYELET_SEED"), 10, 64)
	if err != nil {
		seed = rand.Uint64N(1 << 32)
	}
	x.Logf("seed %d: EYELET_SEED=%d repeats this", seed, seed)
	return rand.New(rand.NewPCG(seed, uint64(crc32.ChecksumIEEE([]byte(x.Name())))))
}

// together runs n calls at once and returns their errors.
func together(n int, call func(i int) error) []error {
	errs := make([]error, n)
	var wg sync.WaitGroup
	start := make(chan struct{})
	for i := range n {
		wg.Go(func() {
			<-start
			errs[i] = call(i)
		})
	}
	close(start)
	wg.Wait()
	return errs
}
