package main

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/eyelet-dev/eyelet/internal/pgtest"
	"github.com/eyelet-dev/eyelet/torture/internal/campaign"
)

// tortureFleet runs a short torture of several receivers on a database. The command has longer
// ones.
func tortureFleet(t *testing.T, f *campaign.Fleet) campaign.Tally {
	t.Helper()
	pgtest.Programs(t)
	f.Dir, f.Clients, f.Receivers, f.Seed = t.TempDir(), 12, 3, uint64(time.Now().UnixNano())
	if err := os.Chmod(filepath.Dir(f.Dir), 0o711); err != nil { // the servers do not run as root
		t.Fatal(err)
	}
	f.Lease, f.Progress = time.Second, testLog{t}
	f.MinLife, f.MaxLife = 50*time.Millisecond, 400*time.Millisecond
	f.Child = func(dir string) []string { return childOf(t, dir) }
	t.Logf("seed %d", f.Seed)
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Minute)
	defer cancel()
	sum, err := f.Run(ctx)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%+v, %+v", sum, *sum.Fleet)
	if sum.Broken() {
		t.Error("the promise was broken")
	}
	if sum.Acknowledged == 0 || sum.Duplicates == 0 || sum.Laned == 0 || sum.Answered == 0 {
		t.Error("the run proved nothing: it needs acknowledgements, duplicates, lanes and answers")
	}
	return sum
}

// TestSeveralReceiversLoseNothing kills and pauses receivers on one database, and kills that too.
func TestSeveralReceiversLoseNothing(t *testing.T) {
	for range 5 { // a kill may interrupt no task
		sum := tortureFleet(t, &campaign.Fleet{Harness: campaign.Harness{Rounds: 6, Stops: 3, ServerKills: 1}})
		if sum.Fleet.Takeovers.Count > 0 && sum.Fleet.Recoveries.Count == 1 {
			return
		}
	}
	t.Error("the runs proved nothing: they need interrupted tasks, and a database that came back")
}

// long skips a test without EYELET_LONG.
func long(t *testing.T) {
	t.Helper()
	if os.Getenv("EYELET_LONG") == "" {
		t.Skip("it takes half a minute: set EYELET_LONG=1")
	}
}

// TestEffectsOfTransactionsHappenOnce counts the effects of handlers that are killed and paused.
func TestEffectsOfTransactionsHappenOnce(t *testing.T) {
	long(t)
	for _, effects := range []string{campaign.EffectsTx, campaign.EffectsSQL} {
		t.Run(effects, func(t *testing.T) { repeatedEffects(t, effects) })
	}
}

// TestMarkedEffectsHappenOnce kills and pauses a receiver with a store of its own, and the database
// of its handlers.
func TestMarkedEffectsHappenOnce(t *testing.T) {
	long(t)
	pgtest.Programs(t)
	h := &campaign.Harness{Rounds: 12, Stops: 2, ServerKills: 2, Effects: campaign.EffectsOnce}
	if sum := tortureOne(t, h); sum.Runs == 0 {
		t.Error("there were no effects")
	}
}

// TestEffectsApartFromTheirOutcomesAreRepeated shows that the count notices repetitions. A machine
// that is busy has few effects to repeat, and gets more time.
func TestEffectsApartFromTheirOutcomesAreRepeated(t *testing.T) {
	long(t)
	for range 5 {
		if repeatedEffects(t, campaign.EffectsPlain) > 0 {
			return
		}
	}
	t.Error("no effect was repeated")
}

func repeatedEffects(t *testing.T, effects string) int {
	t.Helper()
	return tortureFleet(t, &campaign.Fleet{Harness: campaign.Harness{Rounds: 5, Stops: 1, Effects: effects}}).Repeated
}

// TestAFailOverLosesNothing replaces the primary by its synchronous standby under load, and stops
// the new primary for a while. Deliveries get only 503 meanwhile.
func TestAFailOverLosesNothing(t *testing.T) {
	long(t)
	sum := tortureFleet(t, &campaign.Fleet{
		Harness: campaign.Harness{Rounds: 1, NoCrashers: true}, FailOvers: 1, ServerStops: 1, Outage: 3 * time.Second,
	})
	t.Logf("the receivers had the database again after %v ms at most", sum.Fleet.Recoveries.Max)
	if sum.Transient == 0 || sum.Fleet.Recoveries.Count != 2 {
		t.Error("the run proved nothing: no delivery noticed")
	}
}
