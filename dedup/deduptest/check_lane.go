package deduptest

import (
	"fmt"
	"slices"

	"github.com/eyelet-dev/eyelet/dedup"
)

var laneChecks = []check{
	{"TasksOfALaneRunOneAtATimeInAcceptedOrder", laneOrder},
	{"OneTakeReturnsOneTaskOfALane", laneOneCall},
	{"ARetryBlocksItsLaneButNotTheOthers", laneBlocks},
	{"ARetryLetsLaterTasksGoFirstWhereTheLaneYields", laneYields},
	{"ALaneThatYieldsRunsOneAtATimeInAcceptedOrder", laneYieldsInOrder},
	{"ALostLeaseBlocksItsLaneUntilItIsTakenAgain", laneLost},
	{"ADeadTaskUnblocksItsLane", laneDead},
	{"LanesOfDifferentHandlersAndEndpointsAreDifferent", laneScope},
	{"LanesDoNotMeetByMovingBytesBetweenParts", laneNames},
	{"AReopenedTaskWaitsForTheRunningOneAndThenGoesFirst", laneReopen},
	{"AReopenedTaskRunsBeforeALaterRetriedOne", laneReopenRetry},
	{"SeveralReopenedTasksKeepTheirOrderBehindARunningOne", laneReopenMany},
}

func laneOrder(x *rig) {
	var events []string
	for i := range 5 {
		events = append(events, x.accept(laned(fmt.Sprint("k", i), "l")))
	}
	for _, event := range events {
		w := x.takeOf(event)
		x.idle("a task of the lane is running")
		x.finish(w.Lease, done())
	}
}

func laneOneCall(x *rig) {
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
}

func laneBlocks(x *rig) {
	a, b, c := x.accept(laned("a", "l")), x.accept(laned("b", "l")), x.accept(laned("c", "m"))
	x.finish(x.takeOf(a).Lease, retry(hour))
	x.finish(x.takeOf(c).Lease, done())
	x.idle("the lane waits for its first task")
	x.finish(x.takeOf(x.accept(laned("d", "n"))).Lease, done())
	x.advance(hour)
	w := x.takeOf(a)
	x.idle("the lane's first task runs again")
	x.finish(w.Lease, done())
	x.takeOf(b)
}

func laneYields(x *rig) {
	const lane = dedup.LaneYields + "l"
	a, b, c := x.accept(laned("a", lane)), x.accept(laned("b", lane)), x.accept(laned("c", lane))
	x.finish(x.takeOf(a).Lease, retry(minute/2))
	x.finish(x.takeOf(b).Lease, retry(minute/4))
	w := x.takeOf(c)
	x.advance(minute / 2)
	x.idle("a task of the lane is running")
	x.finish(w.Lease, retry(minute))
	x.finish(x.takeOf(b).Lease, done()) // due first
	x.finish(x.takeOf(a).Lease, done())
	x.advance(minute)
	x.takeOf(c)
}

func laneYieldsInOrder(x *rig) {
	var events []string
	for i := range 5 {
		events = append(events, x.accept(laned(fmt.Sprint("k", i), dedup.LaneYields)))
	}
	for _, event := range events {
		w := x.takeOf(event)
		x.idle("a task of the lane is running")
		x.finish(w.Lease, done())
	}
}

func laneLost(x *rig) {
	a, b := x.accept(laned("a", "l")), x.accept(laned("b", "l"))
	x.takeOf(a)
	x.advance(hour)
	w := x.takeOf(a)
	x.idle("the lane's first task runs again")
	x.finish(w.Lease, done())
	x.takeOf(b)
}

func laneDead(x *rig) {
	a, b := x.accept(laned("a", "l")), x.accept(laned("b", "l"))
	x.finish(x.takeOf(a).Lease, dead())
	x.takeOf(b)
}

func laneScope(x *rig) {
	a := laned("a", "l")
	a.Tasks = append(a.Tasks, dedup.NewTask{Handler: "bill", Lane: "l"})
	b := laned("b", "l")
	b.Payload.Endpoint = "returns"
	x.claims(a, b)
	x.take()
	x.take()
	x.take()
	x.idle("all three tasks are running")
}

func laneNames(x *rig) {
	c := delivery("a")
	c.Tasks = []dedup.NewTask{
		{Handler: "ab", Lane: "c"}, {Handler: "a", Lane: "bc"}, {Handler: "abc", Lane: "\x00"}, {Handler: "abc\x00"},
	}
	x.accept(c)
	for range c.Tasks {
		x.take()
	}
}

func laneReopen(x *rig) {
	a, b, c := x.accept(laned("a", "l")), x.accept(laned("b", "l")), x.accept(laned("c", "l"))
	x.finish(x.takeOf(a).Lease, dead())
	w := x.takeOf(b)
	x.reopenEvent(a)
	x.idle("b runs, and a waits for it")
	x.finish(w.Lease, done())
	w = x.takeOf(a)
	x.idle("a runs, and c waits for it")
	x.finish(w.Lease, done())
	x.takeOf(c)
}

func laneReopenRetry(x *rig) {
	a, b := x.accept(laned("a", "l")), x.accept(laned("b", "l"))
	x.finish(x.takeOf(a).Lease, dead())
	w := x.takeOf(b)
	x.reopenEvent(a)
	x.finish(w.Lease, retry(0))
	w = x.takeOf(a)
	x.idle("a was accepted before b")
	x.finish(w.Lease, done())
	x.takeOf(b)
}

func laneReopenMany(x *rig) {
	var events []string
	for i := range 6 {
		events = append(events, x.accept(laned(fmt.Sprint("k", i), "l")))
	}
	for _, event := range events[:4] {
		x.finish(x.takeOf(event).Lease, dead())
	}
	w := x.takeOf(events[4])
	for _, i := range []int{2, 0, 3, 1} {
		x.reopenEvent(events[i])
	}
	x.finish(w.Lease, done())
	for _, event := range slices.Delete(events, 4, 5) {
		x.finish(x.takeOf(event).Lease, done())
	}
	x.idle("the lane is empty")
}
