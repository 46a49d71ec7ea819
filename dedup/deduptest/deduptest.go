// Package deduptest is the suite that every [dedup.Store] passes. A store of your own runs it from one test:
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
// Besides, [SteppedClock] shows what a store of your own does when the machine's clock is set.
//
// The name of each check says the behaviour that it holds. No check measures how long anything takes; one that
// waits for something that must happen gives up after [Patience].
//
// The model test prints its seed. EYELET_SEED=N repeats one run, EYELET_STEPS=N makes it longer (operations
// per run, 400 by default), EYELET_RUNS=N has more of them (4 by default).
package deduptest

import (
	"testing"
	"time"

	"github.com/eyelet-dev/eyelet/dedup"
)

// Patience is how long a check waits for what must happen before it fails.
const Patience = 30 * time.Second

// Harness says how to get at a store.
type Harness struct {
	// Open returns a new, empty store that lives by the clock. The suite closes it. Required.
	Open func(t *testing.T, clock *Clock) dedup.Store

	// Reopen closes the store and opens it again with what it holds, on the same clock. Leave it nil for a
	// store that forgets; the checks that need it are then skipped.
	Reopen func(t *testing.T, s dedup.Store, clock *Clock) dedup.Store

	// OwnClock says that the store lives by a clock that tests cannot move, a database's for example. Checks
	// that have to move the clock are then skipped when they come to it.
	OwnClock bool
}

// check is one behaviour.
type check struct {
	name string
	run  func(x *rig)
}

// group is a family of behaviours.
type group struct {
	name   string
	checks []check
}

// Run runs the suite.
func Run(t *testing.T, h Harness) {
	t.Helper()
	if h.Open == nil {
		t.Fatal("deduptest: Harness.Open is missing")
	}
	groups := []group{
		{"Claim", claimChecks()},
		{"Batch", batchChecks},
		{"Alias", aliasChecks},
		{"Series", seriesChecks},
		{"Remember", rememberChecks},
		{"Quarantine", quarantineChecks},
		{"Occurrence", occurrenceChecks},
		{"Share", shareChecks},
		{"Hold", holdChecks},
		{"Take", takeChecks},
		{"Lane", laneChecks},
		{"Lease", leaseChecks},
		{"Window", windowChecks},
		{"Reopen", reopenChecks},
		{"RunNow", runNowChecks},
		{"Purge", purgeChecks},
		{"List", listChecks},
		{"Record", recordChecks},
		{"Stats", statsChecks},
		{"Close", closeChecks},
		{"Durable", durableChecks},
		{"Race", raceChecks},
		{"Model", modelChecks()},
	}
	for _, g := range groups {
		t.Run(g.name, func(t *testing.T) {
			t.Parallel()
			for _, c := range g.checks {
				t.Run(c.name, func(t *testing.T) {
					t.Parallel()
					c.run(newRig(t, h))
				})
			}
		})
	}
}
