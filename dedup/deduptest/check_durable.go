package deduptest

import (
	"fmt"
	"time"

	"github.com/eyelet-dev/eyelet/dedup"
)

var durableChecks = []check{
	{"EveryByteOfADeliverySurvives", func(x *rig) {
		event, answered, c, a := exact(x)
		x.reopen()
		x.checkBytes(event, answered, c, a)
	}},
	{"LargeAndEmptyBodiesSurvive", func(x *rig) {
		want := bodies(x)
		x.reopen()
		x.checkBodies(want)
	}},
	{"ManyInterruptedTasksOfLargeRecordsRunAgain", func(x *rig) {
		const events = 12
		for i := range events {
			x.accept(bulky(fmt.Sprint("k", i)))
		}
		for taken := 0; taken < events; {
			taken += len(x.takeUpTo(events, 1<<30, minute))
		}
		x.reopen()
		x.advance(hour)
		for range events {
			w := x.suspect()
			x.attempt(w, 2)
			x.finish(w.Lease, done())
		}
	}},
	{"RunningWorkIsDueAgainWithItsAttemptCounted", func(x *rig) {
		event, first := x.started(delivery("a"))
		x.reopen()
		x.want(dedup.Known, delivery("a"))
		x.advance(day) // a store may wait for the lease or pause
		w := x.takeOf(event)
		if w.Task().Attempt != 2 || w.Lease.Token <= first.Lease.Token || string(w.Record.Payload.Body) != "body of a" {
			x.Errorf("work: %+v, %s", w.Lease, text(w.Record))
		}
		x.lost(first.Lease, "the task was taken again")
		x.finish(w.Lease, done())
	}},
	{"AHeldClaimIsFreedWithItsAttemptCounted", func(x *rig) {
		first := x.want(dedup.New, held("a"))
		x.reopen()
		x.advance(minute)
		x.idle("workers never take held claims")
		second := x.want(dedup.New, held("a"))
		x.continues(second, first)
		x.lost(first.Lease, "another claimer holds the claim")
		x.finish(second.Lease, answer(200, "second"))
		x.reopen()
		x.responds(x.want(dedup.Known, held("a")), 200, "second")
	}},
	{"TheWindowOfAClaimBeginsWithTheEndOfItsLeaseEvenIfThatIsNoticedLate", func(x *rig) {
		c := windowed(held("a"), hour)
		x.want(dedup.New, c)
		x.advance(hour / 2)
		x.reopen()
		x.advance(hour/2 + minute - time.Millisecond)
		x.want(dedup.Conflict, altered(c))
		x.advance(time.Millisecond)
		x.want(dedup.New, altered(c))
	}},
	{"SequencesTokensAndEventIdsContinue", func(x *rig) {
		events := map[string]bool{}
		var seq, token uint64
		for i := range 4 {
			d := x.want(dedup.New, held(fmt.Sprint("k", i)))
			if events[d.Record.Event] || d.Record.Seq <= seq || d.Lease.Token <= token {
				x.Fatalf("event %q, seq %d after %d, token %d after %d",
					d.Record.Event, d.Record.Seq, seq, d.Lease.Token, token)
			}
			events[d.Record.Event], seq, token = true, d.Record.Seq, d.Lease.Token
			x.finish(d.Lease, answer(200, "ok"))
			if i == 2 { // no record left shows how far the counters were
				x.purge(d.Record.Event)
			}
			x.reopen()
		}
	}},
	{"GenerationsContinueAfterARestart", func(x *rig) { countOn(x, x.reopen) }},
	{"StatsAreRight", func(x *rig) {
		x.claims(handled("a", "ship", "bill"), delivery("b"))
		x.finish(x.take().Lease, dead())
		counted := func(s dedup.Stats) bool { return s.Pending == 2 && s.Running == 0 && s.Dead == 1 }
		before := x.stats("before", counted)
		x.reopen()
		x.stats(fmt.Sprintf("before %+v, after", before), func(s dedup.Stats) bool {
			return counted(s) && s.Backlog == before.Backlog && s.Oldest.Equal(before.Oldest)
		})
	}},
}
