package badgerstore

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"github.com/eyelet-dev/eyelet/dedup"
	"github.com/eyelet-dev/eyelet/dedup/badgerstore/internal/kv"
	"github.com/eyelet-dev/eyelet/dedup/badgerstore/internal/record"
	"github.com/eyelet-dev/eyelet/dedup/deduptest"
)

func TestATaskIsOnDiskBeforeItsHandlerStarts(t *testing.T) {
	t.Parallel()
	o := quiet()
	var started, flushed atomic.Bool
	armed := make(chan struct{}, 1)
	o.step = func(at commitStep) {
		select {
		case <-armed:
		default:
			return
		}
		if at != stepFlush {
			armed <- struct{}{}
			return
		}
		for range 10_000 { // for a Take that was answered too early
			runtime.Gosched()
		}
		if flushed.Store(true); started.Load() {
			t.Error("Take returned before its commit was flushed")
		}
	}
	s := open(t, t.TempDir(), o)
	mustClaim(t, s, claimOf("a"), dedup.New)
	armed <- struct{}{}
	work, err := s.Take(t.Context(), dedup.Want{Tasks: 1, Bytes: 1 << 20, Lease: time.Hour})
	started.Store(true)
	if err != nil || len(work) != 1 || !flushed.Load() {
		t.Errorf("%d tasks, flushed %v, %v", len(work), flushed.Load(), err)
	}
}

