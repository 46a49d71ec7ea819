package deduptest

import (
	"github.com/eyelet-dev/eyelet/dedup"
)

func purgeChecks() []check {
	return []check{
		{"AnEventThatIsDoneIsForgottenWithItsKey", purgeDone},
		{"ADeadLetterIsForgotten", purgeDead},
		{"ADeliveryKeptAsideIsForgottenAndItsOriginalStays", purgeAside},
		{"OpenWorkIsErrOpenAndNothingIsForgotten", purgeOpen},
		{"AnUnknownEventIsErrNotFound", purgeUnknown},
		{"AnOldGenerationIsForgottenAndTheNewOneAnswers", purgeOld},
		{"AfterTheNewGenerationTheOldOneDoesNotAnswerAgain", purgeNew},
		{"ATaskOfAPurgedEventIsNeverGiven", purgeTasks},
	}
}

func (x *rig) purge(event string) {
	x.Helper()
	if err := x.store.Purge(x.ctx, event); err != nil {
		x.Fatalf("Purge: %v", err)
	}
	_, err := x.store.Get(x.ctx, event)
	x.fails(err, dedup.ErrNotFound, "Get after Purge")
	if rs := x.list(dedup.Filter{Event: event}); len(rs) != 0 {
		x.Errorf("listed after Purge: %s", text(rs[0]))
	}
	x.fails(x.store.Purge(x.ctx, event), dedup.ErrNotFound, "second Purge")
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

func purgeAside(x *rig) {
	original := x.get(x.accept(delivery("a")))
	event := x.accept(asideOf(original, 2, 0))
	x.purge(event)
	if n := x.get(original.Event).Asides; n != 1 {
		x.Errorf("the original counts %d, want 1 as before", n)
	}
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
	x.fails(x.store.Purge(x.ctx, "nobody"), dedup.ErrNotFound, "Purge of an unknown event")
	x.fails(x.store.Purge(x.ctx, ""), dedup.ErrNotFound, "Purge of no event")
}

// generations makes a dead letter and a done event after its window, under one key.
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
	if got := x.want(dedup.Known, delivery("a")).Record.Event; got != newer {
		x.Errorf("known as %q, want %q", got, newer)
	}
}

func purgeNew(x *rig) {
	older, newer := generations(x)
	if _, err := x.store.Reopen(x.ctx, older); err != nil {
		x.Fatal(err)
	}
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
