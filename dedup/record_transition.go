package dedup

import (
	"fmt"
	"slices"
	"time"
)

// Start makes task i running under a new token and counts the attempt. A held claim whose lease
// ended without an outcome was interrupted.
func (r *Record) Start(i int, token uint64, now time.Time, lease time.Duration) Lease {
	t := &r.Tasks[i]
	if before := *t; t.State == Running {
		before.interrupt(before.Until)
		t.History = before.History
	}
	t.State, t.Token, t.Until, t.Started = Running, token, now.Add(lease), now
	t.Attempt++
	r.settle(now)
	return Lease{Event: r.Event, Task: i, Token: token, Until: t.Until}
}

// Holds reports whether the lease is the newest of its task and the task still runs.
func (r *Record) Holds(l Lease) bool {
	return l.Event == r.Event && l.Task >= 0 && l.Task < len(r.Tasks) &&
		r.Tasks[l.Task].Token == l.Token && r.Tasks[l.Task].State == Running
}

// Extend makes the lease end d from now. It returns ErrLeaseLost, and changes nothing, unless
// the record Holds the lease.
func (r *Record) Extend(l Lease, d time.Duration, now time.Time) error {
	if !r.Holds(l) {
		return ErrLeaseLost
	}
	r.Tasks[l.Task].Until = now.Add(d)
	return nil
}

// Finish applies the result of leased work. It changes nothing and returns ErrLeaseLost unless
// the record Holds the lease, and ErrInvalid for an unknown kind of result. A held claim that
// is retried is released: only the next delivery runs it again. A task with a version that is Done
// moves its fence, which is in a note, or becomes stale if it is older.
func (r *Record) Finish(notes Notes, l Lease, res Result, now time.Time) error {
	if !r.Holds(l) {
		return ErrLeaseLost
	}
	if res.Kind < ResultDone || res.Kind > ResultRelease {
		return fmt.Errorf("%w: kind %d of result", ErrInvalid, res.Kind)
	}
	if res.Kind == ResultDone {
		var err error
		if res, err = r.fenced(notes, l.Task, res); err != nil {
			return err
		}
	}
	t := &r.Tasks[l.Task]
	t.Ended, t.Reason, t.Err, t.Until = now, res.Reason, res.Err, time.Time{}
	switch res.Kind {
	case ResultDone:
		t.State = Done
	case ResultDead:
		t.State = Dead
	case ResultRetry:
		t.State, t.Due = Pending, now.Add(max(0, res.After))
		if res.Postponed {
			t.Postponed++
		}
	case ResultRelease:
		t.State, t.Due = Pending, now
		if !r.Hold {
			t.Attempt--
		}
	}
	if res.Kind == ResultDone && res.Reply != "" || res.Kind == ResultRetry || res.Kind == ResultDead ||
		res.Kind == ResultRelease && r.Hold {
		t.note(res.Reply)
	}
	if res.Response.Status != 0 && !t.Open() {
		r.Response = res.Response
	}
	r.settle(now)
	return nil
}

// Recover makes a running task i pending again after its process died or its lease expired. The
// attempt counts, and the task is due after wait. A held claim is freed.
func (r *Record) Recover(i int, now time.Time, wait time.Duration) {
	t := &r.Tasks[i]
	if t.State != Running {
		return
	}
	freed := now
	if r.Hold && t.Until.Before(now) {
		freed = t.Until // as Ends counts, however late the store notices
	}
	t.interrupt(now)
	t.Due, t.Until = now.Add(wait), time.Time{}
	r.settle(freed)
}

// interrupt ends a running attempt without an outcome.
func (t *Task) interrupt(now time.Time) {
	t.State, t.Ended = Pending, now
	t.Reason, t.Err = ReasonInterrupted, "the attempt was interrupted: its process ended or its lease ran out"
	t.note("")
}

