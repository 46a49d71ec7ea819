package badgerstore

import (
	"context"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/eyelet-dev/eyelet/dedup"
	"github.com/eyelet-dev/eyelet/dedup/badgerstore/internal/record"
	"github.com/eyelet-dev/eyelet/dedup/internal/taskqueue"
)

type takeOp struct {
	ticket
	want  dedup.Want
	work  []dedup.Work
	rows  []*row
	was   []*row       // the rows before, some of them changed earlier in the batch
	state atomic.Int32 // takeWaits, takeServed or takeGone
}

// The states of a takeOp. Its caller leaves with takeGone, and is answered if it was served then.
const (
	takeWaits = iota
	takeServed
	takeGone
)

// wait returns true if the Take was answered, and false if ctx ended or the store failed before. A
// Take that is being served when ctx ends is answered, because it has the work already.
func (o *takeOp) wait(ctx context.Context, failed <-chan struct{}) bool {
	select {
	case <-o.done:
		return true
	case <-ctx.Done():
	case <-failed:
	}
	if o.state.Swap(takeGone) == takeWaits {
		return false
	}
	select {
	case <-o.done: // without work if nothing was written: it is not parked again
		return true
	case <-failed: // its batch hangs
		return false
	}
}

// park adds a Take that got nothing to those that wait, or answers it if its caller has left.
func (o *takeOp) park(waiting []*takeOp) []*takeOp {
	if o.state.CompareAndSwap(takeServed, takeWaits) {
		return append(waiting, o)
	}
	o.answer(nil)
	return waiting
}

// apply is not called: the committer serves Takes after all other operations of a batch.
func (o *takeOp) apply(*batch) error { return nil }

func (b *batch) anyDue(o *takeOp) bool {
	next, ok := b.c.tasks.NextDue(b.now, o.wanted(b.c.opened))
	return ok && !next.After(b.now)
}

// startsMost bounds the tasks that one batch starts.
const startsMost = 64 * batchOps

// serve assigns due tasks to a Take. It reports whether there were any.
func (b *batch) serve(o *takeOp) bool {
	for len(o.work) == 0 {
		want := o.wanted(b.c.opened)
		want.Tasks = min(want.Tasks, startsMost-b.started)
		items := b.c.tasks.Take(b.now, want, b.now.Add(o.want.Lease), b.startsWith)
		if len(items) == 0 {
			return false
		}
		o.work, o.rows = slices.Grow(o.work, len(items)), slices.Grow(o.rows, len(items))
		o.was = slices.Grow(o.was, len(items))
		for _, it := range items {
			if err := b.start(o, it); err != nil {
				b.c.damage(err)
				b.c.unqueue(it)
			}
		}
	}
	return true
}

// readsMost bounds the events that a batch reads to start their tasks, beside the first of each
// Take: claims wait for that.
const readsMost = 64

// startsWith reports whether the batch starts a task: its event is in memory and not too large with
// the others, or one of a few.
func (b *batch) startsWith(it taskqueue.Item[record.Hash]) bool {
	for _, p := range [...]record.Place{{Hash: it.Event}, {Hash: it.Event, Older: it.Seq}} {
		r := b.rows[p]
		if r == nil {
			r = b.c.cache.rows[p]
		}
		if r != nil && r.rec.Seq == it.Seq {
			b.states += r.stateSize()
			return b.states <= batchBytes
		}
	}
	b.reads++
	return b.reads <= readsMost
}