func TestAnInterruptedTaskHasUsedItsAttemptAndWaits(t *testing.T) {
	t.Parallel()
	clock := deduptest.NewClock()
	o := quiet()
	o.Clock = clock
	var asked []int
	o.RecoverWait = func(attempt int) time.Duration {
		asked = append(asked, attempt)
		return time.Minute
	}
	s := open(t, t.TempDir(), o)
	ctx := context.Background()
	event := mustClaim(t, s, claimOf("a"), dedup.New).Record.Event
	held := claimOf("held")
	held.Hold, held.Lease, held.Response = true, time.Hour, dedup.Response{}
	mustClaim(t, s, held, dedup.New)
	work, err := s.Take(ctx, dedup.Want{Tasks: 1, Bytes: 1 << 20, Lease: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	again := open(t, copyStore(t, s.dir), o)
	r, err := again.Get(ctx, event)
	if err != nil {
		t.Fatal(err)
	}
	task := r.Tasks[0]
	if task.State != dedup.Pending || task.Attempt != 1 || !task.Due.Equal(clock.Now().Add(time.Minute)) ||
		task.Reason != "interrupted" {
		t.Errorf("task %+v", task)
	}
	if len(asked) == 0 || asked[0] != 1 {
		t.Errorf("RecoverWait was asked for %v", asked)
	}
	err = again.Finish(ctx, work[0].Lease, dedup.Result{Kind: dedup.ResultDone})
	if !errors.Is(err, dedup.ErrLeaseLost) {
		t.Errorf("Finish with the lease of another life: %v", err)
	}
	clock.Advance(time.Minute)
	next, err := again.Take(ctx, dedup.Want{Tasks: 1, Bytes: 1 << 20, Lease: time.Hour})
	if err != nil || next[0].Task().Attempt != 2 {
		t.Fatalf("second attempt: %v, %v", next, err)
	}
	if next[0].Lease.Token <= work[0].Lease.Token {
		t.Errorf("token %d after %d", next[0].Lease.Token, work[0].Lease.Token)
	}
	if d := mustClaim(t, again, held, dedup.New); d.Record.Tasks[0].Attempt != 2 {
		t.Errorf("held claim in its second life: %+v", d.Record.Tasks)
	}
}

func TestThousandsOfInterruptedTasksAreRecovered(t *testing.T) {
	t.Parallel()
	s := open(t, t.TempDir(), quiet())
	ctx := context.Background()
	const n = 2500
	var claims []dedup.Claim
	for i := range n {
		c := claimOf(fmt.Sprint(i))
		c.Payload.Body = nil
		if claims = append(claims, c); len(claims) == 500 {
			if _, err := s.Claim(ctx, claims...); err != nil {
				t.Fatal(err)
			}
			claims = claims[:0]
		}
	}
	for taken := 0; taken < n; {
		work, err := s.Take(ctx, dedup.Want{Tasks: n, Bytes: 1 << 30, Lease: time.Hour})
		if err != nil {
			t.Fatal(err)
		}
		taken += len(work)
	}
	again := open(t, copyStore(t, s.dir), quiet())
	st, err := again.Stats(ctx)
	if err != nil || st.Pending != n || st.Running != 0 || st.Records != n {
		t.Errorf("%+v, %v", st, err)
	}
}

func TestTheStatisticsSurviveARestart(t *testing.T) {
	t.Parallel()
	s := open(t, t.TempDir(), quiet())
	ctx := context.Background()
	for i := range 6 {
		mustClaim(t, s, claimOf(fmt.Sprint(i)), dedup.New)
	}
	work, err := s.Take(ctx, dedup.Want{Tasks: 4, Bytes: 1 << 20, Lease: time.Hour})
	if err != nil || len(work) != 4 {
		t.Fatal(work, err)
	}
	kinds := []dedup.Kind{dedup.ResultDone, dedup.ResultDead, dedup.ResultRetry, dedup.ResultRelease}
	for i, w := range work {
		if err := s.Finish(ctx, w.Lease, dedup.Result{Kind: kinds[i]}); err != nil {
			t.Fatal(err)
		}
	}
	want := dedup.Stats{Records: 6, Pending: 4, Dead: 1, Backlog: 4 * 1024}
	look := func(s *Store) {
		t.Helper()
		st, err := s.Stats(ctx)
		if err != nil {
			t.Fatal(err)
		}
		got := dedup.Stats{Records: st.Records, Pending: st.Pending, Running: st.Running, Dead: st.Dead,
			Backlog: st.Backlog}
		if !reflect.DeepEqual(got, want) || st.Free <= 0 || st.Bytes < 0 || st.Oldest.IsZero() {
			t.Errorf("got %+v, want %+v", st, want)
		}
	}
	look(s)
	shut(t, s)
	look(open(t, s.dir, quiet()))
}

// TestPartsAreTheWholeStore reads a store in one part and in many: each event is seen once.
func TestPartsAreTheWholeStore(t *testing.T) {
	t.Parallel()
	const events = 700
	s := filled(t, events, smallClaim)
	finishNext(t, s, 300, dedup.Result{Kind: dedup.ResultDone})
	finishNext(t, s, 100, dedup.Result{Kind: dedup.ResultDead})
	look := func(parts []part) (string, int) {
		t.Helper()
		open := map[uint64]int{}
		found, err := surveyParts(s.core, parts, func(r *row) { open[r.rec.Seq]++ })
		if err != nil {
			t.Fatal(err)
		}
		for event, times := range open {
			if times != 1 {
				t.Errorf("event %d was seen %d times", event, times)
			}
		}
		seen := map[uint64]bool{}
		for _, l := range found.newest.events {
			seen[l.Seq] = true
		}
		return fmt.Sprintf("%+v, %d of them different, cut %t, %d open", found.total, len(seen),
			found.newest.truncated, len(open)), len(found.newest.events)
	}
	want, n := look(partsOf(1))
	if n != events {
		t.Errorf("%d events in one part, not %d", n, events)
	}
	for _, many := range []int{0, 2, 3, 7, 255, 256, 1000} {
		parts := partsOf(many)
		end := 0
		for _, p := range parts {
			if p.from != end || p.to <= p.from {
				t.Errorf("%d parts: one from %d to %d after %d", many, p.from, p.to, end)
			}
			end = p.to
		}
		if got, _ := look(parts); got != want || end != 256 {
			t.Errorf("%d parts that end at %d: %s, want %s", many, end, got, want)
		}
	}
}

// stored counts the keys of a family.
func stored(t *testing.T, s *Store, family byte) (n int) {
	t.Helper()
	err := s.view(func(txn *kv.View) error {
		for range txn.Items(nil, family) {
			n++
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// TestAShortWindowIsNotSweptAnHourLater ends a window of two minutes.
func TestAShortWindowIsNotSweptAnHourLater(t *testing.T) {
	t.Parallel()
	clock := deduptest.NewClock()
	o := quiet()
	o.Clock = clock
	s := open(t, t.TempDir(), o)
	c := claimOf("short")
	c.Tasks, c.Window = nil, 2*time.Minute
	mustClaim(t, s, c, dedup.New)
	for _, want := range [...]int{1, 0} {
		clock.Advance(2*time.Minute + time.Second)
		if err := s.maintenance.sweep(ownRhythm().slack); err != nil {
			t.Fatal(err)
		}
		if n := stored(t, s, record.FamilyEvent); n != want {
			t.Errorf("%d events, want %d", n, want)
		}
	}
}

func TestASweepDeletesWhatHasEndedAndNothingElse(t *testing.T) {
	t.Parallel()
	clock := deduptest.NewClock()
	o := quiet()
	o.Clock = clock
	s := open(t, t.TempDir(), o)
	ctx := context.Background()
	finish := func(id string, kind dedup.Kind) string {
		t.Helper()
		c := claimOf(id)
		c.Aliases = []dedup.Key{{Principal: "p", Space: dedup.SpaceNonce, ID: id}}
		event := mustClaim(t, s, c, dedup.New).Record.Event
		work, err := s.Take(ctx, dedup.Want{Tasks: 1, Bytes: 1 << 20, Lease: time.Minute})
		if err != nil || work[0].Record.Event != event {
			t.Fatal(work, err)
		}
		if err := s.Finish(ctx, work[0].Lease, dedup.Result{Kind: kind}); err != nil {
			t.Fatal(err)
		}
		return event
	}
	finish("done", dedup.ResultDone)
	deadLetter := finish("dead", dedup.ResultDead)
	untasked := claimOf("no task")
	untasked.Tasks = nil
	mustClaim(t, s, untasked, dedup.New)
	held := claimOf("held")
	held.Hold, held.Lease, held.Response = true, time.Minute, dedup.Response{}
	mustClaim(t, s, held, dedup.New)
	mustClaim(t, s, claimOf("pending"), dedup.New)

	sweep := func(events, aliases int) {
		t.Helper()
		if err := s.maintenance.sweep(ownRhythm().slack); err != nil {
			t.Fatal(err)
		}
		if e, a := stored(t, s, record.FamilyEvent), stored(t, s, record.FamilyAlias); e != events || a != aliases {
			t.Errorf("%d events, %d aliases; want %d, %d", e, a, events, aliases)
		}
	}
	sweep(5, 2)
	clock.Advance(24*time.Hour + 59*time.Minute) // ended, but within the slack
	sweep(5, 2)
	clock.Advance(2 * time.Minute)
	// An event that was queued for deletion but is needed again stays.
	o2 := &sweepOp{ticket: newTicket(true), found: []*row{
		{place: record.Place{Hash: record.HashOf(claimOf("dead").Key)}},
		{place: record.Place{Hash: record.HashOf(claimOf("pending").Key)}},
	}}
	if err := s.do(ctx, o2); err != nil || o2.swept != 0 {
		t.Errorf("%d swept, %v", o2.swept, err)
	}
	sweep(2, 1) // the pending event, and the dead letter with its alias
	mustClaim(t, s, claimOf("done"), dedup.New)
	if _, err := s.Get(ctx, deadLetter); err != nil {
		t.Error(err)
	}
	// The dead letter is replaced by a new generation, reopened there, done, and ends.
	mustClaim(t, s, claimOf("dead"), dedup.New)
	if n := stored(t, s, record.FamilyOlder); n != 1 {
		t.Fatalf("%d older generations", n)
	}
	if _, err := s.Reopen(ctx, deadLetter); err != nil {
		t.Fatal(err)
	}
	work, err := s.Take(ctx, dedup.Want{Tasks: 10, Bytes: 1 << 20, Lease: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	for _, w := range work {
		if err := s.Finish(ctx, w.Lease, dedup.Result{Kind: dedup.ResultDone}); err != nil {
			t.Fatal(err)
		}
	}
	clock.Advance(26 * time.Hour)
	if err := s.maintenance.sweep(ownRhythm().slack); err != nil {
		t.Fatal(err)
	}
	for _, family := range []byte{record.FamilyEvent, record.FamilyOlder, record.FamilyAlias} {
		if n := stored(t, s, family); n != 0 {
			t.Errorf("%d keys of family %c are left", n, family)
		}
	}
	if st, err := s.Stats(ctx); err != nil || st.Records != 0 || st.Backlog != 0 || st.Flush <= 0 {
		t.Errorf("%+v, %v", st, err)
	}
}

func TestAnOlderGenerationSurvivesARestart(t *testing.T) {
	t.Parallel()
	clock := deduptest.NewClock()
	o := quiet()
	o.Clock, o.AcceptClock = clock, true
	s := open(t, t.TempDir(), o)
	ctx := context.Background()
	c := largeClaim("a", 2*record.InlineMost)
	first := mustClaim(t, s, c, dedup.New).Record.Event
	work, err := s.Take(ctx, dedup.Want{Tasks: 1, Bytes: 1, Lease: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Finish(ctx, work[0].Lease, dedup.Result{Kind: dedup.ResultDead}); err != nil {
		t.Fatal(err)
	}
	clock.Advance(25 * time.Hour)
	second := mustClaim(t, s, largeClaim("a", 3*record.InlineMost), dedup.New).Record
	if second.Generation != 2 || second.Event == first {
		t.Errorf("second generation: %+v", second)
	}
	shut(t, s)
	s = open(t, s.dir, o)
	for event, size := range map[string]int{first: 2 * record.InlineMost, second.Event: 3 * record.InlineMost} {
		r, err := s.Get(ctx, event)
		if err != nil {
			t.Fatal(err)
		}
		sameBody(t, r.Payload.Body, largeClaim("a", size).Payload.Body)
	}
	if st, err := s.Stats(ctx); err != nil || st.Records != 2 || st.Dead != 1 || st.Pending != 1 {
		t.Errorf("%+v, %v", st, err)
	}
}

func TestADeliveryQuarantinedForTheLastGenerationOfItsKeyIsCounted(t *testing.T) {
	t.Parallel()
	clock := deduptest.NewClock()
	o := quiet()
	o.Clock = clock
	s := open(t, t.TempDir(), o)
	c := claimOf("a")
	c.Quarantine = &dedup.Quarantine{Reason: "conflict"}
	first := mustClaim(t, s, c, dedup.New).Record.Event
	clock.Advance(25 * time.Hour)
	c.Quarantine = &dedup.Quarantine{Reason: "conflict", Of: first, Max: 2}
	mustClaim(t, s, c, dedup.New)
	if r, err := s.Get(context.Background(), first); err != nil || r.QuarantineCount != 1 {
		t.Errorf("%d are counted, %v", r.QuarantineCount, err)
	}
}

// mustClaimInLoop is mustClaim for another goroutine than the test's.
func mustClaimInLoop(t *testing.T, s *Store, c dedup.Claim) {
	t.Helper()
	if ds, err := s.Claim(context.Background(), c); err != nil || ds[0].Verdict != dedup.New {
		t.Errorf("claim of %s: %v, %v", c.Key.ID, ds, err)
	}
}
