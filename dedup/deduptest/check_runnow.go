package deduptest

import (
	"github.com/eyelet-dev/eyelet/dedup"
)

// runNowChecks are skipped for stores that are not a [dedup.Expediter].
var runNowChecks = []check{
	{"AWaitingTaskRunsAtOnceWithItsAttemptsKept", func(x *rig) {
		event := x.finished(delivery("a"), retry(hour))
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
	}},
	{"OnlyWaitingTasksChange", func(x *rig) {
		event, runs := x.oneOfEach()
		before := x.get(event)
		x.runNow(event)
		after := x.get(event)
		after.Tasks[3].Due = before.Tasks[3].Due
		x.same(after, before, "everything but the task that waits")
		x.finish(runs, done())
		w := x.take()
		equal(x, "handler", w.Task().Handler, "waits")
	}},
	{"NoWaitingTaskIsErrNotWaiting", func(x *rig) {
		x.failsRunNow(dedup.ErrNotFound, "unknown", "RunNow of an unknown event")
		event := x.accept(delivery("a"))
		check := func(what string) {
			x.Helper()
			before := x.get(event)
			x.failsRunNow(dedup.ErrNotWaiting, event, "RunNow of a task that "+what)
			x.same(x.get(event), before, "record")
		}
		check("is due")
		w := x.take()
		check("runs")
		x.finish(w.Lease, dead())
		check("is dead")
	}},
	{"AReleasedClaimWaitsForItsProducer", func(x *rig) {
		d := x.want(dedup.New, held("a"))
		x.failsRunNow(dedup.ErrNotWaiting, d.Record.Event, "RunNow of a held claim")
		x.finish(d.Lease, retry(hour))
		x.failsRunNow(dedup.ErrNotWaiting, d.Record.Event, "RunNow of a released claim")
		x.idle("workers never take held claims")
	}},
	{"LanesKeepTheirOrder", func(x *rig) {
		a, b := x.accept(laned("a", "l")), x.accept(laned("b", "l"))
		x.run(retry(hour), a)
		x.idle("the lane waits for its first task")
		x.runNow(a)
		x.run(done(), a, b)
	}},
	{"ItSurvivesARestart", func(x *rig) {
		if x.harness.Reopen == nil {
			x.Skip("the store is not durable")
		}
		event := x.finished(delivery("a"), retry(hour))
		x.runNow(event)
		x.reopen()
		x.takeOf(event)
	}},
}
