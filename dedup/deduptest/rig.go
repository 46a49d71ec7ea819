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

func (x *rig) claims(cs ...dedup.Claim) []dedup.Decision {
	x.Helper()
	ds, err := x.store.Claim(x.ctx, cs...)
	x.must(err, "Claim")
	equal(x, "decisions", len(ds), len(cs))
	return ds
}

// want makes a claim whose verdict must be v.
func (x *rig) want(v dedup.Verdict, c dedup.Claim) dedup.Decision {
	x.Helper()
	d := x.claims(c)[0]
	if d.Verdict != v {
		x.Fatalf("claim of %q: verdict %v, want %v (record %s)", c.Key.ID, d.Verdict, v, text(d.Record))
	}
	return d
}

// about makes a claim whose verdict must be v, with the record of the event.
func (x *rig) about(v dedup.Verdict, event string, c dedup.Claim) dedup.Decision {
	x.Helper()
	d := x.want(v, c)
	equal(x, v.String()+" of "+c.Key.ID, d.Record.Event, event)
	return d
}

// accept makes a claim that must be new, and returns the id of its event.
func (x *rig) accept(c dedup.Claim) string {
	x.Helper()
	event := x.want(dedup.New, c).Record.Event
	equal(x, "event has an id", event != "", true)
	return event
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
	event = x.accept(c)
	x.run(r, event)
	return event
}

// run takes and finishes a task of the event.
func (x *rig) run(r dedup.Result, event string) {
	x.Helper()
	x.finish(x.takeOf(event).Lease, r)
}

// runsFor takes a task for a caller with handlers, which must be of one of them, and finishes it.
func (x *rig) runsFor(want string, handlers ...string) {
	x.Helper()
	w := x.takeUpTo(1, handlers...)[0]
	equal(x, "handler", w.Task().Handler, want)
	x.finish(w.Lease, done())
}

// take takes one task for a minute.
func (x *rig) take() dedup.Work {
	x.Helper()
	return x.takeUpTo(1)[0]
}

// takeOf takes one task, which must be of the event.
func (x *rig) takeOf(event string) dedup.Work {
	x.Helper()
	w := x.take()
	equal(x, "event of the task", w.Record.Event, event)
	return w
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

// wakes starts a Take while nothing is due, and returns what it takes once act makes a task due.
func (x *rig) wakes(act func(), handlers ...string) dedup.Work {
	x.Helper()
	ctx, cancel := context.WithTimeout(x.ctx, patience)
	defer cancel()
	var ws []dedup.Work
	failed := make(chan error, 1)
	go func() {
		var err error
		ws, err = x.store.Take(ctx, wanting(handlers...))
		failed <- err
	}()
	time.Sleep(5 * time.Millisecond) // it is probably blocked; if not, the check is still valid
	act()
	x.must(<-failed, "the waiting Take")
	equal(x, "tasks of the waiting Take", len(ws), 1)
	return ws[0]
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

func (x *rig) reopenEvent(event string) dedup.Record {
	x.Helper()
	r, err := x.store.Reopen(x.ctx, event)
	x.must(err, "Reopen")
	return r
}

func (x *rig) rerunEvent(event string) {
	x.Helper()
	_, err := x.store.Rerun(x.ctx, event, dedup.Rerun{})
	x.must(err, "Rerun")
}

// setting reads a number from the environment.
func setting(name string, otherwise int) int {
	if n, err := strconv.Atoi(os.Getenv(name)); err == nil && n > 0 {
		return n
	}
	return otherwise
}

// random returns a source of random numbers. It logs its seed, which EYELET_SEED can set.
func (x *rig) random() *rand.Rand {
	x.Helper()
	seed := setting("EYELET_SEED", rand.Int())
	x.Logf("EYELET_SEED=%d repeats this", seed)
	return rand.New(rand.NewPCG(uint64(seed), uint64(crc32.ChecksumIEEE([]byte(x.Name())))))
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
