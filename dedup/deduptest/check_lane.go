package deduptest

import (
	"slices"

	"github.com/eyelet-dev/eyelet/dedup"
)

var laneChecks = []check{
	{"TasksOfALaneRunOneAtATimeInAcceptedOrder", func(x *rig) {
		x.runAlone("a task of the lane is running", x.acceptLane(5, "l")...)
	}},
	{"OneTakeReturnsOneTaskOfALane", func(x *rig) {
		x.claims(laned("a", "l"), laned("b", "l"), laned("c", "m"), delivery("d"))
		ids := map[string]bool{}
		for len(ids) < 3 {
			for _, w := range x.takeUpTo(10, 1<<30, minute) {
				ids[w.Record.Key.ID] = true
			}
			if ids["b"] {
				x.Fatal("b runs beside a, in one lane")
			}
		}
	}},
	{"ARetryBlocksItsLaneButNotTheOthers", func(x *rig) {
		a, b, c := x.accept(laned("a", "l")), x.accept(laned("b", "l")), x.accept(laned("c", "m"))
		x.run(retry(hour), a)
		x.run(done(), c)
		x.idle("the lane waits for its first task")
		x.run(done(), x.accept(laned("d", "n")))
		x.advance(hour)
		x.runAlone("the lane's first task runs again", a)
		x.takeOf(b)
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
	{"ALaneThatYieldsRunsOneAtATimeInAcceptedOrder", func(x *rig) {
		x.runAlone("a task of the lane is running", x.acceptLane(5, dedup.LaneYields)...)
	}},
	{"ALostLeaseBlocksItsLaneUntilItIsTakenAgain", func(x *rig) {
		a, b := x.accept(laned("a", "l")), x.accept(laned("b", "l"))
		x.takeOf(a)
		x.advance(hour)
		x.runAlone("the lane's first task runs again", a)
		x.takeOf(b)
	}},
	{"ADeadTaskUnblocksItsLane", func(x *rig) {
		a, b := x.accept(laned("a", "l")), x.accept(laned("b", "l"))
		x.run(dead(), a)
		x.takeOf(b)
	}},
	{"LanesOfDifferentHandlersAndEndpointsAreDifferent", func(x *rig) {
		a := laned("a", "l")
		a.Tasks = append(a.Tasks, dedup.NewTask{Handler: "bill", Lane: "l"})
		b := laned("b", "l")
		b.Payload.Endpoint = "returns"
		x.claims(a, b)
		for range 3 {
			x.take()
		}
		x.idle("all three tasks are running")
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
	{"AReopenedTaskWaitsForTheRunningOneAndThenGoesFirst", func(x *rig) {
		a, b, c := x.accept(laned("a", "l")), x.accept(laned("b", "l")), x.accept(laned("c", "l"))
		x.run(dead(), a)
		w := x.takeOf(b)
		x.reopenEvent(a)
		x.idle("b runs, and a waits for it")
		x.finish(w.Lease, done())
		x.runAlone("a runs, and c waits for it", a)
		x.takeOf(c)
	}},
	{"AReopenedTaskRunsBeforeALaterRetriedOne", func(x *rig) {
		a, b := x.accept(laned("a", "l")), x.accept(laned("b", "l"))
		x.run(dead(), a)
		w := x.takeOf(b)
		x.reopenEvent(a)
		x.finish(w.Lease, retry(0))
		x.runAlone("a was accepted before b", a)
		x.takeOf(b)
	}},
	{"SeveralReopenedTasksKeepTheirOrderBehindARunningOne", func(x *rig) {
		events := x.acceptLane(6, "l")
		x.run(dead(), events[:4]...)
		w := x.takeOf(events[4])
		for _, i := range []int{2, 0, 3, 1} {
			x.reopenEvent(events[i])
		}
		x.finish(w.Lease, done())
		x.run(done(), slices.Delete(events, 4, 5)...)
		x.idle("the lane is empty")
	}},
}
