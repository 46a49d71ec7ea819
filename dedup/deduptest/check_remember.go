package deduptest

import (
	"fmt"
	"testing"
	"time"

	"github.com/eyelet-dev/eyelet/dedup"
)

var rememberChecks = []check{
	{"ARememberedKeyIsSeenBeyondItsWindow", func(x *rig) {
		x.accept(remembered("a"))
		x.advance(hour)
		now := x.clock.Now()
		for _, c := range []dedup.Claim{remembered("a"), happened("a", now), happened("a", now.Add(-50*hour))} {
			if d := x.want(dedup.Seen, c); d.Record.Event != "" || d.Lease.Token != 0 {
				x.Errorf("seen is %s, %+v", text(d.Record), d.Lease)
			}
		}
		x.advance(50 * day)
		c := altered(remembered("a"))
		c.Payload.Type = "another"
		x.want(dedup.Seen, c)
		x.count(0)
		other := remembered("a")
		other.Key.Principal = "other"
		x.want(dedup.New, other)
	}},
	{"EachNameOfARememberedEventIsSeen", func(x *rig) {
		c := remembered("a")
		c.Remember.Also = []dedup.Traced{{Key: key("b")}, {Key: key("c")}}
		x.accept(c)
		x.advance(hour)
		also := remembered("d")
		also.Remember.Also = []dedup.Traced{{Key: key("e"), Most: 2}, {Key: key("c")}}
		for _, c := range []dedup.Claim{remembered("a"), remembered("b"), also} {
			x.want(dedup.Seen, c)
		}
		x.want(dedup.New, remembered("d"))
	}},
	{"WithoutRememberItIsNew", func(x *rig) {
		c := remembered("a")
		c.Remember = nil
		x.accept(c)
		x.advance(hour)
		x.want(dedup.New, remembered("a"))
		x.advance(hour)
		x.want(dedup.New, c) // without Remember the trace does not count
	}},
	{"WithinTheWindowItIsKnown", func(x *rig) {
		event := x.accept(remembered("a"))
		x.advance(hour - time.Millisecond)
		x.about(dedup.Known, event, remembered("a"))
		x.want(dedup.Conflict, altered(remembered("a")))
	}},
	{"OnlyKnownGivesSeen", func(x *rig) {
		ask := asking(remembered("a"))
		x.want(dedup.New, ask)
		x.accept(remembered("a")) // OnlyKnown left no trace
		x.advance(hour)
		x.want(dedup.Seen, ask)
	}},
	{"ItIsForgottenAfterNinetyDays", func(x *rig) {
		x.accept(remembered("a"))
		x.advance(89 * day)
		x.want(dedup.Seen, remembered("a"))
		x.advance(2 * day)
		x.want(dedup.New, remembered("a"))
		x.advance(hour)
		x.want(dedup.Seen, remembered("a"))
	}},
	{"AnEventBeforeTheRememberedDaysIsTooOld", func(x *rig) {
		began := x.clock.Now()
		x.advance(100 * day)
		if d := x.want(dedup.TooOld, happened("a", began.Add(5*day))); d.Record.Event != "" {
			x.Errorf("too old is %s", text(d.Record))
		}
		x.want(dedup.TooOld, happened("a", began.Add(-500*day)))
		x.want(dedup.New, happened("b", began.Add(50*day)))
		x.want(dedup.New, remembered("c"))
		x.count(2)
	}},
	{"AYoungStoreAcceptsOldEvents", func(x *rig) {
		x.want(dedup.New, happened("a", x.clock.Now().Add(-500*day)))
		x.advance(80 * day)
		x.want(dedup.New, happened("b", x.clock.Now().Add(-500*day)))
	}},
	{"AnEventWithinTheWindowIsNeverTooOld", func(x *rig) {
		x.advance(100 * day)
		c := happened("a", x.clock.Now().Add(-95*day))
		c.Window = 96 * day
		x.want(dedup.New, c)
	}},
	{"MostOfAKeyAreAccepted", func(x *rig) {
		c := remembered("a")
		c.Remember.Most = 3
		for range 3 {
			x.want(dedup.New, c)
			x.want(dedup.Known, c)
			x.advance(hour)
		}
		x.want(dedup.Seen, c)
		x.advance(89 * day) // after the last one
		x.want(dedup.Seen, c)
	}},
	{"APurgedKeyIsForgotten", func(x *rig) {
		x.purge(x.accept(remembered("a")))
		event := x.accept(remembered("a"))
		x.advance(hour)
		x.want(dedup.Seen, remembered("a"))
		x.fails(x.store.Purge(x.ctx, event), dedup.ErrNotFound, "Purge of a forgotten event")
		x.want(dedup.Seen, remembered("a"))
	}},
	{"APurgedOlderGenerationForgetsNothing", func(x *rig) {
		c := remembered("a")
		c.Tasks, c.Remember.Most = []dedup.NewTask{{Handler: "ship"}}, 2
		letter := x.finished(c, dead())
		x.advance(hour)
		c.Tasks = nil
		x.accept(c)
		x.purge(letter)
		x.advance(hour)
		x.want(dedup.Seen, c)
	}},
	{"ADeadLetterIsInTheDecision", func(x *rig) {
		c := remembered("a")
		c.Tasks = []dedup.NewTask{{Handler: "ship"}}
		letter := x.finished(c, dead())
		x.advance(hour)
		x.about(dedup.Seen, letter, c)
		x.purge(letter)
		x.want(dedup.New, c)
	}},
	{"AHeldClaimWithoutAnOutcomeWasNeverAccepted", func(x *rig) {
		c := held("a")
		c.Window, c.Remember = hour, &dedup.Remember{}
		x.finish(x.want(dedup.New, c).Lease, release())
		x.advance(hour)
		x.want(dedup.New, c) // and its lease expires
		x.advance(3 * hour)
		x.accept(remembered("b")) // a store may forget the previous one here
		x.want(dedup.New, c)
	}},
	{"AHeldClaimWithAnOutcomeIsSeen", func(x *rig) {
		for id, r := range map[string]dedup.Result{"done": answer(200, "ok"), "dead": dead()} {
			c := held(id)
			c.Window, c.Remember = hour, &dedup.Remember{}
			x.finish(x.want(dedup.New, c).Lease, r)
		}
		x.advance(hour)
		x.want(dedup.Seen, remembered("done"))
		x.want(dedup.Seen, remembered("dead"))
	}},
	{"AnAliasComesFirst", func(x *rig) {
		x.accept(remembered("a"))
		x.advance(hour)
		x.accept(aliased("b", signed("s")))
		c := remembered("a")
		c.Aliases = []dedup.Key{signed("s")}
		x.want(dedup.Aliased, c)
	}},
	{"OccurrencesAreCountedWithTheirContent", func(x *rig) {
		c := func(digest, name string, most int) dedup.Claim {
			c := digested(digest, name, 3)
			c.Tasks, c.Window, c.Remember = nil, hour, &dedup.Remember{Most: most}
			return c
		}
		for _, name := range []string{"a", "b", "c"} {
			x.want(dedup.New, c("d", name, 3)) // within the window its own bound counts
			x.want(dedup.New, c("e", name, 4))
			x.want(dedup.New, c("f", name, 0))
			x.want(dedup.Known, c("d", name, 3))
		}
		x.want(dedup.Repeated, c("d", "x", 3))
		x.advance(hour)
		x.want(dedup.Seen, c("d", "a", 3))
		x.want(dedup.Seen, c("d", "x", 3))
		x.want(dedup.New, c("e", "x", 4))
		x.want(dedup.Known, c("e", "x", 4))
		x.want(dedup.Seen, c("f", "x", 0))
		x.advance(hour)
		x.want(dedup.Seen, c("e", "y", 4))
	}},
	{"SlotsAreCountedTogether", func(x *rig) {
		c := func(topic string) dedup.Claim {
			c := digested("d;"+topic, "", 0)
			c.Tasks, c.Window, c.Remember = nil, hour, &dedup.Remember{}
			for _, id := range []string{"1", "2"} {
				slot := dedup.Key{Principal: "shop", Space: dedup.SpaceSlot, ID: id}
				c.Occurrence.Slots = append(c.Occurrence.Slots, slot)
			}
			return c
		}
		x.want(dedup.New, c("a"))
		x.want(dedup.New, c("b"))
		x.want(dedup.Repeated, c("c"))
		x.advance(hour)
		x.want(dedup.Seen, c("a"))
		x.want(dedup.Seen, c("c")) // its own key was never accepted
	}},
	{"OneStepSeesWhatItRemembers", func(x *rig) {
		ds := x.claims(remembered("a"), remembered("a"), remembered("b"))
		x.verdicts(ds, dedup.New, dedup.Known, dedup.New)
		x.advance(hour)
		ds = x.claims(remembered("b"), remembered("c"), remembered("a"), remembered("c"))
		x.verdicts(ds, dedup.Seen, dedup.New, dedup.Seen, dedup.Known)
	}},
	{"KeysAreRememberedAcrossAReopen", func(x *rig) {
		began := x.clock.Now()
		x.accept(remembered("a"))
		x.purge(x.accept(remembered("b")))
		x.advance(50 * day)
		x.reopen()
		x.want(dedup.Seen, remembered("a"))
		x.want(dedup.New, remembered("b"))
		x.advance(50 * day)
		x.reopen()
		x.want(dedup.TooOld, happened("c", began.Add(-day)))
		x.want(dedup.New, remembered("a"))
		x.want(dedup.Seen, remembered("b"))
	}},
}

