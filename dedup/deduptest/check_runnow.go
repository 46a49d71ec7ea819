package deduptest

import (
	"github.com/eyelet-dev/eyelet/dedup"
)

// runNowChecks are skipped for stores that are not a [dedup.Expediter].
var runNowChecks = []check{
	{"AWaitingTaskRunsAtOnceWithItsAttemptsKept", runNowWaiting},
	{"OnlyWaitingTasksChange", runNowOnlyWaiting},
	{"NoWaitingTaskIsErrNotWaiting", runNowNothing},
	{"AReleasedClaimWaitsForItsProducer", runNowHeld},
	{"LanesKeepTheirOrder", runNowLane},
	{"ItSurvivesARestart", runNowDurable},
}

func runNowWaiting(x *rig) {
	event := x.accept(delivery("a"))
	x.finish(x.take().Lease, retry(hour))
	x.idle("the task waits an hour")
	before := x.get(event)
	r := x.runNow(event)
	stored := x.get(event)
	x.same(bare(stored), bare(r), "returned and stored record")
	if !stored.Tasks[0].Due.Before(before.Tasks[0].Due) {
		x.Errorf("due %v, before %v", stored.Tasks[0].Due, before.Tasks[0].Due)
	}
	stored.Tasks[0].Due = before.Tasks[0].Due
	x.same(stored, before, "everything but Due")
	w := x.takeOf(event)
	if w.Task().Attempt != 2 || string(w.Record.Payload.Body) != "body of a" {
		x.Errorf("work: %s", text(w.Record))
	}
	x.finish(w.Lease, done())
	x.idle("the task is done")
}

func runNowOnlyWaiting(x *rig) {
	event, runs := x.oneOfEach()
	before := x.get(event)
	x.runNow(event)
	after := x.get(event)
	after.Tasks[3].Due = before.Tasks[3].Due
	x.same(after, before, "everything but the task that waits")
	x.finish(runs, done())
	w := x.take()
	equal(x, "handler", w.Task().Handler, "waits")
}

func runNowNothing(x *rig) {
	h := x.expediter()
	_, err := h.RunNow(x.ctx, "unknown")
	x.fails(err, dedup.ErrNotFound, "RunNow of an unknown event")
	event := x.accept(delivery("a"))
	check := func(what string) {
		x.Helper()
		before := x.get(event)
		_, err := h.RunNow(x.ctx, event)
		x.fails(err, dedup.ErrNotWaiting, "RunNow of a task that "+what)
		x.same(x.get(event), before, "record")
	}
	check("is due")
	w := x.take()
	check("runs")
	x.finish(w.Lease, dead())
	check("is dead")
}

func runNowHeld(x *rig) {
	h := x.expediter()
	d := x.want(dedup.New, held("a"))
	_, err := h.RunNow(x.ctx, d.Record.Event)
	x.fails(err, dedup.ErrNotWaiting, "RunNow of a held claim")
	x.finish(d.Lease, retry(hour))
	_, err = h.RunNow(x.ctx, d.Record.Event)
	x.fails(err, dedup.ErrNotWaiting, "RunNow of a released claim")
	x.idle("workers never take held claims")
}

func runNowLane(x *rig) {
	first, second := delivery("a"), delivery("b")
	first.Tasks = []dedup.NewTask{{Handler: "ship", Lane: "l"}}
	second.Tasks = first.Tasks
	a, b := x.accept(first), x.accept(second)
	x.finish(x.takeOf(a).Lease, retry(hour))
	x.idle("the lane waits for its first task")
	x.runNow(a)
	x.finish(x.takeOf(a).Lease, done())
	x.finish(x.takeOf(b).Lease, done())
}

func runNowDurable(x *rig) {
	if x.harness.Reopen == nil {
		x.Skip("the store is not durable")
	}
	event := x.accept(delivery("a"))
	x.finish(x.take().Lease, retry(hour))
	x.runNow(event)
	x.reopen()
	x.takeOf(event)
}
