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

var rerunChecks = []check{
	{"ADoneTaskRunsAgainWithTheStoredPayload", func(x *rig) {
		event := x.finished(delivery("a"), retry(0))
		x.run(done(), event)
		r := x.rerunEvent(event)
		stored := x.get(event)
		x.same(bare(stored), bare(r), "returned and stored record")
		task := stored.Tasks[0]
		if task.State != dedup.Pending || task.Attempt != 0 || !stored.Finished.IsZero() || !stored.Expires.IsZero() {
			x.Errorf("run again: %s", text(stored))
		}
		x.failsRerun(dedup.ErrOpen, event)
		w := x.takeOf(event)
		if w.Task().Attempt != 1 || string(w.Record.Payload.Body) != "body of a" {
			x.Errorf("work: %s", text(w.Record))
		}
		x.failsRerun(dedup.ErrOpen, event)
		x.responds(x.want(dedup.Known, delivery("a")), 202, "accepted")
		x.finish(w.Lease, done())
		attempts(x, event, "1 pending failed connection refused", "2 done", "3 done")
		x.idle("it is done again")
		if r := x.get(event); r.Expires.IsZero() || r.Generation != stored.Generation {
			x.Errorf("after the second run: %s", text(r))
		}
	}},
	{"ItSurvivesARestart", func(x *rig) {
		event := x.finished(delivery("a"), done())
		r := x.rerunEvent(event)
		x.reopen()
		x.same(bare(x.get(event)), bare(r), "record")
		x.run(done(), event)
		x.reopen()
		attempts(x, event, "1 done", "2 done")
		x.idle("it is done again")
	}},
	{"EveryRunIsInTheHistoryWithTheTimeOfItsOrder", func(x *rig) {
		event := x.finished(delivery("a"), done())
		for n := range dedup.HistoryFirst + dedup.HistoryLast + 2 {
			x.rerunEvent(event)
			x.run(done(), event)
			all := x.get(event).Tasks[0].Attempts()
			if last := all[len(all)-1]; last.Number != n+2 || !last.Reopened.IsZero() {
				x.Fatalf("the last attempt is %+v", last)
			}
			for _, a := range all[:len(all)-1] {
				if a.State != dedup.Done || a.Reopened.Before(a.Ended) {
					x.Fatalf("attempt %+v", a)
				}
			}
		}
		if n := len(x.get(event).Tasks[0].History); n != dedup.HistoryFirst+dedup.HistoryLast {
			x.Errorf("%d attempts are kept", n)
		}
	}},
	{"OnlyTheTasksOfTheHandlersRun", func(x *rig) {
		event, runs := x.oneOfEach()
		before := x.get(event)
		x.failsRerun(dedup.ErrOpen, event)
		x.failsRerun(dedup.ErrNoTask, event, "done", "unknown")
		x.same(x.get(event), before, "record")
		x.rerunEvent(event, "done", "dead")
		after := x.get(event)
		equal(x, "state of the done task", after.Tasks[0].State, dedup.Pending)
		equal(x, "state of the dead task", after.Tasks[1].State, dedup.Pending)
		after.Tasks[0], after.Tasks[1] = before.Tasks[0], before.Tasks[1]
		x.same(after, before, "the other tasks")
		x.finish(runs, done())
		x.run(done(), event, event)
		x.idle("the last task waits an hour")
	}},
	{"WhatCannotRunAgainIsRefused", func(x *rig) {
		dropping := delivery("dropped")
		dropping.DropBody = true
		dropped := x.finished(dropping, done())
		original := x.finished(delivery("original"), done())
		claimed := x.want(dedup.New, held("held"))
		for _, row := range []struct {
			event string
			want  error
		}{
			{"unknown", dedup.ErrNotFound}, {x.accept(handled("none")), dedup.ErrNoTask},
			{x.finished(delivery("waits"), retry(hour)), dedup.ErrOpen}, {claimed.Record.Event, dedup.ErrOpen},
			{x.accept(quarantineOf(x.get(original), 2, 0)), dedup.ErrQuarantined}, {dropped, dedup.ErrNoPayload},
		} {
			x.failsRerun(row.want, row.event)
		}
		x.finish(claimed.Lease, release())
		x.failsRerun(dedup.ErrOpen, claimed.Record.Event)
		x.idle("nothing runs")
		x.rerunEvent(original)
		x.takeOf(original)
	}},
	{"AnAnsweredEventIsRunByWorkersAndKeepsItsResponse", func(x *rig) {
		d := x.want(dedup.New, held("a"))
		x.finish(d.Lease, answer(201, "first"))
		x.rerunEvent(d.Record.Event)
		x.responds(x.want(dedup.Known, held("a")), 201, "first")
		x.run(done(), d.Record.Event)
		x.responds(x.want(dedup.Known, held("a")), 201, "first")
	}},
	{"LanesKeepTheirOrder", func(x *rig) {
		a := x.finished(laned("a", "l"), done())
		b := x.finished(laned("b", "l"), done())
		c := x.accept(laned("c", "l"))
		x.rerunEvent(a)
		x.rerunEvent(b)
		x.run(done(), a, b, c)
		x.rerunEvent(b)
		w := x.takeOf(b)
		x.rerunEvent(a)
		x.idle("the lane runs one task at a time")
		x.finish(w.Lease, done())
		x.run(done(), a)
	}},
	{"OfConcurrentRerunsOneChangesTheEvent", func(x *rig) {
		event := x.finished(delivery("a"), done())
		good := 0
		for _, err := range together(8, func(int) error {
			_, err := x.store.Rerun(x.ctx, event)
			return err
		}) {
			if err == nil {
				good++
				continue
			}
			x.fails(err, dedup.ErrOpen, "the other Reruns")
		}
		equal(x, "effective Reruns", good, 1)
		x.run(done(), event)
		x.idle("it ran once more")
	}},
}

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
