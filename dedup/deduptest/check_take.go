package deduptest

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/eyelet-dev/eyelet/dedup"
)

var takeChecks = []check{
	{"ItReturnsTheTaskWithItsPayloadAndCountsTheAttempt", takeGives},
	{"TheCallerOwnsTheResult", takeOwned},
	{"ATaskIsTakenOnce", takeOnce},
	{"EveryTaskOfAnEventIsTakenAndFinishedSeparately", takeEveryTask},
	{"ItReturnsAtMostN", takeN},
	{"ItReturnsPayloadsOfAtMostTheBytesButAlwaysOneTask", takeBytes},
	{"TheLongestDueComesFirst", takeOrder},
	{"ItWaitsUntilAnEventIsAccepted", takeWaitsForClaim},
	{"ItWaitsUntilARetryIsDue", takeWaitsForRetry},
	{"ItWakesForWorkThatIsDueEarlier", takeWakesEarlier},
	{"ItWakesWhenADeadTaskIsReopened", takeWakesForReopen},
	{"ItWakesWhenALeaseExpires", takeWakesForLease},
	{"ItWakesWhenALaneIsFree", takeWakesForLane},
	{"ItWakesWhenATaskIsReleased", takeWakesForRelease},
	{"ItEndsWithItsContext", takeEnds},
	{"ArgumentsThatAreNotPositiveAreInvalid", takeInvalid},
	{"ARetryWaitsAndAPostponementIsCounted", takeRetry},
	{"TheAttemptOfAReleasedTaskDoesNotCount", takeRelease},
	{"ADeadTaskIsNotTakenAgain", takeDead},
	{"AnUnknownKindOfResultIsInvalid", takeBadResult},
}

func takeGives(x *rig) {
	c := delivery("a")
	event := x.accept(c)
	w := x.take()
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
}

func takeOwned(x *rig) {
	c := delivery("a")
	c.Payload.Header = http.Header{"Content-Type": {"text/plain"}}
	c.Payload.Attributes = map[string]string{"source": "here"}
	c.Response = dedup.Response{Status: 202, Header: http.Header{"Location": {"/a"}}, Body: []byte("kept")}
	c.Tasks = []dedup.NewTask{{Handler: "one"}, {Handler: "two"}}
	event := x.accept(c)
	spoil := func(r *dedup.Record) {
		r.Payload.Header["Content-Type"][0], r.Payload.Attributes["source"] = "changed", "changed"
		r.Response.Header["Location"][0], r.Response.Body[0] = "changed", 'X'
		r.Payload.Body[0] = 'X'
	}
	first := x.take()
	spoil(&first.Record)
	second := x.take()
	x.same(x.get(event), second.Record, "the other task's record")
	p := second.Record.Payload
	if p.Header.Get("Content-Type") != "text/plain" || p.Attributes["source"] != "here" || p.Body[0] == 'X' {
		x.Errorf("payload %+v", p)
	}
	if a := second.Record.Response; a.Header.Get("Location") != "/a" || string(a.Body) != "kept" {
		x.Errorf("response %+v", a)
	}
}

func takeOnce(x *rig) {
	x.accept(delivery("a"))
	w := x.take()
	x.idle("the only task is running")
	x.finish(w.Lease, done())
	x.idle("the only task is done")
	x.advance(hour)
	x.idle("the only task was done an hour ago")
}

