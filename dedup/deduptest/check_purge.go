package deduptest

import (
	"github.com/eyelet-dev/eyelet/dedup"
)

var purgeChecks = []check{
	{"AFinishedEventIsForgottenWithItsKey", purgeDone},
	{"ADeadLetterIsForgotten", purgeDead},
	{"AQuarantinedDeliveryIsForgottenAndItsOriginalStays", purgeQuarantined},
	{"OpenWorkIsErrOpenAndNothingIsForgotten", purgeOpen},
	{"AnUnknownEventIsErrNotFound", purgeUnknown},
	{"AnOldGenerationIsForgottenAndTheNewOneDecides", purgeOld},
	{"AfterTheNewGenerationTheOldOneDoesNotDecideAgain", purgeNew},
	{"GenerationsContinueAfterTheLargestKept", purgeGeneration},
	{"ATaskOfAPurgedEventIsNeverTaken", purgeTasks},
}

func purgeDone(x *rig) {
	event := x.accept(delivery("a"))
	x.finish(x.take().Lease, done())
	x.purge(event)
	if again := x.accept(delivery("a")); again == event {
		x.Errorf("event id %q was used again", event)
	}
}

func purgeDead(x *rig) {
	event := x.accept(delivery("a"))
	x.finish(x.take().Lease, dead())
	x.purge(event)
	x.accept(delivery("a"))
}

func purgeQuarantined(x *rig) {
	original := x.get(x.accept(delivery("a")))
	event := x.accept(quarantineOf(original, 2, 0))
	x.purge(event)
	x.quarantined(original.Event, 1)
	x.want(dedup.Known, delivery("a"))
}

func purgeOpen(x *rig) {
	c := delivery("a")
	c.Tasks = append(c.Tasks, dedup.NewTask{Handler: "bill"})
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
}

func purgeUnknown(x *rig) {
	x.fails(x.store.Purge(x.ctx, "unknown"), dedup.ErrNotFound, "Purge of an unknown event")
	x.fails(x.store.Purge(x.ctx, ""), dedup.ErrNotFound, "Purge of no event")
}

// generations makes a dead letter and, after its window, a done event of one key.
func generations(x *rig) (older, newer string) {
	x.Helper()
	c := delivery("a")
	c.Window = hour
	older = x.accept(c)
	x.finish(x.take().Lease, dead())
	x.advance(hour)
	newer = x.accept(c)
	x.finish(x.take().Lease, done())
	return older, newer
}

func purgeOld(x *rig) {
	older, newer := generations(x)
	x.purge(older)
	x.about(dedup.Known, newer, delivery("a"))
}

func purgeNew(x *rig) {
	older, newer := generations(x)
	x.reopenEvent(older)
	x.purge(newer)
	third := x.want(dedup.New, delivery("a")).Record
	if third.Event == older || third.Event == newer {
		x.Errorf("third: %s", text(third))
	}
	x.get(older)
}

func purgeTasks(x *rig) {
	event := x.accept(laned("a", "l"))
	x.finish(x.take().Lease, dead())
	next := x.accept(laned("b", "l"))
	x.purge(event)
	x.finish(x.takeOf(next).Lease, done())
	x.advance(hour)
	x.idle("the other event was purged")
}

func purgeGeneration(x *rig) { countOn(x, func() {}) }

// countOn purges generations of a key one after another and checks the number of the next.
// again may close and reopen the store.
func countOn(x *rig, again func()) {
	x.Helper()
	older, newer := generations(x)
	c := delivery("a")
	c.Window = hour
	x.purge(newer)
	again()
	third := x.want(dedup.New, c).Record
	x.generationsAre("a", 1, third.Generation)
	x.finish(x.takeOf(third.Event).Lease, dead())
	x.advance(hour)
	fourth := x.want(dedup.New, c).Record
	x.finish(x.takeOf(fourth.Event).Lease, done())
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
	x.finish(x.takeOf(fifth.Event).Lease, done())
	x.purge(fifth.Event)
	x.purge(older)
	again()
	equal(x, "generation without records", x.want(dedup.New, c).Record.Generation, 1)
}
