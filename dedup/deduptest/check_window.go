package deduptest

import (
	"fmt"
	"time"

	"github.com/eyelet-dev/eyelet/dedup"
)

var windowChecks = []check{
	{"ItIsADayByDefaultAndStartsAtTheOutcome", windowDefault},
	{"ItNeverRunsWhileWorkIsLeft", windowWaits},
	{"AfterItAKeyIsNewAndAnotherGeneration", windowEnds},
	{"AfterItAnotherPayloadIsNew", windowConflict},
	{"OfManyClaimsAfterItOneIsNew", windowOneWinner},
	{"ADeadLetterStaysAfterItBesideTheNextGeneration", windowDeadLetter},
	{"AReopenedDeadLetterDoesNotDisturbTheNextGeneration", windowReopen},
	{"AReopenedDeadLetterWithoutANextGenerationIsKnown", windowReopenAlone},
	{"AReopenedEventGetsANewWindow", windowAnew},
	{"AReleasedClaimIsForgottenAfterIt", windowReleased},
	{"AnAbandonedClaimIsForgottenAfterIt", windowVanished},
	{"LiveOpenAndDeadRecordsStay", windowSweep},
}

func windowDefault(x *rig) {
	event := x.accept(delivery("a"))
	x.advance(3 * hour)
	x.finish(x.take().Lease, done())
	r := x.get(event)
	if r.Window != day || !r.Finished.Equal(x.clock.Now()) || !r.Expires.Equal(x.clock.Now().Add(day)) {
		x.Errorf("finished %v, window %v, expires %v; now is %v", r.Finished, r.Window, r.Expires, x.clock.Now())
	}
	x.advance(day - time.Millisecond)
	x.want(dedup.Known, delivery("a"))
	x.advance(time.Millisecond)
	x.want(dedup.New, delivery("a"))
}

func windowWaits(x *rig) {
	c := delivery("a")
	c.Window = hour
	c.Tasks = append(c.Tasks, dedup.NewTask{Handler: "bill"})
	event := x.accept(c)
	x.advance(10 * hour)
	x.want(dedup.Known, c) // pending
	first := x.take()
	x.want(dedup.Known, c) // running
	x.finish(first.Lease, done())
	x.advance(10 * hour)
	x.want(dedup.Known, c) // one of two done
	second := x.takeUpTo(1, 1, 100*hour)[0]
	x.finish(second.Lease, retry(20*hour))
	x.advance(10 * hour)
	x.want(dedup.Known, c) // waits for a retry
	x.advance(10 * hour)
	x.finish(x.takeOf(event).Lease, done())
	x.advance(hour - time.Millisecond)
	x.want(dedup.Known, c)
	x.advance(time.Millisecond)
	x.want(dedup.New, c)
}

func windowEnds(x *rig) {
	c := delivery("a")
	c.Window, c.Tasks = hour, nil
	first := x.accept(c)
	x.advance(hour)
	d := x.want(dedup.New, c)
	if d.Record.Event == first || d.Record.Generation < 1 || !d.Record.Accepted.Equal(x.clock.Now()) {
		x.Errorf("record: %s", text(d.Record))
	}
	x.about(dedup.Known, d.Record.Event, c)
}

func windowConflict(x *rig) {
	c := delivery("a")
	c.Window, c.Tasks = hour, nil
	x.accept(c)
	c.Fingerprint = fingerprint(2)
	x.want(dedup.Conflict, c)
	x.advance(hour)
	x.want(dedup.New, c)
	c.Fingerprint = fingerprint(1)
	x.want(dedup.Conflict, c)
}

func windowOneWinner(x *rig) {
	c := delivery("a")
	c.Window, c.Tasks = hour, nil
	x.accept(c)
	x.advance(hour)
	oneNew(x, 16, func(int) dedup.Claim { return c })
}

func windowDeadLetter(x *rig) {
	c := delivery("a")
	c.Window = hour
	first := x.accept(c)
	x.finish(x.take().Lease, dead())
	before := x.get(first)
	x.advance(hour)
	c.Payload.Body = []byte("the second event")
	second := x.want(dedup.New, c).Record
	if second.Event == first || second.Generation != before.Generation+1 {
		x.Errorf("second: %s", text(second))
	}
	x.same(x.get(first), before, "the dead letter")
	rs := x.list(dedup.Filter{ID: "a", Body: true})
	if len(rs) != 2 || rs[0].Event != second.Event || rs[1].Event != first {
		x.Fatalf("listed %d records of the key, want the second and the dead letter", len(rs))
	}
	x.takeOf(second.Event)
	x.advance(300 * day)
	x.same(x.get(first), before, "the dead letter a year later")
}