func takeEveryTask(x *rig) {
	c := delivery("a")
	c.Tasks = []dedup.NewTask{{Handler: "one"}, {Handler: "two"}, {Handler: "three"}}
	event := x.accept(c)
	leases := map[string]dedup.Lease{}
	for range c.Tasks {
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
}

func takeN(x *rig) {
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
}

func takeBytes(x *rig) {
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
}

func takeOrder(x *rig) {
	var events []string
	for i := range 4 {
		events = append(events, x.accept(delivery(fmt.Sprint("k", i))))
		x.advance(time.Second)
	}
	x.finish(x.takeOf(events[0]).Lease, retry(time.Second)) // due after all others
	x.advance(minute)
	for _, i := range []int{1, 2, 3, 0} {
		x.takeOf(events[i])
	}
}

func takeWaitsForClaim(x *rig) {
	next := x.waiting()
	x.wakes(next, x.accept(delivery("a")))
}

func takeWaitsForRetry(x *rig) {
	event := x.accept(delivery("a"))
	x.finish(x.take().Lease, retry(hour))
	next := x.waiting()
	x.advance(hour)
	x.wakes(next, event)
}

func takeWakesEarlier(x *rig) {
	x.accept(delivery("a"))
	x.finish(x.take().Lease, retry(2*hour))
	b := x.accept(delivery("b"))
	lease := x.takeOf(b).Lease
	next := x.waiting()
	x.finish(lease, retry(hour))
	x.advance(hour)
	x.wakes(next, b)
	next = x.waiting()
	x.wakes(next, x.accept(delivery("c")))
}

func takeWakesForReopen(x *rig) {
	event := x.accept(delivery("a"))
	x.finish(x.take().Lease, dead())
	next := x.waiting()
	x.reopenEvent(event)
	x.wakes(next, event)
}

func takeWakesForLease(x *rig) {
	event := x.accept(delivery("a"))
	first := x.take()
	next := x.waiting()
	x.advance(minute)
	w := next()
	if w.Record.Event != event || w.Task().Attempt != 2 || w.Lease.Token <= first.Lease.Token {
		x.Errorf("second lease %+v of %s", w.Lease, text(w.Record))
	}
	x.lost(first.Lease, "the task was taken again")
}

func takeWakesForLane(x *rig) {
	x.accept(laned("a", "l"))
	b := x.accept(laned("b", "l"))
	first := x.take()
	next := x.waiting()
	x.finish(first.Lease, done())
	x.wakes(next, b)
}

func takeWakesForRelease(x *rig) {
	event := x.accept(delivery("a"))
	first := x.take()
	next := x.waiting()
	x.finish(first.Lease, release())
	x.wakes(next, event)
}

func takeEnds(x *rig) {
	ctx, cancel := context.WithCancel(x.ctx)
	failed := make(chan error, 1)
	go func() {
		_, err := x.store.Take(ctx, 1, 1, minute)
		failed <- err
	}()
	cancel()
	if err := <-failed; !errors.Is(err, context.Canceled) {
		x.Errorf("Take after its context ended: %v", err)
	}
	if _, err := x.store.Take(ctx, 1, 1, minute); !errors.Is(err, context.Canceled) {
		x.Errorf("Take with a cancelled context: %v", err)
	}
	x.accept(delivery("a")) // the Takes that ended took nothing
	x.attempt(x.take(), 1)
}

func takeInvalid(x *rig) {
	x.accept(delivery("a"))
	for _, n := range []int{0, -1} {
		_, err := x.store.Take(x.ctx, n, 1, minute)
		x.fails(err, dedup.ErrInvalid, "Take of no tasks")
	}
	for _, d := range []time.Duration{0, -1} {
		_, err := x.store.Take(x.ctx, 1, 1, d)
		x.fails(err, dedup.ErrInvalid, "Take without a lease")
	}
	lease := x.take().Lease
	x.fails(x.store.Extend(x.ctx, lease, 0), dedup.ErrInvalid, "Extend by zero")
}

func takeRetry(x *rig) {
	event := x.accept(delivery("a"))
	x.finish(x.take().Lease, retry(hour))
	r := x.get(event)
	task := r.Tasks[0]
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
}

func takeRelease(x *rig) {
	event := x.accept(delivery("a"))
	for range 3 {
		w := x.takeOf(event)
		x.attempt(w, 1)
		x.finish(w.Lease, release())
		x.lost(w.Lease, "the task was released")
	}
}

func takeDead(x *rig) {
	event := x.accept(delivery("a"))
	w := x.take()
	x.finish(w.Lease, dead())
	x.lost(w.Lease, "the task is dead")
	x.idle("the task is dead")
	x.advance(30 * day)
	x.idle("the task died a long time ago")
	x.state(event, 0, dedup.Dead)
}

func takeBadResult(x *rig) {
	event := x.accept(delivery("a"))
	w := x.take()
	before := x.get(event)
	x.fails(x.store.Finish(x.ctx, w.Lease, dedup.Result{}), dedup.ErrInvalid, "Finish without a kind")
	x.same(x.get(event), before, "record")
	x.finish(w.Lease, done())
}
