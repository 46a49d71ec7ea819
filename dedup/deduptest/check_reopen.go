package deduptest

import (
	"github.com/eyelet-dev/eyelet/dedup"
)

var reopenChecks = []check{
	{"DeadTasksRunAgainWithAttemptsFromZero", func(x *rig) {
		event := x.finished(delivery("a"), retry(0))
		x.finish(x.take().Lease, dead())
		r := x.reopenEvent(event)
		stored := x.get(event)
		x.same(bare(stored), bare(r), "returned and stored record")
		task := stored.Tasks[0]
		if task.State != dedup.Pending || task.Attempt != 0 || task.Reason != "" || task.Err != "" ||
			!stored.Finished.IsZero() || !stored.Expires.IsZero() {
			x.Errorf("reopened: %s", text(stored))
		}
		w := x.takeOf(event)
		if w.Task().Attempt != 1 || string(w.Record.Payload.Body) != "body of a" {
			x.Errorf("work: %s", text(w.Record))
		}
	}},
	{"ItLeavesOtherTasksUnchanged", func(x *rig) {
		event, runs := x.oneOfEach()
		before := x.get(event)
		x.reopenEvent(event)
		after := x.get(event)
		equal(x, "state of the dead task", after.Tasks[1].State, dedup.Pending)
		after.Tasks[1] = before.Tasks[1]
		x.same(after, before, "everything but the dead task")
		x.finish(runs, done())
		w := x.take()
		equal(x, "handler", w.Task().Handler, "dead")
		x.idle("one task waits, the others are done or running")
	}},
	{"ItNeverChangesTheResponse", func(x *rig) {
		event := x.finished(delivery("a"), dead())
		x.reopenEvent(event, dedup.NewTask{Handler: "bill"})
		x.run(done(), event, event)
		x.responds(x.want(dedup.Known, delivery("a")), 202, "accepted")
	}},
	{"ItAddsTasksOfNewHandlersOnly", func(x *rig) {
		event := x.finished(delivery("a"), done())
		added := []dedup.NewTask{{Handler: "ship"}, {Handler: "bill", Lane: "l"}, {Handler: "bill"}}
		r := x.reopenEvent(event, added...)
		if len(r.Tasks) != 2 || r.Tasks[0].State != dedup.Done ||
			r.Tasks[1].Handler != "bill" || r.Tasks[1].Lane != "l" {
			x.Errorf("tasks: %+v", r.Tasks)
		}
		if w := x.takeOf(event); w.Task().Handler != "bill" || w.Lease.Task != 1 {
			x.Errorf("lease %+v", w.Lease)
		}
		x.idle("ship is done, bill is running")
	}},
	{"AnEventWithoutHandlersCanGetOne", func(x *rig) {
		c := handled("a")
		c.DropBody = true
		event := x.accept(c)
		x.reopenEvent(event, dedup.NewTask{Handler: "ship"})
		x.runsWith(c.Payload.Body, event)
	}},
	{"NothingToReopenIsErrNotDead", func(x *rig) {
		event := x.accept(delivery("a"))
		check := func() {
			x.Helper()
			before := x.get(event)
			x.failsReopen(dedup.ErrNotDead, event)
			x.failsReopen(dedup.ErrNotDead, event, dedup.NewTask{Handler: "ship"})
			x.same(x.get(event), before, "record")
		}
		check()
		w := x.take()
		check()
		x.finish(w.Lease, done())
		check()
	}},
	{"AnUnknownEventIsErrNotFound", func(x *rig) {
		x.failsReopen(dedup.ErrNotFound, "unknown")
		x.failsReopen(dedup.ErrNotFound, "", dedup.NewTask{Handler: "ship"})
		_, err := x.store.Get(x.ctx, "unknown")
		x.fails(err, dedup.ErrNotFound, "Get of an unknown event")
	}},
	{"ATaskWithoutAHandlerIsErrInvalidAndNothingIsReopened", func(x *rig) {
		event := x.finished(delivery("a"), dead())
		before := x.get(event)
		x.failsReopen(dedup.ErrInvalid, event, dedup.NewTask{Handler: "bill"}, dedup.NewTask{Lane: "l"})
		x.same(x.get(event), before, "record")
	}},
	{"ADroppedBodyIsErrNoPayload", func(x *rig) {
		c := delivery("a")
		c.DropBody = true
		event := x.accept(c)
		x.runsWith(c.Payload.Body, event)
		r := x.get(event)
		if len(r.Payload.Body) != 0 || r.Payload.Header.Get("Content-Type") == "" {
			x.Errorf("payload after the drop: %+v", r.Payload)
		}
		x.failsReopen(dedup.ErrNoPayload, event, dedup.NewTask{Handler: "bill"})
		x.failsReopen(dedup.ErrNotDead, event)
		x.same(x.get(event), r, "record")
	}},
	{"ABodyIsNotDroppedWhileATaskIsDead", func(x *rig) {
		c := handled("a", "ship", "bill")
		c.DropBody = true
		event := x.finished(c, done())
		x.run(dead(), event)
		x.body(event, c.Payload.Body)
		x.reopenEvent(event)
		x.runsWith(c.Payload.Body, event)
		x.body(event, nil)
	}},
	{"TheBodyIsDroppedOnRequestOnly", func(x *rig) {
		x.body(x.finished(delivery("a"), done()), []byte("body of a"))
		c := held("b")
		c.DropBody = true
		d := x.want(dedup.New, c)
		x.finish(d.Lease, release())
		x.body(d.Record.Event, []byte("body of b"))
		x.finish(x.want(dedup.New, c).Lease, answer(200, "ok"))
		x.body(d.Record.Event, nil)
	}},
	{"OfConcurrentReopensOneChangesTheEvent", func(x *rig) {
		event := x.finished(delivery("a"), dead())
		good := 0
		for _, err := range together(8, func(int) error {
			_, err := x.store.Reopen(x.ctx, event)
			return err
		}) {
			if err == nil {
				good++
				continue
			}
			x.fails(err, dedup.ErrNotDead, "the other Reopens")
		}
		equal(x, "effective Reopens", good, 1)
		x.take()
		x.idle("the reopened task is running")
	}},
}

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
