// Package deduptest is the suite that every [dedup.Store] must pass. Run it from one test of your
// store:
//
//	func TestStore(t *testing.T) {
//		deduptest.Run(t, deduptest.Harness{
//			Open: func(t *testing.T, clock *deduptest.Clock) dedup.Store {
//				s, err := mystore.Open(t.TempDir(), mystore.Options{Clock: clock})
//				if err != nil {
//					t.Fatal(err)
//				}
//				return s
//			},
//		})
//	}
//
// Each check is named after the behaviour that it requires. No check measures durations. A check
// that waits for something fails after 30 seconds.
//
// The model test logs its seed. EYELET_SEED=N repeats a run, EYELET_STEPS=N sets the operations per
// run (default 400), and EYELET_RUNS=N the number of runs (default 4).
package deduptest

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/eyelet-dev/eyelet/dedup"
)

// patience is how long a check waits for something before it fails.
const patience = 30 * time.Second

// Harness opens the store under test.
type Harness struct {
	// Open returns a new, empty store on the clock. The suite closes it. Required.
	Open func(t *testing.T, clock *Clock) dedup.Store

	// Reopen closes the store and opens it again with its content and the same clock. Leave it nil
	// for a store that is not durable: the checks that need it are skipped.
	Reopen func(t *testing.T, s dedup.Store, clock *Clock) dedup.Store

	// Second opens another store with the content of s, on the same clock, as a second process
	// does. The suite closes it. Leave it nil for a store of one process: the checks of two stores
	// are then skipped, and those of races run on one.
	Second func(t *testing.T, s dedup.Store, clock *Clock) dedup.Store
}

// check requires one behaviour.
type check struct {
	name string
	run  func(x *rig)
}

// Run runs the suite.
func Run(t *testing.T, h Harness) {
	t.Helper()
	if h.Open == nil {
		t.Fatal("deduptest: Harness.Open is missing")
	}
	for _, c := range slices.Concat(modelChecks(), contract, notes, most) {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			c.run(newRig(t, h))
		})
	}
}

// FinishEach finishes each result by a store's Finish, for a store of tests that replaces it.
func FinishEach(ctx context.Context, s dedup.Store, results []dedup.LeaseResult) (errs []error) {
	for _, r := range results {
		errs = append(errs, s.Finish(ctx, r.Lease, r.Result))
	}
	return errs
}

// ForgetsTheOldestDays checks a new store on the clock with a [dedup.Retention] of at most ten
// keys: it forgets the oldest days first, and an event from before is too old. prune makes the
// store forget.
func ForgetsTheOldestDays(t *testing.T, s dedup.Store, clock *Clock, prune func()) {
	t.Helper()
	x := &rig{T: t, store: s, ctx: t.Context()}
	began := clock.Now()
	for _, name := range []string{"a", "b", "c"} {
		for i := range 4 {
			x.accept(remembered(fmt.Sprint(name, i), time.Time{}))
		}
		clock.Advance(2 * day)
		prune()
	}
	for i := range 4 {
		x.want(dedup.Seen, remembered(fmt.Sprint("b", i), time.Time{}))
		x.want(dedup.Seen, remembered(fmt.Sprint("c", i), time.Time{}))
	}
	x.want(dedup.TooOld, remembered("a0", began.Add(-day)))
	x.want(dedup.TooOld, remembered("x", began.Add(-100*day)))
	x.accept(remembered("y", began.Add(4*day)))
	x.accept(remembered("a1", time.Time{}))
}

// RemembersNothing checks a new store whose [dedup.Retention] is off.
func RemembersNothing(t *testing.T, s dedup.Store, clock *Clock) {
	t.Helper()
	x := &rig{T: t, store: s, ctx: t.Context()}
	for range 3 {
		x.accept(remembered("a", time.Time{}))
		x.accept(remembered("b", clock.Now().Add(-500*day)))
		clock.Advance(100 * day)
	}
}