// remembered is an event without tasks whose key is remembered.
func remembered(id string) dedup.Claim {
	c := brief(id)
	c.Remember = &dedup.Remember{}
	return c
}

// happened is a claim of an event that happened at a time.
func happened(id string, at time.Time) dedup.Claim {
	c := remembered(id)
	c.Remember.Time = at
	return c
}

// ForgetsTheOldestDays checks a new store on the clock with a [dedup.Retention] of at most ten
// keys: it forgets the oldest days first, and an event from before is too old. prune makes the
// store forget.
func ForgetsTheOldestDays(t *testing.T, s dedup.Store, clock *Clock, prune func()) {
	t.Helper()
	claim := func(c dedup.Claim, want dedup.Verdict) {
		t.Helper()
		if ds, err := s.Claim(t.Context(), c); err != nil || ds[0].Verdict != want {
			t.Fatalf("claim of %s: %+v, %v; want %v", c.Key.ID, ds, err, want)
		}
	}
	began := clock.Now()
	for _, name := range []string{"a", "b", "c"} {
		for i := range 4 {
			claim(remembered(fmt.Sprint(name, i)), dedup.New)
		}
		clock.Advance(2 * day)
		prune()
	}
	for i := range 4 {
		claim(remembered(fmt.Sprint("b", i)), dedup.Seen)
		claim(remembered(fmt.Sprint("c", i)), dedup.Seen)
	}
	claim(happened("a0", began.Add(-day)), dedup.TooOld)
	claim(happened("x", began.Add(-100*day)), dedup.TooOld)
	claim(happened("y", began.Add(4*day)), dedup.New)
	claim(remembered("a1"), dedup.New)
}

// RemembersNothing checks a new store whose [dedup.Retention] is off.
func RemembersNothing(t *testing.T, s dedup.Store, clock *Clock) {
	t.Helper()
	for range 3 {
		for _, c := range []dedup.Claim{remembered("a"), happened("b", clock.Now().Add(-500*day))} {
			if ds, err := s.Claim(t.Context(), c); err != nil || ds[0].Verdict != dedup.New {
				t.Fatalf("%+v, %v", ds, err)
			}
		}
		clock.Advance(100 * day)
	}
}