// Reopen makes dead tasks pending, resets their attempts, keeps their history, and adds tasks of
// handlers that the record does not have. It returns ErrNotDead if that changes nothing or the
// claim is held or released, ErrNoPayload if the body was dropped, and ErrInvalid for a task
// without a handler. An error leaves the record unchanged.
func (r *Record) Reopen(tasks []NewTask, now time.Time) error {
	for _, n := range tasks {
		if n.Handler == "" {
			return fmt.Errorf("%w: task without a handler", ErrInvalid)
		}
	}
	if r.Hold && r.Open() || !r.reopens(tasks) {
		return ErrNotDead
	}
	if r.Dropped() {
		return ErrNoPayload
	}
	for i := range r.Tasks {
		if t := &r.Tasks[i]; t.State == Dead {
			t.again(now)
		}
	}
	for _, n := range tasks {
		if !r.has(n.Handler) {
			r.Tasks = append(r.Tasks, n.task(now))
		}
	}
	r.Hold = false
	r.settle(now)
	return nil
}

// Rerun makes the tasks of the handlers pending, or all tasks without any handlers, whether they
// are done or dead. It resets their attempts and keeps their history. See [Store.Rerun] for its
// errors, which leave the record unchanged.
func (r *Record) Rerun(again Rerun, now time.Time) error {
	handlers := again.Handlers
	unknown := func(handler string) bool { return !r.has(handler) }
	opens := func(t Task) bool { return again.selects(&t) && t.Open() }
	switch {
	case r.Quarantined():
		return ErrQuarantined
	case len(r.Tasks) == 0 || slices.ContainsFunc(handlers, unknown):
		return ErrNoTask
	case slices.ContainsFunc(r.Tasks, opens):
		return ErrOpen
	case r.Dropped():
		return ErrNoPayload
	}
	for i := range r.Tasks {
		if again.selects(&r.Tasks[i]) {
			r.Tasks[i].again(now)
			r.Tasks[i].Unfenced = r.Tasks[i].Unfenced || again.Force
		}
	}
	r.Hold = false
	r.settle(now)
	return nil
}

// Rerun says what [Store.Rerun] runs again.
type Rerun struct {
	// Handlers are those whose tasks run again. Defaults to all of the event.
	Handlers []string
	// Force runs tasks that are stale, which else end as stale again. It never moves a fence.
	Force bool
}

func (o *Rerun) selects(t *Task) bool {
	return len(o.Handlers) == 0 || slices.Contains(o.Handlers, t.Handler)
}

// RunNow makes the pending tasks that wait for a later time due at now. It returns
// ErrNotWaiting, and changes nothing, if there is none or the claim is held or released: that
// waits for its next delivery, not for a time.
func (r *Record) RunNow(now time.Time) error {
	waits := func(t Task) bool { return t.State == Pending && t.Due.After(now) }
	if r.Hold || !slices.ContainsFunc(r.Tasks, waits) {
		return ErrNotWaiting
	}
	for i := range r.Tasks {
		if waits(r.Tasks[i]) {
			r.Tasks[i].Due = now
		}
	}
	return nil
}

// reopens reports whether a task is dead or has a handler that the record does not have.
func (r *Record) reopens(tasks []NewTask) bool {
	return slices.ContainsFunc(r.Tasks, func(t Task) bool { return t.State == Dead }) ||
		slices.ContainsFunc(tasks, func(n NewTask) bool { return !r.has(n.Handler) })
}

func (r *Record) has(handler string) bool {
	return slices.ContainsFunc(r.Tasks, func(t Task) bool { return t.Handler == handler })
}

// settle updates Finished, Expires and the body after a change of the tasks. The window starts
// with the last outcome and never runs while tasks are open. A freed held claim has its window
// too, so an event that its producer abandoned is forgotten in time.
func (r *Record) settle(now time.Time) {
	if r.Open() && !r.freed() {
		r.Finished, r.Expires = time.Time{}, time.Time{}
		return
	}
	if r.Finished.IsZero() {
		r.Finished, r.Expires = now, now.Add(r.Window)
	}
	if r.Dropped() {
		r.Payload.Body = nil
	}
}

// supersede marks the record as an older one of its series. The window then ends when it would have
// ended, which may be at once.
func (r *Record) supersede() { r.Newest = false }
