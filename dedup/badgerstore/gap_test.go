package badgerstore

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/eyelet-dev/eyelet/dedup"
	"github.com/eyelet-dev/eyelet/dedup/badgerstore/internal/record"
	"github.com/eyelet-dev/eyelet/dedup/deduptest"
)

const hour = time.Hour

// timed returns a store with a test clock, the clock, its options and its log.
func timed(t *testing.T) (s *Store, clock *deduptest.Clock, log *bytes.Buffer, o Options) {
	t.Helper()
	clock = deduptest.NewClock()
	log, o = &bytes.Buffer{}, quiet()
	o.Clock, o.Logger = clock, slog.New(slog.NewTextHandler(log, &slog.HandlerOptions{Level: slog.LevelWarn}))
	return open(t, t.TempDir(), o), clock, log, o
}

// answered returns a claim whose event is finished as soon as it is accepted: its window starts
// then.
func answered(id string, window time.Duration) dedup.Claim {
	c := claimOf(id)
	c.Tasks, c.Window = nil, window
	return c
}

func TestAQuietWeekendIsNotAGap(t *testing.T) {
	t.Parallel()
	for _, crashed := range []bool{false, true} {
		s, clock, log, o := timed(t)
		mustClaim(t, s, answered("friday", 0), dedup.New)
		for range 60 {
			clock.Advance(hour)
			mustClaim(t, s, asked("nothing"), dedup.New)
			if err := s.maintenance.noteTime(); err != nil {
				t.Fatal(err)
			}
		}
		clock.Advance(30 * time.Minute)
		again := open(t, left(t, s, crashed), o)
		mustClaim(t, again, answered("friday", 0), dedup.New) // its window has ended, because the time counts
		if log.Len() > 0 {
			t.Errorf("crashed %v: the log says %s", crashed, log)
		}
	}
}

// asked returns a claim that only asks.
func asked(id string) dedup.Claim {
	c := claimOf(id)
	c.OnlyKnown = true
	return c
}

func TestAnIdleStoreCommitsTheTimeOnceAnHour(t *testing.T) {
	t.Parallel()
	s, clock, _, _ := timed(t)
	mustClaim(t, s, claimOf("a"), dedup.New)
	before := commitsOf(t, s)
	for range 6 { // the sweep runs every ten minutes
		clock.Advance(10 * time.Minute)
		if err := s.maintenance.noteTime(); err != nil {
			t.Fatal(err)
		}
	}
	if n := commitsOf(t, s) - before; n != 1 {
		t.Errorf("%d commits in an hour", n)
	}
}

func TestCloseCommitsTheTime(t *testing.T) {
	t.Parallel()
	s, clock, log, o := timed(t)
	mustClaim(t, s, answered("friday", 0), dedup.New)
	clock.Advance(60 * hour) // suspended, and nothing was committed
	shut(t, s)
	clock.Advance(time.Minute)
	open(t, s.dir, o)
	if log.Len() > 0 {
		t.Errorf("the log says %s", log)
	}
}