// start starts a task unless this batch, of which the task queue does not know yet, has changed it.
func (b *batch) start(o *takeOp, it taskqueue.Item[record.Hash]) error {
	r, err := b.find(it.Event, it.Seq)
	if err != nil {
		return err
	}
	task := it.Task
	if r == nil || task >= len(r.rec.Tasks) || r.rec.Hold || !ready(r.rec.Tasks[task], b.now) {
		b.passed = append(b.passed, it)
		return nil
	}
	if t := r.rec.Tasks[task]; t.State == dedup.Running && b.c.grace.spares(t.Until, b.now) {
		b.c.tasks.Spare(it.Seq, task, b.c.grace.until)
		return nil
	}
	b.c.grace.observe(o.want.Lease)
	next := r
	if !r.dirty || !r.fresh { // else nothing but this batch knows it, and no operation is left to fail
		next = r.edit()
	}
	next.rec.Recover(task, b.now, 0)
	b.token++
	l := next.rec.Start(task, b.token, b.now, o.want.Lease)
	rec, err := next.hand()
	if err != nil {
		return err
	}
	b.put(next)
	o.work = append(o.work, dedup.Work{Record: rec, Lease: l})
	o.rows, o.was = append(o.rows, next), append(o.was, r)
	b.started++
	return nil
}

// wanted returns the tasks that a Take may get from a store that was opened at a time.
func (o *takeOp) wanted(opened time.Time) taskqueue.Want {
	w := &o.want
	orphans := opened.Add(w.OrphanAfter)
	return taskqueue.Want{Tasks: w.Tasks, Bytes: w.Bytes, Handlers: w.Handlers, Orphans: orphans, Most: w.Most}
}

func ready(t dedup.Task, now time.Time) bool {
	switch t.State {
	case dedup.Pending:
		return !t.Due.After(now)
	case dedup.Running:
		return !t.Until.After(now)
	}
	return false
}

type extendOp struct {
	ticket
	lease dedup.Lease
	by    time.Duration
}

func (o *extendOp) apply(b *batch) error {
	return b.leased(o.lease, func(r *row) error { return r.rec.Extend(o.lease, o.by, b.now) })
}

type finishOp struct {
	ticket
	lease  dedup.Lease
	result dedup.Result
}

func (o *finishOp) apply(b *batch) error {
	return b.leased(o.lease, func(r *row) error {
		b.c.noting = rowNotes{b, r}
		return r.rec.Finish(&b.c.noting, o.lease, o.result, b.now)
	})
}

// leased changes the record of a lease.
func (b *batch) leased(l dedup.Lease, change func(*row) error) error {
	r, err := b.event(l.Event)
	if err != nil {
		return err
	}
	if r == nil || r.rec.Disposable(b.now) || !r.rec.Holds(l) {
		return dedup.ErrLeaseLost
	}
	if b.disk.frozen() {
		return b.disk.err()
	}
	next := r.edit()
	if err := change(next); err != nil {
		return err
	}
	b.putTrimmed(next)
	return nil
}

// editOp changes the tasks of an event on request of an operator.
type editOp struct {
	ticket
	event string
	edit  func(r *dedup.Record, now time.Time) error
	row   *row
	rec   dedup.Record
}

func (o *editOp) apply(b *batch) error {
	r, err := b.event(o.event)
	if err != nil {
		return err
	}
	if r == nil || r.rec.Disposable(b.now) {
		return fmt.Errorf("event %q: %w", o.event, dedup.ErrNotFound)
	}
	if b.disk.frozen() {
		return b.disk.err()
	}
	next := r.edit()
	if err := o.edit(&next.rec, b.now); err != nil {
		return fmt.Errorf("event %q: %w", o.event, err)
	}
	if next.rec.Open() && next.event.Kind == record.BodyLost {
		return fmt.Errorf("event %q: %w: it was damaged", o.event, dedup.ErrNoPayload)
	}
	if o.rec, err = next.record(); err != nil {
		return err
	}
	o.row = next
	b.put(next)
	return nil
}

// purgeOp deletes an event and forgets its key.
type purgeOp struct {
	ticket
	event string
}

func (o *purgeOp) apply(b *batch) error {
	r, err := b.event(o.event)
	switch {
	case err != nil:
		return err
	case r == nil || r.rec.Disposable(b.now):
		return fmt.Errorf("event %q: %w", o.event, dedup.ErrNotFound)
	case r.rec.Open():
		return fmt.Errorf("event %q: %w", o.event, dedup.ErrOpen)
	case b.disk.frozen():
		return b.disk.err()
	}
	b.forget(r, func(dedup.Trace) dedup.Trace { return dedup.Trace{} })
	return b.remove(r)
}
