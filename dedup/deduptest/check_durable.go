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
	{"RecordsOfEveryStateSurvive", durableStates},
	{"ClaimsOfEverySituationSurvive", durableVerdicts},
	{"AliasesAndQuarantineSurvive", durableNames},
	{"WorkContinuesInOrder", durableWork},
	{"ARetryIsStillDueAtItsTime", durableRetry},
	{"RunningWorkIsDueAgainWithItsAttemptCounted", durableRunning},
	{"AHeldClaimIsFreedWithItsAttemptCounted", durableHeld},
	{"StaleLeasesAreLost", durableStale},
	{"SequencesTokensAndEventIdsContinue", durableCounters},
	{"GenerationsSurvive", durableGenerations},
	{"GenerationsContinueAfterARestart", func(x *rig) { countOn(x, x.reopen) }},
	{"PurgedEventsStayPurged", durablePurge},
	{"StatsAreRight", durableStats},
}

func durableStates(x *rig) {
	events := listed(x)
	r := x.take() // running work is another check
	x.finish(r.Lease, retry(hour))
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
}

func durableVerdicts(x *rig) {
	if x.harness.Reopen == nil {
		x.reopen()
	}
	for _, s := range situations() {
		if s.claim.Hold && s.name == "WhileHeld" || s.name == "WhileRunning" {
			continue // running work is another check
		}
		s.claim.Key.ID, s.claim.Tasks = s.name, renamed(s.claim.Tasks, s.name)
		before := s.enter(x)
		x.reopen()
		x.same(x.get(before.Event), before, s.name)
		other := s.claim
		other.Fingerprint = fingerprint(2)
		x.want(dedup.Conflict, other)
		want := dedup.Known
		if s.free {
			want = dedup.New
		}
		x.want(want, s.claim)
		for _, open := range x.list(dedup.Filter{States: []dedup.State{dedup.Pending}, ID: s.name}) {
			if !open.Hold && open.Tasks[0].Attempt == 0 {
				x.finish(x.takeOf(open.Event).Lease, done())
			}
		}
	}
}

func renamed(tasks []dedup.NewTask, handler string) []dedup.NewTask {
	var out []dedup.NewTask
	for range tasks {
		out = append(out, dedup.NewTask{Handler: handler})
	}
	return out
}

func durableNames(x *rig) {
	c := delivery("a")
	c.Aliases = []dedup.Key{nonce("n"), signed("s")}
	original := x.get(x.accept(c))
	aside := x.accept(quarantineOf(original, 2, 2))
	x.reopen()
	b := delivery("b")
	b.Aliases = c.Aliases[1:]
	x.about(dedup.Aliased, original.Event, b)
	x.about(dedup.Known, aside, quarantineOf(original, 2, 2))
	x.accept(quarantineOf(original, 3, 2))
	x.want(dedup.Known, quarantineOf(original, 4, 2))
	x.quarantined(original.Event, 3)
}

func durableWork(x *rig) {
	var events []string
	for i := range 6 {
		events = append(events, x.accept(laned(fmt.Sprint("k", i), "l")))
	}
	x.finish(x.takeOf(events[0]).Lease, done())
	x.reopen()
	for _, event := range events[1:4] {
		x.finish(x.takeOf(event).Lease, done())
	}
	x.reopen()
	for _, event := range events[4:] {
		w := x.takeOf(event)
		x.idle("a task of the lane is running")
		x.finish(w.Lease, done())
	}
	x.reopen()
	x.idle("all is done")
}

func durableRetry(x *rig) {
	event := x.accept(delivery("a"))
	x.finish(x.take().Lease, retry(hour))
	before := x.get(event)
	x.reopen()
	x.same(x.get(event), before, "record")
	x.idle("the task waits for an hour")
	x.advance(hour)
	x.attempt(x.takeOf(event), 2)
}

func durableRunning(x *rig) {
	event := x.accept(delivery("a"))
	first := x.take()
	x.reopen()
	x.want(dedup.Known, delivery("a"))
	x.advance(day) // a store may wait for the lease or pause
	w := x.takeOf(event)
	if w.Task().Attempt != 2 || w.Lease.Token <= first.Lease.Token || string(w.Record.Payload.Body) != "body of a" {
		x.Errorf("work: %+v, %s", w.Lease, text(w.Record))
	}
	x.lost(first.Lease, "the task was taken again")
	x.finish(w.Lease, done())
}

func durableHeld(x *rig) {
	first := x.want(dedup.New, held("a"))
	x.reopen()
	x.advance(minute)
	x.idle("workers never take held claims")
	second := x.want(dedup.New, held("a"))
	if second.Record.Event != first.Record.Event || second.Record.Tasks[0].Attempt != 2 {
		x.Errorf("second: %s", text(second.Record))
	}
	x.lost(first.Lease, "another claimer holds the claim")
	x.finish(second.Lease, answer(200, "second"))
	x.reopen()
	if got := x.want(dedup.Known, held("a")).Record.Response; got.Status != 200 || string(got.Body) != "second" {
		x.Errorf("response %+v", got)
	}
}

func durableStale(x *rig) {
	event := x.accept(delivery("a"))
	first := x.take()
	x.finish(first.Lease, retry(0))
	x.reopen()
	x.lost(first.Lease, "the task waits")
	second := x.takeOf(event)
	x.lost(first.Lease, "a newer lease runs")
	x.finish(second.Lease, done())
	x.reopen()
	x.lost(second.Lease, "the task is done")
}

func durableCounters(x *rig) {
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
}

func durableGenerations(x *rig) {
	older, newer := generations(x)
	before := x.get(older)
	x.reopen()
	x.same(x.get(older), before, "dead letter")
	x.about(dedup.Known, newer, delivery("a"))
	x.reopenEvent(older)
	x.reopen()
	x.finish(x.takeOf(older).Lease, done())
	x.about(dedup.Known, newer, delivery("a"))
	x.purge(newer)
	x.reopen()
	x.want(dedup.New, delivery("a"))
}

func durablePurge(x *rig) {
	event := x.accept(delivery("a"))
	x.finish(x.take().Lease, dead())
	x.purge(event)
	x.reopen()
	_, err := x.store.Get(x.ctx, event)
	x.fails(err, dedup.ErrNotFound, "Get")
	x.idle("the only event was purged")
	x.accept(delivery("a"))
}

func durableStats(x *rig) {
	c := delivery("a")
	c.Tasks = append(c.Tasks, dedup.NewTask{Handler: "bill"})
	x.claims(c, delivery("b"))
	x.finish(x.take().Lease, dead())
	before := x.stats()
	x.reopen()
	after := x.stats()
	if after.Records != before.Records || after.Pending != before.Pending || after.Running != 0 ||
		after.Dead != before.Dead || after.Backlog != before.Backlog || !after.Oldest.Equal(before.Oldest) {
		x.Errorf("stats %+v, before %+v", after, before)
	}
}
