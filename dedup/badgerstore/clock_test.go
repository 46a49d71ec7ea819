package badgerstore

import (
	"context"
	"testing"
	"time"

	"github.com/eyelet-dev/eyelet/dedup"
	"github.com/eyelet-dev/eyelet/dedup/deduptest"
)

func TestACustomClockThatIsSetBackContinues(t *testing.T) {
	t.Parallel()
	below := deduptest.NewSteppedClock()
	clock := clockOf(below)
	before := clock.Now()
	for _, off := range []time.Duration{-time.Hour, -3 * time.Hour, -2 * time.Hour} {
		below.Set(off)
		now := clock.Now()
		if now.Before(before) {
			t.Errorf("set to %v: %v is before %v", off, now, before)
		}
		before = now
	}
	if ahead := time.Until(clock.Now()); ahead < time.Hour-time.Minute || ahead > time.Hour+time.Minute {
		t.Errorf("a step ahead by an hour counts %v", ahead)
	}
}

func TestTheSystemClockIsReadOnce(t *testing.T) {
	t.Parallel()
	for _, given := range []dedup.Clock{nil, dedup.SystemClock()} {
		if _, ok := clockOf(given).(elapsed); !ok {
			t.Errorf("%T lives by %T", given, clockOf(given))
		}
	}
}

func TestATaskThatWaitsIsTakenAlthoughTheClockWasSetBack(t *testing.T) {
	t.Parallel()
	clock := deduptest.NewSteppedClock()
	o := quiet()
	o.Clock = clock
	s := open(t, t.TempDir(), o)
	mustClaim(t, s, claimOf("a"), dedup.New)
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	work, err := s.Take(ctx, dedup.Want{Tasks: 1, Bytes: 1 << 20, Lease: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Finish(ctx, work[0].Lease, dedup.Result{Kind: dedup.ResultRetry,
		After: 300 * time.Millisecond}); err != nil {
		t.Fatal(err)
	}
	taken := make(chan error, 1)
	go func() {
		_, err := s.Take(ctx, dedup.Want{Tasks: 1, Bytes: 1 << 20, Lease: time.Minute})
		taken <- err
	}()
	<-clock.Asked() // the committer sleeps until the task is due
	clock.Set(-time.Hour)
	if err := <-taken; err != nil { // the context would have ended long before the hour
		t.Error(err)
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
