package badgerstore

import (
	"testing"
	"time"

	"github.com/eyelet-dev/eyelet/dedup"
	"github.com/eyelet-dev/eyelet/dedup/badgerstore/internal/record"
	"github.com/eyelet-dev/eyelet/dedup/deduptest"
)

// namedClaim is a claim of a content that came with a name.
func namedClaim(name string) dedup.Claim {
	c := claimOf("content")
	c.Occurrence = &dedup.Occurrence{Name: name, Max: 3}
	return c
}

// TestTheNameOfAFirstOccurrenceIsInItsState: it has no entry of its own, and is known like others,
// in the batch, in memory, at rest, and after a restart.
func TestTheNameOfAFirstOccurrenceIsInItsState(t *testing.T) {
	t.Parallel()
	s := open(t, t.TempDir(), quiet())
	known := func(name, event string) {
		t.Helper()
		if d := mustClaim(t, s, namedClaim(name), dedup.Known); d.Record.Event != event {
			t.Errorf("%s is of event %s, want %s", name, d.Record.Event, event)
		}
	}
	both, err := s.Claim(t.Context(), namedClaim("first"), namedClaim("first"))
	if err != nil || both[0].Verdict != dedup.New || both[1].Verdict != dedup.Known {
		t.Fatal(both, err)
	}
	first := both[0].Record.Event
	known("first", first)
	finishNext(t, s, 1, dedup.Result{Kind: dedup.ResultDone})
	known("first", first)
	if r, err := s.Check(t.Context()); err != nil || r.Aliases != 1 { // that of the identifier
		t.Errorf("%d aliases, %v", r.Aliases, err)
	}
	second := mustClaim(t, s, namedClaim("second"), dedup.New).Record.Event
	if r, err := s.Check(t.Context()); err != nil || r.Aliases != 3 {
		t.Errorf("%d aliases, %v", r.Aliases, err)
	}
	for range 2 {
		known("first", first)
		known("second", second)
		r, err := s.Get(t.Context(), first)
		if err != nil || len(r.Aliases) != 2 {
			t.Errorf("aliases %v, %v", r.Aliases, err)
		}
		shut(t, s)
		s = open(t, s.dir, quiet())
	}
	shut(t, s)
	err = Export(t.Context(), s.dir, quiet(), func(from *dedup.Source) error {
		items := 0
		for item, err := range from.Items(t.Context()) {
			if err != nil {
				return err
			}
			if len(item.Names) != 2 {
				t.Errorf("event %s is exported with the names %v", item.Record.Event, item.Names)
			}
			items++
		}
		if items != 2 {
			t.Errorf("%d items", items)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// TestARepairedEventKeepsItsName: the names are in the content as well.
func TestARepairedEventKeepsItsName(t *testing.T) {
	t.Parallel()
	for damage, done := range map[string]string{"state": repairedState, "content": repairedBody} {
		s := open(t, t.TempDir(), uncached())
		c := namedClaim("first")
		event := mustClaim(t, s, c, dedup.New).Record.Event
		key := record.HashOf(c.Key).Key(record.FamilyEvent)
		if damage == "state" {
			spoilState(t, s, key)
		} else {
			spoil(t, s, key)
		}
		s = repaired(t, s, done)
		if d := mustClaim(t, s, c, dedup.Known); d.Record.Event != event {
			t.Errorf("%s: event %s, want %s", damage, d.Record.Event, event)
		}
	}
}

// TestAnOlderGenerationKeepsItsName: a claim with it is one of the same key, not of another
// occurrence, while the older generation is open again.
func TestAnOlderGenerationKeepsItsName(t *testing.T) {
	t.Parallel()
	clock := deduptest.NewClock()
	o := quiet()
	o.Clock = clock
	s := open(t, t.TempDir(), o)
	older := mustClaim(t, s, namedClaim("first"), dedup.New).Record.Event
	finishNext(t, s, 1, dedup.Result{Kind: dedup.ResultDead, Reason: "rejected"})
	clock.Advance(25 * time.Hour)
	mustClaim(t, s, namedClaim("other"), dedup.New)
	if _, err := s.Reopen(t.Context(), older); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"first", "other"} {
		mustClaim(t, s, namedClaim(name), dedup.Known)
	}
	mustClaim(t, s, namedClaim("third"), dedup.New)
}
