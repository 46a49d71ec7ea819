package deduptest

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/eyelet-dev/eyelet/dedup"
)

var takeChecks = []check{
	{"ItReturnsTheTaskWithItsPayloadAndCountsTheAttempt", func(x *rig) {
		event, w := x.started(delivery("a"))
		if w.Record.Event != event || w.Lease.Event != event || w.Lease.Task != 0 || w.Lease.Token == 0 {
			x.Errorf("lease %+v", w.Lease)
		}
		task := w.Task()
		if task.State != dedup.Running || task.Attempt != 1 || task.Token != w.Lease.Token ||
			!task.Until.Equal(w.Lease.Until) {
			x.Errorf("task %+v", task)
		}
		equal(x, "body", string(w.Record.Payload.Body), "body of a")
		x.same(x.get(event), w.Record, "stored record")
	}},
	{"TheCallerOwnsTheResult", func(x *rig) {
		event := x.accept(precious("a"))
		x.spoil(event, x.take())
		x.spoil(event, x.take())
	}},
	{"TheCallerOwnsAPayloadThatTheClaimGave", func(x *rig) {
		for _, id := range []string{"taken later", "taken at once"} {
			c := precious(id)
			c.GivesPayload = true
			var w dedup.Work
			if id == "taken at once" {
				next := x.waiting()
				x.accept(c)
				w = next()
			} else {
				x.accept(c)
				w = x.take()
			}
			event := w.Record.Event
			x.spoil(event, w)
			x.spoil(event, x.takeOf(event))
			x.finish(w.Lease, retry(0))
			x.spoil(event, x.takeOf(event))
		}
	}},
	{"ATaskIsTakenOnce", func(x *rig) {
		_, w := x.started(delivery("a"))
		x.idle("the only task is running")
		x.finish(w.Lease, done())
		x.idle("the only task is done")
		x.advance(hour)
		x.idle("the only task was done an hour ago")
	}},
	{"EveryTaskOfAnEventIsTakenAndFinishedSeparately", func(x *rig) {
		event := x.accept(handled("a", "one", "two", "three"))
		leases := map[string]dedup.Lease{}
		for range 3 {
			w := x.takeOf(event)
			leases[w.Task().Handler] = w.Lease
		}
		equal(x, "leases", len(leases), 3)
		x.finish(leases["one"], done())
		x.finish(leases["two"], dead())
		r := x.get(event)
		if r.Tasks[0].State != dedup.Done || r.Tasks[1].State != dedup.Dead || r.Tasks[2].State != dedup.Running ||
			!r.Finished.IsZero() {
			x.Errorf("record: %s", text(r))
		}
		if r.Tasks[1].Reason != "exhausted" || r.Tasks[1].Err != "no more attempts" {
			x.Errorf("dead task: %+v", r.Tasks[1])
		}
		x.finish(leases["three"], done())
		if r := x.get(event); r.State() != dedup.Dead || r.Finished.IsZero() {
			x.Errorf("record: %s", text(r))
		}
	}},
	{"ItReturnsAtMostN", func(x *rig) {
		for i := range 10 {
			x.accept(delivery(fmt.Sprint("k", i)))
		}
		seen := map[string]bool{}
		for len(seen) < 10 {
			for _, w := range x.takeUpTo(3, 1<<30, minute) {
				if seen[w.Record.Event] {
					x.Fatalf("event %s was given twice", w.Record.Event)
				}
				seen[w.Record.Event] = true
			}
		}
		x.idle("all tasks are running")
	}},
	{"ItReturnsPayloadsOfAtMostTheBytesButAlwaysOneTask", func(x *rig) {
		for i := range 6 {
			c := delivery(fmt.Sprint("k", i))
			c.Payload.Body = []byte(strings.Repeat("x", 100))
			x.accept(c)
		}
		seen := 0
		for seen < 5 {
			ws := x.takeUpTo(10, 250, minute)
			if len(ws) > 2 {
				x.Fatalf("%d payloads of 100 bytes within 250", len(ws))
			}
			seen += len(ws)
		}
		if seen == 5 {
			if ws := x.takeUpTo(10, 1, minute); len(ws) != 1 {
				x.Fatalf("%d tasks within 1 byte, want one", len(ws))
			}
		}
		x.idle("all tasks are running")
	}},
	{"ManyTasksOfLargeRecordsAreTaken", func(x *rig) {
		const events = 12
		for i := range events {
			x.accept(bulky(fmt.Sprint("k", i)))
		}
		var leases []dedup.Lease
		for len(leases) < events {
			for _, w := range x.takeUpTo(events, 1<<30, minute) {
				leases = append(leases, w.Lease)
			}
			x.want(dedup.Known, bulky("k0"))
			x.accept(delivery(fmt.Sprint("later", len(leases))))
			x.finish(x.take().Lease, done())
		}
		for _, l := range leases {
			x.finish(l, done())
		}
	}},
	{"TheLongestDueComesFirst", func(x *rig) {
		var events []string
		for i := range 4 {
			events = append(events, x.accept(delivery(fmt.Sprint("k", i))))
			x.advance(time.Second)
		}
		x.run(retry(time.Second), events[0]) // due after all others
		x.advance(minute)
		for _, i := range []int{1, 2, 3, 0} {
			x.takeOf(events[i])
		}
	}},
	{"ItWaitsUntilAnEventIsAccepted", func(x *rig) {
		next := x.waiting()
		x.wakes(next, x.accept(delivery("a")))
	}},
	{"ItWaitsUntilARetryIsDue", func(x *rig) {
		event := x.finished(delivery("a"), retry(hour))
		next := x.waiting()
		x.advance(hour)
		x.wakes(next, event)
	}},
	{"ItWakesForWorkThatIsDueEarlier", func(x *rig) {
		x.finished(delivery("a"), retry(2*hour))
		b, w := x.started(delivery("b"))
		next := x.waiting()
		x.finish(w.Lease, retry(hour))
		x.advance(hour)
		x.wakes(next, b)
		next = x.waiting()
		x.wakes(next, x.accept(delivery("c")))
	}},
	{"ItWakesWhenADeadTaskIsReopened", func(x *rig) {
		event := x.finished(delivery("a"), dead())
		next := x.waiting()
		x.reopenEvent(event)
		x.wakes(next, event)
	}},
	{"ItWakesWhenALeaseExpires", func(x *rig) {
		event, first := x.started(delivery("a"))
		next := x.waiting()
		x.advance(minute)
		w := next()
		equal(x, "event", w.Record.Event, event)
		x.attempt(w, 2)
		x.newer(w.Lease, first.Lease)
		x.lost(first.Lease, "the task was taken again")
	}},
	{"ItWakesWhenALaneIsFree", func(x *rig) {
		x.accept(laned("a", "l"))
		b := x.accept(laned("b", "l"))
		first := x.take()
		next := x.waiting()
		x.finish(first.Lease, done())
		x.wakes(next, b)
	}},
	{"ItWakesWhenATaskIsReleased", func(x *rig) {
		event, first := x.started(delivery("a"))
		next := x.waiting()
		x.finish(first.Lease, release())
		x.wakes(next, event)
	}},
	{"ItEndsWithItsContext", func(x *rig) {
		ctx, cancel := context.WithCancel(x.ctx)
		failed := make(chan error, 1)
		go func() {
			_, err := x.store.Take(ctx, dedup.Want{Tasks: 1, Bytes: 1, Lease: minute})
			failed <- err
		}()
		cancel()
		x.fails(<-failed, context.Canceled, "Take after its context ended")
		_, err := x.store.Take(ctx, dedup.Want{Tasks: 1, Bytes: 1, Lease: minute})
		x.fails(err, context.Canceled, "Take with a cancelled context")
		x.accept(delivery("a")) // the Takes that ended took nothing
		x.attempt(x.take(), 1)
	}},
	{"ArgumentsThatAreNotPositiveAreInvalid", func(x *rig) {
		x.accept(delivery("a"))
		for _, bad := range []int{0, -1} {
			_, err := x.store.Take(x.ctx, dedup.Want{Tasks: bad, Bytes: 1, Lease: minute})
			x.fails(err, dedup.ErrInvalid, "Take of no tasks")
			_, err = x.store.Take(x.ctx, dedup.Want{Tasks: 1, Bytes: 1, Lease: time.Duration(bad)})
			x.fails(err, dedup.ErrInvalid, "Take without a lease")
		}
		lease := x.take().Lease
		x.fails(x.store.Extend(x.ctx, lease, 0), dedup.ErrInvalid, "Extend by zero")
	}},
	{"ARetryWaitsAndAPostponementIsCounted", func(x *rig) {
		event := x.finished(delivery("a"), retry(hour))
		task := x.get(event).Tasks[0]
		if task.State != dedup.Pending || task.Attempt != 1 || task.Reason != "failed" ||
			task.Err != "connection refused" || task.Postponed != 0 {
			x.Errorf("task that waits: %+v", task)
		}
		x.idle("the task waits for an hour")
		x.advance(hour - time.Millisecond)
		x.idle("the task waits for another millisecond")
		x.advance(time.Millisecond)
		w := x.takeOf(event)
		x.attempt(w, 2)
		x.finish(w.Lease, dedup.Result{Kind: dedup.ResultRetry, Postponed: true})
		w = x.takeOf(event)
		if w.Task().Attempt != 3 || w.Task().Postponed != 1 {
			x.Errorf("task after a postponement: %+v", w.Task())
		}
		x.finish(w.Lease, done())
		if task := x.get(event).Tasks[0]; task.State != dedup.Done || task.Err != "" || task.Attempt != 3 {
			x.Errorf("done task: %+v", task)
		}
	}},
	{"TheAttemptOfAReleasedTaskDoesNotCount", func(x *rig) {
		event := x.accept(delivery("a"))
		for range 3 {
			w := x.takeOf(event)
			x.attempt(w, 1)
			x.finish(w.Lease, release())
			x.lost(w.Lease, "the task was released")
		}
	}},
	{"ADeadTaskIsNotTakenAgain", func(x *rig) {
		event, w := x.started(delivery("a"))
		x.finish(w.Lease, dead())
		x.lost(w.Lease, "the task is dead")
		x.idle("the task is dead")
		x.advance(30 * day)
		x.idle("the task died a long time ago")
		x.state(event, 0, dedup.Dead)
	}},
	{"AnUnknownKindOfResultIsInvalid", func(x *rig) {
		event, w := x.started(delivery("a"))
		before := x.get(event)
		x.fails(x.store.Finish(x.ctx, w.Lease, dedup.Result{}), dedup.ErrInvalid, "Finish without a kind")
		x.same(x.get(event), before, "record")
		x.finish(w.Lease, done())
	}},
}