func TestAStoreThatWasOffForDaysForgetsNothing(t *testing.T) {
	t.Parallel()
	s, clock, log, o := timed(t)
	mustClaim(t, s, answered("day", 0), dedup.New)
	mustClaim(t, s, answered("hour", hour), dedup.New)
	mustClaim(t, s, answered("ended", hour/4), dedup.New)
	mustClaim(t, s, claimOf("waits"), dedup.New)
	clock.Advance(hour / 2)
	shut(t, s)
	clock.Advance(5 * 24 * hour)
	for start := range 3 { // later starts come to the same result
		s = open(t, s.dir, o)
		if logged := strings.Contains(log.String(), "longer ago than a window"); logged != (start == 0) {
			t.Errorf("start %d: the log says %q", start, log)
		}
		log.Reset()
		d := mustClaim(t, s, answered("day", 0), dedup.Known)
		if left := d.Record.Expires.Sub(clock.Now()); left != 24*hour-hour/2-time.Duration(start)*time.Minute {
			t.Errorf("start %d: its window lasts for %v", start, left)
		}
		mustClaim(t, s, answered("hour", hour), dedup.Known)
		if err := s.maintenance.sweep(0); err != nil {
			t.Fatal(err)
		}
		if st, err := s.Stats(t.Context()); err != nil || st.Records != 4 {
			t.Fatalf("start %d: %+v, %v", start, st, err)
		}
		if start < 2 {
			shut(t, s)
			clock.Advance(time.Minute)
		}
	}
	finishNext(t, s, 1, dedup.Result{Kind: dedup.ResultDone}) // starts a window of its own, after the gap
	clock.Advance(hour)
	mustClaim(t, s, answered("hour", hour), dedup.New)
	mustClaim(t, s, answered("day", 0), dedup.Known)
	clock.Advance(22*hour + 50*time.Minute)
	mustClaim(t, s, answered("day", 0), dedup.New)
	mustClaim(t, s, claimOf("waits"), dedup.Known)
	clock.Advance(hour)
	mustClaim(t, s, claimOf("waits"), dedup.New)
	if err := s.maintenance.sweep(0); err != nil {
		t.Fatal(err)
	}
	if st, err := s.Stats(t.Context()); err != nil || st.Records != 2 { // day and waits are there again
		t.Errorf("after the window: %+v, %v", st, err)
	}
	if r, err := s.Check(t.Context()); err != nil || !r.Sound() {
		t.Errorf("%+v, %v", r, err)
	}
}

// TestAnEventThatIsChangedAfterAGapKeepsItsWindow writes a record again whose window a gap
// extends: the gap must not count twice.
func TestAnEventThatIsChangedAfterAGapKeepsItsWindow(t *testing.T) {
	t.Parallel()
	s, clock, _, o := timed(t)
	original := mustClaim(t, s, answered("a", 72*hour), dedup.New).Record
	shut(t, s)
	clock.Advance(48 * hour)
	s = open(t, s.dir, o)
	quarantined := answered("other", 0)
	quarantined.Key.Space = dedup.SpaceQuarantine + "conflict"
	quarantined.Quarantine = &dedup.Quarantine{Reason: "conflict", Of: original.Event, Max: 5}
	quarantined.Tasks = claimOf("x").Tasks
	mustClaim(t, s, quarantined, dedup.New) // increments the count of the original
	want := mustClaim(t, s, answered("a", 72*hour), dedup.Known).Record
	if left := want.Expires.Sub(clock.Now()); want.QuarantineCount != 1 || left != 72*hour {
		t.Errorf("%d quarantined, its window lasts for %v", want.QuarantineCount, left)
	}
	shut(t, s)
	s = open(t, s.dir, o)
	if diff := cmp.Diff(want, mustClaim(t, s, answered("a", 72*hour), dedup.Known).Record); diff != "" {
		t.Error(diff)
	}
}

// TestAClockThatWasFarAheadAndIsSetRightForgetsNothing starts a machine whose clock is a year off.
func TestAClockThatWasFarAheadAndIsSetRightForgetsNothing(t *testing.T) {
	t.Parallel()
	s, clock, _, o := timed(t)
	mustClaim(t, s, answered("before", 0), dedup.New)
	shut(t, s)
	const year = 365 * 24 * hour
	clock.Advance(year)
	s = open(t, s.dir, o)
	mustClaim(t, s, answered("before", 0), dedup.Known)
	mustClaim(t, s, answered("meanwhile", 0), dedup.New)
	shut(t, s)
	clock.Advance(hour - year)
	if _, err := Open(s.dir, o); err == nil || !strings.Contains(err.Error(), "--accept-clock") {
		t.Fatal(err)
	}
	o.AcceptClock = true
	s = open(t, s.dir, o)
	if d := mustClaim(t, s, answered("before", 0), dedup.Known); d.Record.Expires.Sub(clock.Now()) != 23*hour {
		t.Errorf("its window lasts for %v", d.Record.Expires.Sub(clock.Now()))
	}
	mustClaim(t, s, answered("meanwhile", 0), dedup.Known)
	clock.Advance(23 * hour)
	mustClaim(t, s, answered("before", 0), dedup.New)
}

