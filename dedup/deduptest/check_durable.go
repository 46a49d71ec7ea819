package deduptest

import (
	"fmt"

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
	{"RecordsOfEveryStateSurvive", func(x *rig) {
		events := listed(x)
		x.finish(x.take().Lease, retry(hour)) // running work is another check
		before := map[string]dedup.Record{}
		for id, event := range events {
			if id != "running" && id != "held" {
				before[event] = x.get(event)
			}
		}
		order := ids(x.list(dedup.Filter{}))
		for range 2 {
			x.reopen()
			for event, want := range before {
				x.same(x.get(event), want, "record after opening again")
			}
			equal(x, "listed", ids(x.list(dedup.Filter{})), order)
		}
	}},
	{"ClaimsOfEverySituationSurvive", func(x *rig) {
		if x.harness.Reopen == nil {
			x.reopen()
		}
		for _, s := range situations() {
			if s.claim.Hold && s.name == "WhileHeld" || s.name == "WhileRunning" {
				continue // running work is another check
			}
			if s.claim.Key.ID = s.name; len(s.claim.Tasks) > 0 {
				s.claim.Tasks = []dedup.NewTask{{Handler: s.name}}
			}
			before := s.enter(x)
			x.reopen()
			x.same(x.get(before.Event), before, s.name)
			x.want(dedup.Conflict, altered(s.claim))
			want := dedup.Known
			if s.free {
				want = dedup.New
			}
			x.want(want, s.claim)
			for _, open := range x.list(dedup.Filter{States: []dedup.State{dedup.Pending}, ID: s.name}) {
				if !open.Hold && open.Tasks[0].Attempt == 0 {
					x.run(done(), open.Event)
				}
			}
		}
	}},
	{"AliasesAndQuarantineSurvive", func(x *rig) {
		original := x.get(x.accept(aliased("a", nonce("n"), signed("s"))))
		aside := x.accept(quarantineOf(original, 2, 2))
		x.reopen()
		x.about(dedup.Aliased, original.Event, aliased("b", signed("s")))
		x.about(dedup.Known, aside, quarantineOf(original, 2, 2))
		x.accept(quarantineOf(original, 3, 2))
		x.want(dedup.Known, quarantineOf(original, 4, 2))
		x.quarantined(original.Event, 3)
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
	{"WorkContinuesInOrder", func(x *rig) {
		events := x.acceptLane(6, "l")
		x.run(done(), events[0])
		x.reopen()
		x.run(done(), events[1:4]...)
		x.reopen()
		x.runAlone("a task of the lane is running", events[4:]...)
		x.reopen()
		x.idle("all is done")
	}},
	{"ARetryIsStillDueAtItsTime", func(x *rig) {
		event := x.finished(delivery("a"), retry(hour))
		before := x.get(event)
		x.reopen()
		x.same(x.get(event), before, "record")
		x.idle("the task waits for an hour")
		x.advance(hour)
		x.attempt(x.takeOf(event), 2)
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
	{"StaleLeasesAreLost", func(x *rig) {
		event, first := x.started(delivery("a"))
		x.finish(first.Lease, retry(0))
		x.reopen()
		x.lost(first.Lease, "the task waits")
		second := x.takeOf(event)
		x.lost(first.Lease, "a newer lease runs")
		x.finish(second.Lease, done())
		x.reopen()
		x.lost(second.Lease, "the task is done")
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
	{"GenerationsSurvive", func(x *rig) {
		older, newer := generations(x)
		before := x.get(older)
		x.reopen()
		x.same(x.get(older), before, "dead letter")
		x.about(dedup.Known, newer, delivery("a"))
		x.reopenEvent(older)
		x.reopen()
		x.run(done(), older)
		x.about(dedup.Known, newer, delivery("a"))
		x.purge(newer)
		x.reopen()
		x.want(dedup.New, delivery("a"))
	}},
	{"GenerationsContinueAfterARestart", func(x *rig) { countOn(x, x.reopen) }},
	{"PurgedEventsStayPurged", func(x *rig) {
		event := x.finished(delivery("a"), dead())
		x.purge(event)
		x.reopen()
		_, err := x.store.Get(x.ctx, event)
		x.fails(err, dedup.ErrNotFound, "Get")
		x.idle("the only event was purged")
		x.accept(delivery("a"))
	}},
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