// precious is an event with two tasks, and with maps and bodies that can be changed.
func precious(id string) dedup.Claim {
	c := handled(id, "one", "two")
	c.Payload.Header = http.Header{"Content-Type": {"text/plain"}}
	c.Payload.Attributes = map[string]string{"source": "here"}
	c.Response = dedup.Response{Status: 202, Header: http.Header{"Location": {"/a"}}, Body: []byte("kept")}
	return c
}

var handlerChecks = []check{
	{"ATaskIsLeftForACallerThatHasItsHandler", func(x *rig) {
		x.accept(handled("a", "ship", "bill"))
		x.runsFor("ship", "ship")
		x.idleFor("the task of bill is not for it", "ship")
		x.idleFor("it has other handlers", "shi", "shipp", "")
		x.runsFor("bill", "other", "bill")
	}},
	{"ACallerWithoutHandlersGetsNone", func(x *rig) {
		x.accept(delivery("a"))
		x.idleFor("it has no handlers")
		x.take()
	}},
	{"TheLongestDueOfAllItsHandlersComesFirst", func(x *rig) {
		for _, h := range []string{"bill", "ship", "other", "bill", "ship"} {
			x.accept(handled("of "+h+x.clock.Now().String(), h))
			x.advance(time.Second)
		}
		for _, want := range []string{"bill", "ship", "bill", "ship"} {
			x.runsFor(want, "ship", "bill")
		}
		x.idleFor("the last task is of another handler", "ship", "bill")
	}},
	{"AWaitingTakeGetsTheTaskOfItsHandler", func(x *rig) {
		got := make(chan dedup.Work, 1)
		ctx, cancel := context.WithTimeout(x.ctx, patience)
		defer cancel()
		go func() {
			defer close(got)
			if ws, err := x.store.Take(ctx, wanting("ship")); err == nil {
				got <- ws[0]
			}
		}()
		x.accept(handled("a", "bill"))
		event := x.accept(handled("b", "ship"))
		if w := <-got; w.Record.Event != event {
			x.Errorf("the waiting Take returned %s, want event %s", text(w.Record), event)
		}
		x.runsFor("bill", "bill")
	}},
	{"AnInterruptedTaskIsLeftForItsHandler", func(x *rig) {
		x.accept(handled("a", "bill"))
		x.take()
		x.advance(minute)
		x.idleFor("the task is of another handler", "ship")
		x.runsFor("bill", "bill")
	}},
	{"ATaskOfAMissingHandlerIsForAnyCallerAfterAWhile", func(x *rig) {
		x.accept(handled("a", "gone"))
		x.idleFor("its handler is missing for a moment only", "ship")
		x.advance(hour - minute)
		x.idleFor("its handler is missing for less than an hour", "ship")
		x.advance(minute)
		x.runsFor("gone", "ship")
	}},
	{"ATaskOfAMissingHandlerIsForAnyCallerAtOnceIfWanted", func(x *rig) {
		x.accept(handled("a", "gone"))
		ws, err := x.store.Take(x.ctx, dedup.Want{Tasks: 1, Lease: minute, Handlers: []string{"ship"}})
		if err != nil || len(ws) != 1 || ws[0].Task().Handler != "gone" {
			x.Errorf("%d tasks, %v", len(ws), err)
		}
	}},
	{"AHandlerThatTheProcessHasIsNotMissing", func(x *rig) {
		x.idleFor("there are no tasks", "ship", "bill")
		x.accept(handled("a", "bill"))
		for range 3 {
			x.advance(hour)
			x.idleFor("another caller of the process has its handler", "ship")
		}
		x.runsFor("bill", "bill")
	}},
}

// wanting is a Want of one task. Handlers are missing after an hour.
func wanting(handlers ...string) dedup.Want {
	return dedup.Want{
		Tasks: 1, Bytes: 1 << 30, Lease: minute, Handlers: append([]string{}, handlers...), OrphanAfter: hour,
	}
}