// TestTwoOutagesInOneWindow is off for three days, on for a minute, and off again.
func TestTwoOutagesInOneWindow(t *testing.T) {
	t.Parallel()
	for _, second := range []time.Duration{0, 23 * hour, 48 * hour, 400 * hour} {
		s, clock, _, o := timed(t)
		mustClaim(t, s, answered("a", 0), dedup.New)
		for _, off := range []time.Duration{72 * hour, second} {
			clock.Advance(time.Minute)
			shut(t, s)
			clock.Advance(off)
			s = open(t, s.dir, o)
		}
		counts := 2 * time.Minute
		if second <= longestIdle {
			counts += second
		}
		clock.Advance(24*hour - counts - time.Second)
		mustClaim(t, s, answered("a", 0), dedup.Known)
		clock.Advance(2 * time.Second)
		mustClaim(t, s, answered("a", 0), dedup.New)
	}
}

// TestAClockThatIsCorrectedAfterAnOutage starts it ahead, after three days.
func TestAClockThatIsCorrectedAfterAnOutage(t *testing.T) {
	t.Parallel()
	for _, ahead := range []time.Duration{0, 2 * hour, 71 * hour} {
		s, clock, _, o := timed(t)
		mustClaim(t, s, answered("a", 0), dedup.New)
		clock.Advance(hour)
		shut(t, s)
		clock.Advance(72*hour + ahead)
		s = open(t, s.dir, o)
		mustClaim(t, s, answered("a", 0), dedup.Known)
		clock.Advance(10 * time.Minute)
		shut(t, s)
		clock.Advance(-ahead)
		o.AcceptClock = true
		s = open(t, s.dir, o)
		clock.Advance(22*hour + 49*time.Minute)
		mustClaim(t, s, answered("a", 0), dedup.Known)
		clock.Advance(2 * time.Minute)
		mustClaim(t, s, answered("a", 0), dedup.New)
	}
}

// TestAHeldClaimContinuesAfterAnOutage ends the process while a claim is held. Its lease ends in
// the outage or before.
func TestAHeldClaimContinuesAfterAnOutage(t *testing.T) {
	t.Parallel()
	for _, after := range []time.Duration{10 * time.Second, 10 * time.Minute} {
		for _, off := range []time.Duration{2 * hour, 72 * hour} {
			s, clock, _, o := timed(t)
			held := claimOf("held")
			held.Hold, held.Lease, held.Response, held.Window = true, time.Minute, dedup.Response{}, 24*hour
			held.Fingerprint = dedup.Fingerprint{1}
			other := held
			other.Fingerprint = dedup.Fingerprint{2}
			event := mustClaim(t, s, held, dedup.New).Record.Event
			clock.Advance(after)
			mustClaim(t, s, claimOf("other"), dedup.New)
			dir := left(t, s, true)
			clock.Advance(off)
			s = open(t, dir, o)
			mustClaim(t, s, other, dedup.Conflict)
			if d := mustClaim(t, s, held, dedup.New); d.Record.Event != event || d.Record.Tasks[0].Attempt != 2 {
				t.Errorf("after %v, off for %v: attempt %d, another event: %v", after, off, d.Record.Tasks[0].Attempt,
					d.Record.Event != event)
			}
		}
	}
}

func TestGapsAddUpAndEnd(t *testing.T) {
	t.Parallel()
	start := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	at := func(days int) time.Time { return start.AddDate(0, 0, days) }
	var g gaps
	for n := range 40 { // it is off for two of every four days
		var found *record.Gap
		if g, found = g.at(at(4*n+2), at(4*n), 90*24*hour); found == nil || found.Rest != 48*hour {
			t.Fatalf("gap %d: %v", n, found)
		}
		if len(g) > gapsMax {
			t.Fatalf("%d gaps", len(g))
		}
	}
	if rest := g.rest(at(4 * 39)); rest != 48*hour {
		t.Errorf("of the last one %v", rest)
	}
	if rest := g.rest(at(4*37 - 1)); rest != 3*48*hour {
		t.Errorf("of the last three %v", rest)
	}
	if rest := g.rest(at(4*39 + 1)); rest != 0 {
		t.Errorf("after all of them %v", rest)
	}
	if all, found := g.at(at(400), at(400), 24*hour); len(all) != 0 || found != nil {
		t.Errorf("%v are left, and %v", all, found)
	}
}
