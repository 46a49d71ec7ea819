package deduptest

import (
	"context"
	"fmt"
	"time"

	"github.com/eyelet-dev/eyelet/dedup"
)

var leaseChecks = []check{
	{"AFinishedTaskHasNoLease", func(x *rig) {
		_, w := x.started(delivery("a"))
		x.finish(w.Lease, done())
		x.lost(w.Lease, "the task is done")
	}},
	{"ATaskWithAnExpiredLeaseIsTakenAgain", func(x *rig) {
		event, first := x.started(delivery("a"))
		x.advance(minute - time.Millisecond)
		x.idle("the lease has a millisecond left")
		x.advance(time.Millisecond)
		second := x.takeOf(event)
		x.attempt(second, 2)
		x.lost(first.Lease, "the task was taken again")
		x.finish(second.Lease, done())
		x.state(event, 0, dedup.Done)
		x.lost(first.Lease, "the task is done")
	}},
	{"AnExpiredLeaseIsValidUntilTheTaskIsTakenAgain", func(x *rig) {
		event, w := x.started(delivery("a"))
		x.advance(hour)
		x.extend(w.Lease, minute)
		x.idle("the lease is extended")
		x.advance(hour)
		x.finish(w.Lease, done())
		x.state(event, 0, dedup.Done)
		x.idle("the task is done")
	}},
	{"AnExtendedLeaseLastsLonger", func(x *rig) {
		_, w := x.started(delivery("a"))
		for range 5 {
			x.advance(minute / 2)
			x.extend(w.Lease, minute)
		}
		x.advance(minute - time.Millisecond)
		x.idle("the lease is extended")
		x.advance(time.Millisecond)
		x.attempt(x.take(), 2)
		x.lost(w.Lease, "the task was taken again")
	}},
	{"AnExtensionCanShortenALease", func(x *rig) {
		x.accept(delivery("a"))
		w := x.takeUpTo(1, 1, hour)[0]
		x.extend(w.Lease, time.Second)
		x.advance(time.Second)
		x.take()
		x.lost(w.Lease, "the task was taken again")
	}},
	{"AStaleLeaseIsLostAfterEveryWayTheTaskCanGoOn", func(x *rig) {
		event := x.accept(delivery("a"))
		var stale []dedup.Lease
		check := func(now string) {
			x.Helper()
			for _, l := range stale {
				x.lost(l, now)
			}
		}
		for _, r := range []dedup.Result{retry(0), release(), {Kind: dedup.ResultRetry, Postponed: true}} {
			w := x.takeOf(event)
			check("a newer lease runs")
			x.finish(w.Lease, r)
			stale = append(stale, w.Lease)
			check("the task waits")
		}
		w := x.takeOf(event)
		x.finish(w.Lease, dead())
		stale = append(stale, w.Lease)
		check("the task is dead")
	}},
	{"AStaleLeaseIsLostAfterAReopen", func(x *rig) {
		event, first := x.started(delivery("a"))
		x.finish(first.Lease, dead())
		x.reopenEvent(event)
		x.lost(first.Lease, "the task was reopened")
		second := x.takeOf(event)
		x.newer(second.Lease, first.Lease)
		x.lost(first.Lease, "the reopened task runs")
		x.finish(second.Lease, done())
	}},
	{"AStaleLeaseIsLostInTheNextGeneration", func(x *rig) {
		c := windowed(held("a"), hour)
		first := x.want(dedup.New, c)
		x.finish(first.Lease, answer(200, "first"))
		x.advance(hour)
		second := x.want(dedup.New, c)
		if second.Lease.Event == first.Lease.Event || second.Lease.Token == first.Lease.Token {
			x.Errorf("second lease %+v, first %+v", second.Lease, first.Lease)
		}
		x.lost(first.Lease, "the event was accepted again after its window")
		mixed := first.Lease
		mixed.Event = second.Lease.Event
		x.lost(mixed, "the token is of the generation before")
		x.finish(second.Lease, answer(201, "second"))
		equal(x, "status", x.want(dedup.Known, c).Record.Response.Status, 201)
	}},
	{"ALeaseOfAPurgedEventIsLost", func(x *rig) {
		event, w := x.started(delivery("a"))
		x.finish(w.Lease, dead())
		x.purge(event)
		x.lost(w.Lease, "the event was purged")
		x.accept(delivery("a"))
		x.lost(w.Lease, "the event was purged and accepted again")
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
	{"ATokenIsUsedOnceAndThoseOfATaskGrow", func(x *rig) {
		used := map[uint64]bool{}
		fresh := func(l dedup.Lease) dedup.Lease {
			x.Helper()
			if used[l.Token] || l.Token == 0 {
				x.Errorf("token %d is used twice", l.Token)
			}
			used[l.Token] = true
			return l
		}
		for _, id := range []string{"a", "b", "c"} {
			_, w := x.started(delivery(id))
			first := fresh(w.Lease)
			x.finish(first, retry(0))
			w = x.take()
			x.newer(fresh(w.Lease), first)
			x.finish(w.Lease, done())
			fresh(x.want(dedup.New, held("held "+id)).Lease)
		}
	}},
}

var finishManyChecks = []check{
	{"EveryResultCountsAsWithFinish", func(x *rig) {
		event := x.accept(handled("a", "done", "dead", "waits", "released"))
		kinds := map[string]dedup.Result{"done": done(), "dead": dead(), "waits": retry(hour), "released": release()}
		var all []dedup.LeaseResult
		for range kinds {
			w := x.take()
			all = append(all, dedup.LeaseResult{Lease: w.Lease, Result: kinds[w.Task().Handler]})
		}
		x.finishMany(all, nil, nil, nil, nil)
		for i, want := range []struct {
			state   dedup.State
			attempt int
			err     string
		}{
			{dedup.Done, 1, ""}, {dedup.Dead, 1, "no more attempts"}, {dedup.Pending, 1, "connection refused"},
			{dedup.Pending, 0, ""},
		} {
			if t := x.get(event).Tasks[i]; t.State != want.state || t.Attempt != want.attempt || t.Err != want.err {
				x.Errorf("task %s: %v, attempt %d, error %q", t.Handler, t.State, t.Attempt, t.Err)
			}
		}
		w := x.take()
		equal(x, "handler", w.Task().Handler, "released")
		x.idle("the other tasks are done, dead or wait")
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
	{"OfTwoResultsOfALeaseTheFirstCounts", func(x *rig) {
		event, w := x.started(delivery("a"))
		_, other := x.started(delivery("b"))
		x.finishMany([]dedup.LeaseResult{
			{Lease: w.Lease, Result: dead()}, {Lease: other.Lease, Result: done()}, {Lease: w.Lease, Result: done()},
		}, nil, nil, dedup.ErrLeaseLost)
		x.state(event, 0, dedup.Dead)
	}},
	{"AResponseIsStored", func(x *rig) {
		d := x.want(dedup.New, held("a"))
		_, w := x.started(delivery("b"))
		x.finishMany([]dedup.LeaseResult{
			{Lease: w.Lease, Result: done()}, {Lease: d.Lease, Result: answer(201, "made")},
		}, nil, nil)
		x.responds(x.want(dedup.Known, held("a")), 201, "made")
	}},
	{"OfTwoResponsesOfOneEventTheLastOfTheCallCounts", func(x *rig) {
		for _, order := range [][2]int{{0, 1}, {1, 0}} {
			event := x.accept(handled(fmt.Sprint("k", order), "one", "two"))
			var leases [2]dedup.Lease
			for range leases {
				l := x.takeOf(event).Lease
				leases[l.Task] = l
			}
			x.finishMany([]dedup.LeaseResult{
				{Lease: leases[order[0]], Result: answer(200, "first")},
				{Lease: leases[order[1]], Result: answer(201, "last")},
			}, nil, nil)
			equal(x, "status", x.get(event).Response.Status, 201)
			equal(x, "body", string(x.get(event).Response.Body), "last")
		}
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
	{"RecordedResultsSurvive", func(x *rig) {
		results := []dedup.Result{done(), dead(), retry(hour)}
		var all []dedup.LeaseResult
		before := map[string]dedup.Record{}
		for i, r := range results {
			_, w := x.started(delivery(fmt.Sprint("k", i)))
			result := dedup.LeaseResult{Lease: w.Lease, Result: r}
			all = append(all, result, result)
		}
		x.finishMany(all, nil, dedup.ErrLeaseLost, nil, dedup.ErrLeaseLost, nil, dedup.ErrLeaseLost)
		for i := 0; i < len(all); i += 2 {
			before[all[i].Lease.Event] = x.get(all[i].Lease.Event)
		}
		x.reopen()
		for event, want := range before {
			x.same(x.get(event), want, "record after opening again")
		}
		x.finishMany(all[:1], dedup.ErrLeaseLost)
	}},
}

var suspectChecks = []check{
	{"OneInterruptedTaskRunsAtATime", func(x *rig) {
		x.interrupted("a", "b", "c", "d")
		for range 4 {
			w := x.suspect()
			x.attempt(w, 2)
			x.idle("an interrupted task runs again")
			x.finish(w.Lease, done())
		}
		x.idle("all tasks are done")
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
	{"OtherTasksRunBesideAnInterruptedOne", func(x *rig) {
		x.interrupted("a", "b")
		suspect := x.suspect()
		fresh := []string{x.accept(delivery("c")), x.accept(delivery("d")), x.accept(delivery("e"))}
		x.run(done(), fresh...)
		x.idle("the other interrupted task waits")
		x.finish(suspect.Lease, done())
		x.suspect()
	}},
	{"AnInterruptedTaskThatFailsIsAnOrdinaryOne", func(x *rig) {
		x.interrupted("a", "b")
		first := x.suspect()
		x.finish(first.Lease, retry(0))
		again := x.take()
		if again.Record.Event == first.Record.Event {
			x.suspect()
		} else {
			x.takeOf(first.Record.Event)
		}
	}},
	{"AnInterruptedTaskWhoseLeaseRunsOutAgainLetsTheNextRun", func(x *rig) {
		x.interrupted("a", "b")
		first := x.suspect()
		x.advance(minute)
		second := x.suspect()
		if second.Record.Event == first.Record.Event {
			x.Error("it runs again before the other one, which has waited for longer")
		}
		x.idle("an interrupted task runs again")
		x.finish(second.Lease, done())
		x.takeOf(first.Record.Event)
	}},
	{"AnInterruptedTaskThatHangsHoldsTheOthersBackForAWhile", func(x *rig) {
		x.interrupted("a", "b")
		hangs := x.suspect()
		x.extend(hangs.Lease, hour)
		x.advance(dedup.SuspectTime - time.Millisecond)
		x.idle("an interrupted task runs again")
		x.advance(time.Millisecond)
		x.finish(x.suspect().Lease, done())
		x.finish(hangs.Lease, done())
	}},
	{"AReopenedTaskIsAnOrdinaryOne", func(x *rig) {
		x.interrupted("a", "b")
		first := x.suspect()
		x.finish(first.Lease, dead())
		x.suspect()
		x.reopenEvent(first.Record.Event)
		x.takeOf(first.Record.Event)
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
