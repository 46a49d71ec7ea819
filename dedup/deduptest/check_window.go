package deduptest

import (
	"fmt"
	"time"

	"github.com/eyelet-dev/eyelet/dedup"
)

var windowChecks = []check{
	{"ItIsADayByDefaultAndStartsAtTheOutcome", func(x *rig) {
		event := x.accept(delivery("a"))
		x.advance(3 * hour)
		x.run(done(), event)
		r, now := x.get(event), x.clock.Now()
		if r.Window != day || !r.Finished.Equal(now) || !r.Expires.Equal(now.Add(day)) {
			x.Errorf("finished %v, window %v, expires %v; now is %v", r.Finished, r.Window, r.Expires, now)
		}
		x.advance(day - time.Millisecond)
		x.want(dedup.Known, delivery("a"))
		x.advance(time.Millisecond)
		x.want(dedup.New, delivery("a"))
	}},
	{"ItNeverRunsWhileWorkIsLeft", func(x *rig) {
		c := windowed(handled("a", "ship", "bill"), hour)
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
		x.run(done(), event)
		x.advance(hour - time.Millisecond)
		x.want(dedup.Known, c)
		x.advance(time.Millisecond)
		x.want(dedup.New, c)
	}},
	{"AfterItAKeyIsNewAndAnotherGeneration", func(x *rig) {
		c := brief("a")
		first := x.accept(c)
		x.advance(hour)
		d := x.want(dedup.New, c)
		if d.Record.Event == first || d.Record.Generation < 1 || !d.Record.Accepted.Equal(x.clock.Now()) {
			x.Errorf("record: %s", text(d.Record))
		}
		x.about(dedup.Known, d.Record.Event, c)
	}},
	{"AfterItAnotherPayloadIsNew", func(x *rig) {
		c := brief("a")
		x.accept(c)
		x.want(dedup.Conflict, altered(c))
		x.advance(hour)
		x.want(dedup.New, altered(c))
		x.want(dedup.Conflict, c)
	}},
	{"OfManyClaimsAfterItOneIsNew", func(x *rig) {
		c := brief("a")
		x.accept(c)
		x.advance(hour)
		oneNew(x, 16, func(int) dedup.Claim { return c })
	}},
	{"ADeadLetterStaysAfterItBesideTheNextGeneration", func(x *rig) {
		c := windowed(delivery("a"), hour)
		first := x.finished(c, dead())
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
	}},
	{"AReopenedDeadLetterDoesNotDisturbTheNextGeneration", func(x *rig) {
		c := windowed(delivery("a"), hour)
		first := x.finished(c, dead())
		x.advance(hour)
		c.Payload.Body = []byte("the second event")
		second := x.finished(c, done())
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
	}},
	{"AReopenedDeadLetterWithoutANextGenerationIsKnown", func(x *rig) {
		c := windowed(aliased("a", nonce("n")), hour)
		first := x.finished(c, dead())
		x.advance(10 * day)
		x.reopenEvent(first)
		x.about(dedup.Known, first, c)
		x.want(dedup.Aliased, aliased("b", nonce("n")))
	}},
	{"AReopenedEventGetsANewWindow", func(x *rig) {
		c := windowed(delivery("a"), hour)
		event := x.finished(c, dead())
		x.advance(hour / 2)
		if r := x.reopenEvent(event); !r.Finished.IsZero() || !r.Expires.IsZero() {
			x.Fatalf("Reopen: %s", text(r))
		}
		x.advance(10 * hour)
		x.want(dedup.Known, c)
		x.finish(x.take().Lease, done())
		if r := x.get(event); !r.Expires.Equal(x.clock.Now().Add(hour)) {
			x.Errorf("expires %v, now is %v", r.Expires, x.clock.Now())
		}
		x.advance(hour)
		x.want(dedup.New, c)
	}},
	{"AReleasedClaimIsForgottenAfterIt", func(x *rig) {
		c := windowed(held("a"), hour)
		first := x.want(dedup.New, c)
		x.finish(first.Lease, release())
		x.advance(hour)
		second := x.want(dedup.New, altered(c))
		if second.Record.Event == first.Record.Event || second.Record.Tasks[0].Attempt != 1 {
			x.Errorf("second: %s", text(second.Record))
		}
		x.lost(first.Lease, "the claim was released and forgotten")
	}},
	{"AnAbandonedClaimIsForgottenAfterIt", func(x *rig) {
		c := windowed(held("a"), hour)
		first := x.want(dedup.New, c)
		x.advance(hour + minute - time.Millisecond)
		x.want(dedup.Conflict, altered(c))
		x.advance(time.Millisecond)
		second := x.want(dedup.New, altered(c))
		if second.Record.Event == first.Record.Event || second.Record.Tasks[0].Attempt != 1 {
			x.Errorf("second: %s", text(second.Record))
		}
	}},
	{"LiveOpenAndDeadRecordsStay", func(x *rig) {
		for i := range 40 {
			x.accept(brief(fmt.Sprint("old", i)))
		}
		kept := map[string]bool{
			x.accept(handled("lasting")):                          true,
			x.finished(windowed(delivery("dying"), hour), dead()): true,
			x.accept(windowed(delivery("waiting"), hour)):         true,
		}
		x.advance(2 * hour)
		for i := range 40 { // a store may forget a few per call
			kept[x.accept(handled(fmt.Sprint("fill", i)))] = true
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
	}},
}
