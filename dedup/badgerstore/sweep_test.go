package badgerstore

import (
	"testing"
	"time"

	"github.com/eyelet-dev/eyelet/dedup"
	"github.com/eyelet-dev/eyelet/dedup/badgerstore/internal/kv"
	"github.com/eyelet-dev/eyelet/dedup/badgerstore/internal/record"
	"github.com/eyelet-dev/eyelet/dedup/deduptest"
)

// withAlias is a claim without a task, whose record ends with its window.
func withAlias(id, alias string) dedup.Claim {
	c := claimOf(id)
	c.Tasks, c.Aliases = nil, []dedup.Key{{Principal: "p", Space: dedup.SpaceNonce, ID: alias}}
	return c
}

// readAhead calls remove with the deletion of what has ended, while that is watched.
func readAhead(t *testing.T, s *Store, remove func(o *sweepOp)) {
	t.Helper()
	err := s.db.Watch(func(w *kv.Watch) error {
		o, next, err := s.maintenance.ended(record.FamilyEvent, []byte{record.FamilyEvent}, ownRhythm().slack, w)
		if next != nil {
			t.Error("there is more")
		}
		remove(o)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

// TestASweepDeletesNothingThatChangedSinceItWasRead accepts a key again, and gives an alias to
// another event, between the reading of what has ended and its deletion.
func TestASweepDeletesNothingThatChangedSinceItWasRead(t *testing.T) {
	t.Parallel()
	clock, o := deduptest.NewClock(), quiet()
	o.Clock = clock
	s := open(t, t.TempDir(), o)
	mustClaim(t, s, withAlias("again", "1"), dedup.New)
	mustClaim(t, s, withAlias("robbed", "2"), dedup.New)
	mustClaim(t, s, withAlias("plain", "3"), dedup.New)
	clock.Advance(26 * time.Hour)
	var again, robber dedup.Decision
	readAhead(t, s, func(sweep *sweepOp) {
		if len(sweep.found) != 3 {
			t.Fatalf("%d have ended, want 3", len(sweep.found))
		}
		again = mustClaim(t, s, withAlias("again", "1"), dedup.New)
		robber = mustClaim(t, s, withAlias("robber", "2"), dedup.New)
		if err := s.submit(sweep); err != nil {
			t.Fatal(err)
		}
	})
	for alias, d := range map[string]dedup.Decision{"1": again, "2": robber} {
		if _, err := s.Get(t.Context(), d.Record.Event); err != nil {
			t.Errorf("event %s: %v", d.Record.Event, err)
		}
		err := s.view(func(in *kv.View) error {
			a, err := readAlias(in, record.HashOf(withAlias("", alias).Aliases[0]))
			if !a.exists || a.Seq != d.Record.Seq {
				t.Errorf("alias %s is of event %d, want %d", alias, a.Seq, d.Record.Seq)
			}
			return err
		})
		if err != nil {
			t.Error(err)
		}
	}
	if e, a := stored(t, s, record.FamilyEvent), stored(t, s, record.FamilyAlias); e != 2 || a != 2 {
		t.Errorf("%d events and %d aliases are left, want 2 and 2", e, a)
	}
	if diff := s.differs(); diff != "" {
		t.Error(diff)
	}
}

// TestASweepPrefersItsBatchToWhatItRead accepts a key again, and gives an alias to another
// event, in the commit that would delete the events before.
func TestASweepPrefersItsBatchToWhatItRead(t *testing.T) {
	t.Parallel()
	clock, o := deduptest.NewClock(), quiet()
	o.Clock = clock
	s := openManual(t, t.TempDir(), o)
	together(t, s, claimOpOf(t, withAlias("again", "1"), withAlias("robbed", "2"), withAlias("plain", "3")))
	clock.Advance(26 * time.Hour)
	again := claimOpOf(t, withAlias("again", "1"), withAlias("robber", "2"))
	readAhead(t, s.Store, func(sweep *sweepOp) {
		if len(sweep.found) != 3 {
			t.Fatalf("%d have ended, want 3", len(sweep.found))
		}
		together(t, s, again, sweep)
		if sweep.swept != 2 || s.stats.Records != 2 {
			t.Errorf("%d swept, %d left, want 2 and 2", sweep.swept, s.stats.Records)
		}
	})
	for i, alias := range []string{"1", "2"} {
		want := again.decisions[i].Record
		if r, err := s.writer.newBatch().event(want.Event); err != nil || r == nil {
			t.Errorf("event %s: %v, %v", want.Event, r, err)
		}
		h := record.HashOf(withAlias("", alias).Aliases[0])
		if a, err := s.writer.newBatch().alias(h); err != nil || a.Seq != want.Seq {
			t.Errorf("alias %s is of event %d, want %d, %v", alias, a.Seq, want.Seq, err)
		}
	}
}

// TestTheCommitterReadsNothingOfASweep finds in a batch what a sweep has read, as long as it is
// watched.
func TestTheCommitterReadsNothingOfASweep(t *testing.T) {
	t.Parallel()
	clock, o := deduptest.NewClock(), quiet()
	o.Clock = clock
	s := openManual(t, t.TempDir(), o)
	together(t, s, claimOpOf(t, withAlias("a", "1")))
	clock.Advance(26 * time.Hour)
	check := func(o *sweepOp, watched bool) {
		t.Helper()
		b := s.writer.newBatch()
		o.adopt(b)
		if knows := len(b.aliases) == 1; knows != watched {
			t.Errorf("watched %t: the batch knows the alias: %t", watched, knows)
		}
		if r, err := b.at(o.found[0].place); err != nil || (r == o.found[0]) != watched {
			t.Errorf("watched %t: the batch has the row of the sweep: %t, %v", watched, r == o.found[0], err)
		}
	}
	var left *sweepOp
	readAhead(t, s.Store, func(o *sweepOp) {
		if len(o.found) != 1 || len(o.aliases) != 1 {
			t.Fatalf("found %+v", o)
		}
		left = o
		check(o, true)
	})
	check(left, false)
}
