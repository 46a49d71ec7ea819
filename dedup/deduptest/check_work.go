package deduptest

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"github.com/eyelet-dev/eyelet/dedup"
)

var takeChecks = []check{
	{"ATaskIsTakenByOneCallerUntilItsLeaseEnds", func(x *rig) {
		event, w := x.started(delivery("a"))
		equal(x, "body", string(w.Record.Payload.Body), "body of a")
		x.attempt(w, 1)
		x.extend(w.Lease, hour)
		x.advance(hour - time.Millisecond)
		x.idle("the only task is running")
		x.advance(time.Millisecond)
		again := x.takeOf(event)
		x.attempt(again, 2)
		x.lost(w.Lease, "the task was taken again")
		x.finish(again.Lease, done())
		x.idle("the only task is done")
	}},
	{"TasksOfALaneRunOneAtATimeInAcceptedOrder", func(x *rig) {
		for _, event := range x.acceptLane(4, "l") {
			w := x.takeOf(event)
			x.idle("a task of the lane is running")
			x.finish(w.Lease, done())
		}
	}},
	{"ATaskIsLeftForACallerThatHasItsHandlerOrForAnyAfterAWhile", func(x *rig) {
		x.accept(handled("a", "ship", "bill"))
		x.runsFor("ship", "ship")
		x.advance(hour - minute)
		x.idleFor("its handler is missing for less than an hour", "ship")
		x.advance(minute)
		x.runsFor("bill", "ship")
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
	{"AHandlerThatTheProcessHasIsNotMissing", func(x *rig) {
		x.accept(handled("first", "bill"))
		x.runsFor("bill", "ship", "bill")
		x.accept(handled("a", "bill"))
		for range 3 {
			x.advance(hour)
			x.idleFor("another caller of the process has its handler", "ship")
		}
		x.runsFor("bill", "bill")
	}},
	{"ARetryLetsLaterTasksGoFirstWhereTheLaneYields", func(x *rig) {
		const lane = dedup.LaneYields + "l"
		a, b, c := x.accept(laned("a", lane)), x.accept(laned("b", lane)), x.accept(laned("c", lane))
		x.run(retry(minute/2), a)
		x.run(retry(minute/4), b)
		w := x.takeOf(c)
		x.advance(minute / 2)
		x.idle("a task of the lane is running")
		x.finish(w.Lease, retry(minute))
		x.run(done(), b) // due first
		x.run(done(), a)
		x.advance(minute)
		x.takeOf(c)
	}},
	{"LanesDoNotMeetByMovingBytesBetweenParts", func(x *rig) {
		c := delivery("a")
		c.Tasks = []dedup.NewTask{
			{Handler: "ab", Lane: "c"}, {Handler: "a", Lane: "bc"},
			{Handler: "abc", Lane: "\x00"}, {Handler: "abc\x00"},
		}
		x.accept(c)
		for range c.Tasks {
			x.take()
		}
	}},
}

var finishChecks = []check{
	{"AStaleLeaseIsLostAfterEveryWayTheTaskCanGoOn", func(x *rig) {
		event := x.accept(delivery("a"))
		for _, r := range []dedup.Result{retry(0), release(), {Kind: dedup.ResultRetry, Postponed: true}, dead()} {
			w := x.takeOf(event)
			x.finish(w.Lease, r)
			x.lost(w.Lease, "the task was finished")
		}
	}},
	{"ALeaseIsForItsOwnTask", func(x *rig) {
		x.accept(handled("a", "one", "two"))
		first, second := x.take(), x.take()
		crossed := first.Lease
		crossed.Task = second.Lease.Task
		x.lost(crossed, "the token is of the other task")
		x.finish(first.Lease, done())
		x.finish(second.Lease, dead())
	}},
	{"ARefusedResultAffectsNoOther", func(x *rig) {
		_, first := x.started(delivery("a"))
		stale, lost := x.started(delivery("b"))
		x.finish(lost.Lease, retry(hour))
		before := x.get(stale)
		_, third := x.started(delivery("c"))
		_, last := x.started(delivery("d"))
		x.finishMany([]dedup.LeaseResult{
			{Lease: first.Lease, Result: done()}, {Lease: lost.Lease, Result: done()},
			{Lease: third.Lease}, {Lease: dedup.Lease{Event: "unknown"}, Result: done()},
			{Lease: last.Lease, Result: dead()},
		}, nil, dedup.ErrLeaseLost, dedup.ErrInvalid, dedup.ErrLeaseLost, nil)
		x.same(x.get(stale), before, "record after a stale result")
		x.state(first.Record.Event, 0, dedup.Done)
		x.state(third.Record.Event, 0, dedup.Running)
		x.state(last.Record.Event, 0, dedup.Dead)
	}},
	{"AFinishedHeadFreesItsLane", func(x *rig) {
		events := x.acceptLane(2, "l")
		head := x.takeOf(events[0])
		next := x.waiting()
		x.finishMany([]dedup.LeaseResult{{Lease: head.Lease, Result: done()}}, nil)
		x.wakes(next, events[1])
	}},
	{"AnyNumberOfResultsIsRecorded", func(x *rig) {
		x.finishMany(nil)
		const n, part = 1500, 500
		for from := 0; from < n; from += part {
			var claims []dedup.Claim
			for i := range part {
				claims = append(claims, delivery(fmt.Sprint("k", from+i)))
			}
			x.claims(claims...)
		}
		var all []dedup.LeaseResult
		for len(all) < n {
			for _, w := range x.takeUpTo(n-len(all), 1<<30, hour) {
				all = append(all, dedup.LeaseResult{Lease: w.Lease, Result: done()})
			}
		}
		x.finishMany(all, make([]error, n)...)
		equal(x, "done", len(x.list(dedup.Filter{States: []dedup.State{dedup.Done}})), n)
	}},
	{"ACallThatFailsFailsForEveryResult", func(x *rig) {
		_, first := x.started(delivery("a"))
		_, second := x.started(delivery("b"))
		all := []dedup.LeaseResult{{Lease: first.Lease, Result: done()}, {Lease: second.Lease, Result: done()}}
		ctx, cancel := context.WithCancel(x.ctx)
		cancel()
		for i, err := range x.store.FinishMany(ctx, all...) {
			x.fails(err, context.Canceled, fmt.Sprintf("result %d after the end of the context", i))
		}
		x.close()
		x.finishMany(all, dedup.ErrClosed, dedup.ErrClosed)
	}},
	{"ATaskThatAlwaysKillsItsProcessDoesNotUseUpTheAttemptsOfTheOthers", func(x *rig) {
		killer := x.interrupted("killer", "b", "c", "d", "e", "f")[0]
		kills, left := 1, 5
		for left > 0 {
			if w := x.suspect(); w.Record.Event == killer {
				kills++
				x.advance(minute)
			} else {
				x.attempt(w, 2)
				x.finish(w.Lease, done())
				left--
			}
			if kills > 10 {
				x.Fatalf("%d tasks still wait behind the one that was interrupted %d times", left, kills)
			}
		}
		x.attempt(x.takeOf(killer), kills+1)
	}},
	{"InterruptedTasksOfAClosedStoreRunOneAtATime", func(x *rig) {
		for i := range 3 {
			x.started(delivery(fmt.Sprint("k", i)))
		}
		x.reopen()
		x.advance(hour)
		for range 3 {
			w := x.suspect()
			x.idle("an interrupted task runs again")
			x.finish(w.Lease, done())
		}
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

// wanting is a Want of one task. Handlers are missing after an hour.
func wanting(handlers ...string) dedup.Want {
	return dedup.Want{
		Tasks: 1, Bytes: 1 << 30, Lease: minute, Handlers: append([]string{}, handlers...), OrphanAfter: hour,
	}
}
