package badgerstore

import (
	"context"
	"testing"
	"time"

	"github.com/eyelet-dev/eyelet/dedup"
	"github.com/eyelet-dev/eyelet/dedup/deduptest"
)

// TestTheSystemClockIsReadOnce: setting the clock of the machine moves no windows.
func TestTheSystemClockIsReadOnce(t *testing.T) {
	t.Parallel()
	for _, given := range []dedup.Clock{nil, dedup.SystemClock()} {
		if used, ok := (Options{Clock: given}).withDefaults().Clock.(elapsed); !ok {
			t.Errorf("%T: the store uses %T", given, used)
		}
	}
}

func TestTasksDoNotWaitForAClockThatWasSetBackBetweenTwoProcesses(t *testing.T) {
	t.Parallel()
	clock := deduptest.NewClock()
	o := quiet()
	o.Clock = clock
	s := open(t, t.TempDir(), o)
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	for _, id := range []string{"soon", "later"} {
		mustClaim(t, s, claimOf(id), dedup.New)
	}
	work, err := s.Take(ctx, dedup.Want{Tasks: 2, Bytes: 1 << 20, Lease: time.Minute})
	if err != nil || len(work) != 2 {
		t.Fatal(len(work), err)
	}
	for i, after := range []time.Duration{time.Second, 30 * time.Minute} {
		if err := s.Finish(ctx, work[i].Lease, dedup.Result{Kind: dedup.ResultRetry, After: after}); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	clock.Advance(-time.Hour)
	o.AcceptClock = true
	for restart := range 2 { // the repair lasts
		s = open(t, s.dir, o)
		for i, want := range []time.Duration{time.Second, 30 * time.Minute} {
			r, err := s.Get(ctx, work[i].Record.Event)
			if err != nil {
				t.Fatal(err)
			}
			if wait := r.Tasks[0].Due.Sub(clock.Now()); wait != want {
				t.Errorf("start %d: %s waits for %v, want %v", restart, r.Key.ID, wait, want)
			}
		}
		mustClaim(t, s, claimOf("soon"), dedup.Known)
		if restart == 0 {
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
		}
	}
	clock.Advance(time.Second)
	work, err = s.Take(ctx, dedup.Want{Tasks: 2, Bytes: 1 << 20, Lease: time.Minute})
	if err != nil || len(work) != 1 || work[0].Record.Key.ID != "soon" {
		t.Errorf("%d tasks, %v", len(work), err)
	}
}
