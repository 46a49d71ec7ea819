package deduptest

import (
	"github.com/eyelet-dev/eyelet/dedup"
)

var purgeChecks = []check{
	{"AFinishedEventIsForgottenWithItsKey", func(x *rig) {
		event := x.finished(delivery("a"), done())
		x.purge(event)
		if again := x.accept(delivery("a")); again == event {
			x.Errorf("event id %q was used again", event)
		}
	}},
	{"ADeadLetterIsForgotten", func(x *rig) {
		x.purge(x.finished(delivery("a"), dead()))
		x.accept(delivery("a"))
	}},
	{"AQuarantinedDeliveryIsForgottenAndItsOriginalStays", func(x *rig) {
		original := x.get(x.accept(delivery("a")))
		x.purge(x.accept(quarantineOf(original, 2, 0)))
		x.quarantined(original.Event, 1)
		x.want(dedup.Known, delivery("a"))
	}},
	{"OpenWorkIsErrOpenAndNothingIsForgotten", func(x *rig) {
		c := handled("a", "ship", "bill")
		event := x.accept(c)
		check := func() {
			x.Helper()
			before := x.get(event)
			x.fails(x.store.Purge(x.ctx, event), dedup.ErrOpen, "Purge")
			x.same(x.get(event), before, "record")
			x.want(dedup.Known, c)
		}
		check()
		first := x.take()
		check()
		x.finish(first.Lease, dead())
		check()
		second := x.take()
		check()
		x.finish(second.Lease, retry(hour))
		check()
	}},
	{"AnUnknownEventIsErrNotFound", func(x *rig) {
		x.fails(x.store.Purge(x.ctx, "unknown"), dedup.ErrNotFound, "Purge of an unknown event")
		x.fails(x.store.Purge(x.ctx, ""), dedup.ErrNotFound, "Purge of no event")
	}},
	{"AnOldGenerationIsForgottenAndTheNewOneDecides", func(x *rig) {
		older, newer := generations(x)
		x.purge(older)
		x.about(dedup.Known, newer, delivery("a"))
	}},
	{"AfterTheNewGenerationTheOldOneDoesNotDecideAgain", func(x *rig) {
		older, newer := generations(x)
		x.reopenEvent(older)
		x.purge(newer)
		third := x.want(dedup.New, delivery("a")).Record
		if third.Event == older || third.Event == newer {
			x.Errorf("third: %s", text(third))
		}
		x.get(older)
	}},
	{"GenerationsContinueAfterTheLargestKept", func(x *rig) { countOn(x, func() {}) }},
	{"ATaskOfAPurgedEventIsNeverTaken", func(x *rig) {
		event := x.finished(laned("a", "l"), dead())
		next := x.accept(laned("b", "l"))
		x.purge(event)
		x.run(done(), next)
		x.advance(hour)
		x.idle("the other event was purged")
	}},
}

// generations makes a dead letter and, after its window, a done event of one key.
func generations(x *rig) (older, newer string) {
	x.Helper()
	c := windowed(delivery("a"), hour)
	older = x.finished(c, dead())
	x.advance(hour)
	newer = x.finished(c, done())
	return older, newer
}

// countOn purges generations of a key one after another and checks the number of the next.
// again may close and reopen the store.
func countOn(x *rig, again func()) {
	x.Helper()
	older, newer := generations(x)
	c := windowed(delivery("a"), hour)
	x.purge(newer)
	again()
	third := x.want(dedup.New, c).Record
	x.generationsAre("a", 1, third.Generation)
	x.run(dead(), third.Event)
	x.advance(hour)
	fourth := x.want(dedup.New, c).Record
	x.run(done(), fourth.Event)
	x.generationsAre("a", 1, third.Generation, third.Generation+1)
	x.purge(fourth.Event)
	x.purge(third.Event)
	again()
	ds := x.claims(c, delivery("b"), c)
	fifth := ds[0].Record
	x.generationsAre("a", 1, fifth.Generation)
	for _, event := range []string{older, newer, third.Event, fourth.Event} {
		if fifth.Event == event {
			x.Errorf("event id %q was used again", event)
		}
	}
	if ds[1].Record.Generation != 1 || ds[2].Record.Event != fifth.Event {
		x.Errorf("another key has generation %d, a duplicate event %q", ds[1].Record.Generation, ds[2].Record.Event)
	}
	x.run(done(), fifth.Event)
	x.purge(fifth.Event)
	x.purge(older)
	again()
	equal(x, "generation without records", x.want(dedup.New, c).Record.Generation, 1)
}
