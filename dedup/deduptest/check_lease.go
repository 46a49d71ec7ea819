package deduptest

import (
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
		if second.Lease.Event == first.Lease.Event || second.Lease.Token <= first.Lease.Token {
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
	{"TokensOnlyGrow", func(x *rig) {
		var last dedup.Lease
		grows := func(l dedup.Lease) {
			x.Helper()
			x.newer(l, last)
			last = l
		}
		for _, id := range []string{"a", "b", "c"} {
			_, w := x.started(delivery(id))
			grows(w.Lease)
			x.finish(w.Lease, retry(0))
			w = x.take()
			grows(w.Lease)
			x.finish(w.Lease, done())
			grows(x.want(dedup.New, held("held "+id)).Lease)
		}
	}},
}