func windowReopen(x *rig) {
	c := delivery("a")
	c.Window = hour
	first := x.accept(c)
	x.finish(x.take().Lease, dead())
	x.advance(hour)
	c.Payload.Body = []byte("the second event")
	second := x.accept(c)
	x.finish(x.takeOf(second).Lease, done())
	before := x.get(second)
	x.reopenEvent(first)
	w := x.takeOf(first)
	if string(w.Record.Payload.Body) != "body of a" || w.Record.Generation != 1 {
		x.Errorf("reopened: %s", text(w.Record))
	}
	x.about(dedup.Known, second, c)
	x.finish(w.Lease, done())
	x.same(x.get(second), before, "the second event")
	x.about(dedup.Known, second, c)
	x.advance(hour)
	third := x.want(dedup.New, c).Record
	if third.Event == first || third.Event == second {
		x.Errorf("third: %s", text(third))
	}
}

func windowReopenAlone(x *rig) {
	c := delivery("a")
	c.Window, c.Aliases = hour, []dedup.Key{nonce("n")}
	first := x.accept(c)
	x.finish(x.take().Lease, dead())
	x.advance(10 * day)
	x.reopenEvent(first)
	x.about(dedup.Known, first, c)
	b := delivery("b")
	b.Aliases = c.Aliases
	x.want(dedup.Aliased, b)
}

func windowAnew(x *rig) {
	c := delivery("a")
	c.Window = hour
	event := x.accept(c)
	x.finish(x.take().Lease, dead())
	x.advance(hour / 2)
	if r, err := x.store.Reopen(x.ctx, event); err != nil || !r.Finished.IsZero() || !r.Expires.IsZero() {
		x.Fatalf("Reopen: %s, %v", text(r), err)
	}
	x.advance(10 * hour)
	x.want(dedup.Known, c)
	x.finish(x.take().Lease, done())
	if r := x.get(event); !r.Expires.Equal(x.clock.Now().Add(hour)) {
		x.Errorf("expires %v, now is %v", r.Expires, x.clock.Now())
	}
	x.advance(hour)
	x.want(dedup.New, c)
}

func windowReleased(x *rig) {
	c := held("a")
	c.Window = hour
	first := x.want(dedup.New, c)
	x.finish(first.Lease, release())
	x.advance(hour)
	c.Fingerprint = fingerprint(2)
	second := x.want(dedup.New, c)
	if second.Record.Event == first.Record.Event || second.Record.Tasks[0].Attempt != 1 {
		x.Errorf("second: %s", text(second.Record))
	}
	x.lost(first.Lease, "the claim was released and forgotten")
}

func windowVanished(x *rig) {
	c := held("a")
	c.Window = hour
	first := x.want(dedup.New, c)
	x.advance(hour + minute - time.Millisecond)
	c.Fingerprint = fingerprint(2)
	x.want(dedup.Conflict, c)
	x.advance(time.Millisecond)
	second := x.want(dedup.New, c)
	if second.Record.Event == first.Record.Event || second.Record.Tasks[0].Attempt != 1 {
		x.Errorf("second: %s", text(second.Record))
	}
}

func windowSweep(x *rig) {
	for i := range 40 {
		c := delivery(fmt.Sprint("old", i))
		c.Window, c.Tasks = hour, nil
		x.accept(c)
	}
	kept := map[string]bool{}
	lasting := delivery("lasting")
	lasting.Tasks = nil
	kept[x.accept(lasting)] = true
	dying := delivery("dying")
	dying.Window = hour
	kept[x.accept(dying)] = true
	x.finish(x.take().Lease, dead())
	waiting := delivery("waiting")
	waiting.Window = hour
	kept[x.accept(waiting)] = true
	x.advance(2 * hour)
	for i := range 40 { // a store may forget a few per call
		c := delivery(fmt.Sprint("fill", i))
		c.Tasks = nil
		kept[x.accept(c)] = true
	}
	for event := range kept {
		x.get(event)
	}
	for _, r := range x.list(dedup.Filter{}) {
		if !kept[r.Event] && !r.Disposable(x.clock.Now()) {
			x.Errorf("listed: %s", text(r))
		}
		delete(kept, r.Event)
	}
	if len(kept) > 0 {
		x.Errorf("not listed: %v", kept)
	}
}
