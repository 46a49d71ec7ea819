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

	// OwnClock marks a store whose clock tests cannot move, such as that of a database server.
	// Checks that must move the clock are skipped at that point.
	OwnClock bool
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
	for _, group := range []struct {
		name   string
		checks []check
	}{
		{"Claim", claimChecks},
		{"Former", formerChecks},
		{"Take", takeChecks},
		{"Finish", finishChecks},
		{"Record", recordChecks},
		{"List", listChecks},
		{"Stats", statsChecks},
		{"Close", closeChecks},
		{"Durable", durableChecks},
		{"Race", raceChecks},
		{"Second", secondChecks},
		{"Model", modelChecks()},
	} {
		t.Run(group.name, func(t *testing.T) {
			t.Parallel()
			for _, c := range group.checks {
				t.Run(c.name, func(t *testing.T) {
					t.Parallel()
					c.run(newRig(t, h))
				})
			}
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
