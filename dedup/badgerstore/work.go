package badgerstore

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/eyelet-dev/eyelet/dedup"
	"github.com/eyelet-dev/eyelet/dedup/badgerstore/internal/record"
	"github.com/eyelet-dev/eyelet/dedup/internal/taskqueue"
)

// takeOp waits for tasks that are due.
type takeOp struct {
	ticket
	n     int
	room  int64
	lease time.Duration
	work  []dedup.Work
	rows  []*row
	state atomic.Int32 // takeWaits, takeServed or takeGone
}

// The states of a takeOp: who changes it from takeWaits first, decides.
const (
	takeWaits = iota
	takeServed
	takeGone
)

// Take implements [dedup.Store].
func (s *Store) Take(ctx context.Context, n int, bytes int64, lease time.Duration) ([]dedup.Work, error) {
	if n <= 0 || lease <= 0 {
		return nil, fmt.Errorf("%w: take of %d tasks for %v", dedup.ErrInvalid, n, lease)
	}
	if err := s.usable(); err != nil {
		return nil, err
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	o := &takeOp{n: min(n, batchOps), room: bytes, lease: lease, ticket: ticket{done: make(chan struct{}, 1)}}
	if err := s.queue.push(o); err != nil {
		return nil, err
	}
	if !o.wait(ctx, s.failed) {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		return nil, s.usable()
	}
	if o.err != nil {
		return nil, o.err
	}
	out := s.bodies(o)
	if len(out) == 0 && len(o.work) > 0 { // all of it was damaged
		return s.Take(ctx, n, bytes, lease)
	}
	return out, nil
}

// wait returns true when the Take was answered, and false when ctx ended or the store failed before. A Take that is
// being served when ctx ends is answered: the work is its own already.
func (o *takeOp) wait(ctx context.Context, failed <-chan struct{}) bool {
	select {
	case <-o.done:
		return true
	case <-ctx.Done():
	case <-failed:
	}
	for !o.state.CompareAndSwap(takeWaits, takeGone) {
		select {
		case <-o.done:
			return true
		case <-failed: // its batch hangs
			return false
		case <-time.After(time.Millisecond): // it may go back to waiting
		}
	}
	return false
}

// bodies gives the work that was taken its payloads. A task whose body cannot be read any more is a dead letter,
// which says so.
func (s *Store) bodies(o *takeOp) []dedup.Work {
	out := o.work[:0:len(o.work)]
	for i := range o.work {
		w := o.work[i]
		body, err := s.body(o.rows[i])
		if err != nil {
			s.damage(err)
			res := dedup.Result{Kind: dedup.ResultDead, Reason: reasonDamaged, Err: err.Error()}
			if !errors.As(err, new(*DamagedError)) { // the store closes, which says nothing of the task
				res = dedup.Result{Kind: dedup.ResultRelease}
			}
			_ = s.queue.push(&leaseOp{ticket: newTicket(false), lease: w.Lease, change: func(r *dedup.Record, now time.Time) error {
				return r.Finish(w.Lease, res, now)
			}}) // without it the lease runs out, and the next Take tries again
			continue
		}
		w.Record.Payload.Body = body
		out = append(out, w)
	}
	return out
}

// reasonDamaged is why a task is dead whose payload cannot be read.
const reasonDamaged = "damaged"

// apply implements op: the committer serves Takes after everything else in a batch.
func (o *takeOp) apply(*batch) error { return nil }

// serve gives due tasks to a Take. It reports whether there were any.
func (b *batch) serve(o *takeOp) bool {
	for {
		items := b.s.agenda.Take(b.now, o.n, o.room, b.now.Add(o.lease))
		if len(items) == 0 {
			return len(o.work) > 0
		}
		for _, it := range items {
			if err := b.start(o, it); err != nil {
				b.s.damage(err)
				b.s.agenda.Remove(it.Seq, it.Task)
			}
		}
		if len(o.work) > 0 {
			return true
		}
	}
}

// start makes a due task running. The agenda may be behind what this batch did to the task: then the task is
// left alone, and the agenda learns better after the commit.
func (b *batch) start(o *takeOp, it taskqueue.Item[record.Hash]) error {
	r, err := b.find(it.Event, it.Seq)
	if err != nil {
		return err
	}
	task := it.Task
	if r == nil || task >= len(r.rec.Tasks) || r.rec.Hold || !ready(r.rec.Tasks[task], b.now) {
		return nil
	}
	if t := r.rec.Tasks[task]; t.State == dedup.Running && b.s.grace.spares(t.Until, b.now) {
		b.s.agenda.Extend(it.Seq, task, b.s.grace.until)
		return nil
	}
	b.s.grace.note(o.lease)
	next := r.edit()
	next.rec.Recover(task, b.now, 0)
	b.token++
	l := next.rec.Start(task, b.token, b.now, o.lease)
	rec, err := next.record()
	if err != nil {
		return err
	}
	b.put(next)
	o.work = append(o.work, dedup.Work{Record: rec, Lease: l})
	o.rows = append(o.rows, next)
	return nil
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

// leaseOp changes the record of a lease.
type leaseOp struct {
	ticket
	lease  dedup.Lease
	change func(r *dedup.Record, now time.Time) error
}

// Extend implements [dedup.Store]. The extension is durable.
func (s *Store) Extend(ctx context.Context, l dedup.Lease, d time.Duration) error {
	if d <= 0 {
		return fmt.Errorf("%w: extension by %v", dedup.ErrInvalid, d)
	}
	return s.do(ctx, &leaseOp{ticket: newTicket(false), lease: l, change: func(r *dedup.Record, now time.Time) error {
		return r.Extend(l, d, now)
	}})
}

// Finish implements [dedup.Store]. A result that a request waits for (one with an answer, and a release) is
// committed at once, others share the next commit.
func (s *Store) Finish(ctx context.Context, l dedup.Lease, res dedup.Result) error {
	res.Response = res.Response.Clone()
	t := newTicket(res.Response.Status != 0 || res.Kind == dedup.ResultRelease)
	if t.bytes += answerSize(res.Response) + len(res.Reason) + len(res.Err); t.bytes > stateMost {
		return fmt.Errorf("%w: a result of %d bytes, at most %d", dedup.ErrTooLarge, t.bytes, stateMost)
	}
	return s.do(ctx, &leaseOp{ticket: t, lease: l, change: func(r *dedup.Record, now time.Time) error {
		return r.Finish(l, res, now)
	}})
}

// stateMost bounds in bytes what a claim or a result adds to the state of an event. Badger refuses values that do not
// fit a file of its log, and a refused write is the end of the store.
const stateMost = 8 << 20

func answerSize(a dedup.Response) int {
	n := len(a.Body)
	for k, vs := range a.Header {
		n += len(k)
		for _, v := range vs {
			n += len(v)
		}
	}
	return n
}

// apply implements op.
func (o *leaseOp) apply(b *batch) error {
	r, err := b.event(o.lease.Event)
	if err != nil {
		return err
	}
	if r == nil || r.rec.Disposable(b.now) {
		return dedup.ErrLeaseLost
	}
	if !r.rec.Holds(o.lease) {
		return dedup.ErrLeaseLost
	}
	if b.disk.frozen() {
		return b.disk.err()
	}
	next := r.edit()
	if err := o.change(&next.rec, b.now); err != nil {
		return err
	}
	b.settle(next)
	return nil
}

// settle puts a changed row, without its body where the record has no use for it any more.
func (b *batch) settle(next *row) {
	if next.rec.Dropped() && next.event.Kind != record.BodyDropped {
		b.dropChunks(next)
		next.event, next.fresh = next.event.WithoutBody(record.BodyDropped), true
		b.removed += next.event.Size
	}
	b.put(next)
}

// editOp changes the tasks of an event as a person asked for.
type editOp struct {
	ticket
	event string
	edit  func(r *dedup.Record, now time.Time) error
	row   *row
	rec   dedup.Record
}

// Reopen implements [dedup.Store].
func (s *Store) Reopen(ctx context.Context, event string, tasks ...dedup.NewTask) (dedup.Record, error) {
	return s.edit(ctx, event, func(r *dedup.Record, now time.Time) error { return r.Reopen(tasks, now) })
}

// RunNow implements [dedup.Expediter].
func (s *Store) RunNow(ctx context.Context, event string) (dedup.Record, error) {
	return s.edit(ctx, event, (*dedup.Record).RunNow)
}

func (s *Store) edit(ctx context.Context, event string, edit func(*dedup.Record, time.Time) error) (dedup.Record, error) {
	o := &editOp{ticket: newTicket(true), event: event, edit: edit}
	if err := s.do(ctx, o); err != nil {
		return dedup.Record{}, err
	}
	body, err := s.body(o.row)
	o.rec.Payload.Body = body
	return o.rec, err
}

// apply implements op.
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
	if err := b.payloadKept(next); err != nil {
		return fmt.Errorf("event %q: %w", o.event, err)
	}
	if o.rec, err = next.record(); err != nil {
		return err
	}
	o.row = next
	b.put(next)
	return nil
}

// payloadKept returns an error when a row has work to do and its body, or the one that it shares, is gone.
func (b *batch) payloadKept(r *row) error {
	if !r.rec.Open() {
		return nil
	}
	if r.event.Kind == record.BodyShared {
		keeper, err := b.event(r.rec.Original)
		if err != nil {
			return err
		}
		if r = keeper; r == nil {
			return dedup.ErrNoPayload
		}
	}
	if r.event.Kind == record.BodyLost {
		return fmt.Errorf("%w: it was damaged", dedup.ErrNoPayload)
	}
	return nil
}

func newTicket(eager bool) ticket {
	return ticket{eager: eager, bytes: 512, done: make(chan struct{}, 1)}
}
