package deduptest

import (
	"github.com/eyelet-dev/eyelet/dedup"
)

var reopenChecks = []check{
	{"DeadTasksRunAgainWithAttemptsFromZero", reopenDead},
	{"ItLeavesOtherTasksUnchanged", reopenOnlyDead},
	{"ItNeverChangesTheResponse", reopenAnswer},
	{"ItAddsTasksOfNewHandlersOnly", reopenAdds},
	{"AnEventWithoutHandlersCanGetOne", reopenUnhandled},
	{"NothingToReopenIsErrNotDead", reopenNothing},
	{"AnUnknownEventIsErrNotFound", reopenUnknown},
	{"ATaskWithoutAHandlerIsErrInvalidAndNothingIsReopened", reopenNobody},
	{"ADroppedBodyIsErrNoPayload", reopenDropped},
	{"ABodyIsNotDroppedWhileATaskIsDead", reopenKeepsBody},
	{"TheBodyIsDroppedOnRequestOnly", reopenBodies},
	{"OfConcurrentReopensOneChangesTheEvent", reopenRace},
}

func reopenDead(x *rig) {
	event := x.accept(delivery("a"))
	x.finish(x.take().Lease, retry(0))
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
}

func reopenOnlyDead(x *rig) {
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
}

func reopenAnswer(x *rig) {
	event := x.accept(delivery("a"))
	x.finish(x.take().Lease, dead())
	x.reopenEvent(event, dedup.NewTask{Handler: "bill"})
	w := x.take()
	r := done()
	x.finish(w.Lease, r)
	x.finish(x.take().Lease, done())
	if got := x.want(dedup.Known, delivery("a")).Record.Response; got.Status != 202 || string(got.Body) != "accepted" {
		x.Errorf("response %+v", got)
	}
}

func reopenAdds(x *rig) {
	event := x.accept(delivery("a"))
	x.finish(x.take().Lease, done())
	added := []dedup.NewTask{{Handler: "ship"}, {Handler: "bill", Lane: "l"}, {Handler: "bill"}}
	r := x.reopenEvent(event, added...)
	if len(r.Tasks) != 2 || r.Tasks[0].State != dedup.Done || r.Tasks[1].Handler != "bill" || r.Tasks[1].Lane != "l" {
		x.Errorf("tasks: %+v", r.Tasks)
	}
	if w := x.takeOf(event); w.Task().Handler != "bill" || w.Lease.Task != 1 {
		x.Errorf("lease %+v", w.Lease)
	}
	x.idle("ship is done, bill is running")
}

func reopenUnhandled(x *rig) {
	c := delivery("a")
	c.Tasks, c.DropBody = nil, true
	event := x.accept(c)
	x.reopenEvent(event, dedup.NewTask{Handler: "ship"})
	w := x.takeOf(event)
	equal(x, "body", string(w.Record.Payload.Body), "body of a")
	x.finish(w.Lease, done())
}

func reopenNothing(x *rig) {
	event := x.accept(delivery("a"))
	check := func() {
		x.Helper()
		before := x.get(event)
		_, err := x.store.Reopen(x.ctx, event)
		x.fails(err, dedup.ErrNotDead, "Reopen")
		_, err = x.store.Reopen(x.ctx, event, dedup.NewTask{Handler: "ship"})
		x.fails(err, dedup.ErrNotDead, "Reopen with the handler it has")
		x.same(x.get(event), before, "record")
	}
	check()
	w := x.take()
	check()
	x.finish(w.Lease, done())
	check()
}

func reopenUnknown(x *rig) {
	_, err := x.store.Reopen(x.ctx, "unknown")
	x.fails(err, dedup.ErrNotFound, "Reopen of an unknown event")
	_, err = x.store.Reopen(x.ctx, "", dedup.NewTask{Handler: "ship"})
	x.fails(err, dedup.ErrNotFound, "Reopen of no event")
	_, err = x.store.Get(x.ctx, "unknown")
	x.fails(err, dedup.ErrNotFound, "Get of an unknown event")
}

func reopenDropped(x *rig) {
	c := delivery("a")
	c.DropBody = true
	event := x.accept(c)
	w := x.take()
	equal(x, "body of the work", string(w.Record.Payload.Body), "body of a")
	x.finish(w.Lease, done())
	r := x.get(event)
	if len(r.Payload.Body) != 0 || r.Payload.Header.Get("Content-Type") == "" {
		x.Errorf("payload after the drop: %+v", r.Payload)
	}
	_, err := x.store.Reopen(x.ctx, event, dedup.NewTask{Handler: "bill"})
	x.fails(err, dedup.ErrNoPayload, "Reopen without a body")
	_, err = x.store.Reopen(x.ctx, event)
	x.fails(err, dedup.ErrNotDead, "Reopen with nothing dead")
	x.same(x.get(event), r, "record")
}

func reopenKeepsBody(x *rig) {
	c := delivery("a")
	c.DropBody = true
	c.Tasks = append(c.Tasks, dedup.NewTask{Handler: "bill"})
	event := x.accept(c)
	x.finish(x.take().Lease, done())
	x.finish(x.take().Lease, dead())
	equal(x, "body of a dead letter", string(x.get(event).Payload.Body), "body of a")
	x.reopenEvent(event)
	w := x.takeOf(event)
	equal(x, "body of the work", string(w.Record.Payload.Body), "body of a")
	x.finish(w.Lease, done())
	equal(x, "body after all is done", string(x.get(event).Payload.Body), "")
}

func reopenBodies(x *rig) {
	kept := x.accept(delivery("a"))
	x.finish(x.take().Lease, done())
	equal(x, "body", string(x.get(kept).Payload.Body), "body of a")
	c := held("b")
	c.DropBody = true
	d := x.want(dedup.New, c)
	x.finish(d.Lease, release())
	equal(x, "body of a released claim", string(x.get(d.Record.Event).Payload.Body), "body of b")
	x.finish(x.want(dedup.New, c).Lease, answer(200, "ok"))
	equal(x, "body of a done claim", string(x.get(d.Record.Event).Payload.Body), "")
}

func reopenRace(x *rig) {
	event := x.accept(delivery("a"))
	x.finish(x.take().Lease, dead())
	errs := together(8, func(int) error {
		_, err := x.store.Reopen(x.ctx, event)
		return err
	})
	good := 0
	for _, err := range errs {
		if err == nil {
			good++
			continue
		}
		x.fails(err, dedup.ErrNotDead, "the other Reopens")
	}
	equal(x, "effective Reopens", good, 1)
	x.take()
	x.idle("the reopened task is running")
}

func reopenNobody(x *rig) {
	event := x.accept(delivery("a"))
	x.finish(x.take().Lease, dead())
	before := x.get(event)
	_, err := x.store.Reopen(x.ctx, event, dedup.NewTask{Handler: "bill"}, dedup.NewTask{Lane: "l"})
	x.fails(err, dedup.ErrInvalid, "Reopen with a task without a handler")
	x.same(x.get(event), before, "record")
}
