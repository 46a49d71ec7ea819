package badgerstore

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/eyelet-dev/eyelet/dedup"
)

// Take implements [dedup.Store].
func (s *Store) Take(ctx context.Context, want dedup.Want) ([]dedup.Work, error) {
	if err := cmp.Or(want.Check(), s.usable(), ctx.Err()); err != nil {
		return nil, err
	}
	want.Tasks = min(want.Tasks, batchOps)
	o := &takeOp{want: want, ticket: ticket{done: make(chan struct{}, 1)}}
	if err := s.queue.push(o); err != nil {
		return nil, err
	}
	if !o.wait(ctx, s.failed) {
		return nil, cmp.Or(ctx.Err(), s.usable())
	}
	if o.err != nil {
		return nil, o.err
	}
	out := s.bodies(o)
	if len(out) == 0 { // all of it was damaged, or nothing was written and ctx has ended
		return s.Take(ctx, want)
	}
	return out, nil
}

// bodies adds the payloads to the work of a Take. A task with an unreadable one is a dead letter.
func (s *Store) bodies(o *takeOp) []dedup.Work {
	out := o.work[:0:len(o.work)]
	for i := range o.work {
		w := o.work[i]
		if w.Record.Payload.Body != nil { // given by the claimer
			out = append(out, w)
			continue
		}
		body, err := s.body(o.rows[i])
		if err != nil {
			s.damage(err)
			res := dedup.Result{Kind: dedup.ResultDead, Reason: reasonDamaged, Err: err.Error()}
			if !errors.As(err, new(*DamagedError)) { // the store is closing, or the lease is lost
				res = dedup.Result{Kind: dedup.ResultRelease}
			}
			finish := newFinish(w.Lease, res, make(chan struct{}, 1))
			_ = s.queue.push(&finish) // or the lease expires and Take tries again
			continue
		}
		w.Record.Payload.Body = body
		out = append(out, w)
	}
	return out
}

// Extend implements [dedup.Store]. The extension is durable.
func (s *Store) Extend(ctx context.Context, l dedup.Lease, d time.Duration) error {
	if d <= 0 {
		return fmt.Errorf("%w: extension by %v", dedup.ErrInvalid, d)
	}
	return s.do(ctx, &extendOp{ticket: newTicket(false), lease: l, by: d})
}

// Finish implements [dedup.Store]. A result that a request waits for (one with a response, and
// a release) is committed at once; others share the next commit.
func (s *Store) Finish(ctx context.Context, l dedup.Lease, res dedup.Result) error {
	return s.FinishMany(ctx, dedup.LeaseResult{Lease: l, Result: res})[0]
}

// FinishMany implements [dedup.Store]. The results share the commit of [Store.Finish].
func (s *Store) FinishMany(ctx context.Context, results ...dedup.LeaseResult) []error {
	errs := make([]error, len(results))
	ops, queued := make([]finishOp, len(results)), make([]op, 0, len(results))
	done := make(chan struct{}, len(results))
	for i, r := range results {
		o := &ops[i]
		*o = newFinish(r.Lease, r.Result, done)
		if o.bytes > stateMost {
			o.err = fmt.Errorf("%w: a result of %d bytes, at most %d", dedup.ErrTooLarge, o.bytes, stateMost)
			continue
		}
		queued = append(queued, o)
	}
	err := cmp.Or(s.usable(), ctx.Err())
	if err == nil && len(queued) > 0 {
		err = s.push(ctx, nil, queued...)
	}
	for i := range errs {
		if errs[i] = err; err == nil { // else the committer may still be writing to the operation
			errs[i] = ops[i].err
		}
	}
	return errs
}

// newFinish returns the operation of a result, which it copies.
func newFinish(l dedup.Lease, res dedup.Result, done chan struct{}) finishOp {
	res.Response = res.Response.Clone()
	return finishOp{lease: l, result: res, ticket: ticket{
		eager: res.Response.Status != 0 || res.Kind == dedup.ResultRelease,
		bytes: ticketBytes + answerSize(res.Response) + len(res.Reason) + len(res.Err) + len(res.Reply),
		done:  done,
	}}
}

// stateMost bounds what a claim or a result adds to a state, in bytes: a commit has to fit a
// segment of the log.
const stateMost = 8 << 20

// Reopen implements [dedup.Store].
func (s *Store) Reopen(ctx context.Context, event string, tasks ...dedup.NewTask) (dedup.Record, error) {
	return s.edit(ctx, event, func(r *dedup.Record, now time.Time) error { return r.Reopen(tasks, now) })
}

// Rerun implements [dedup.Store].
func (s *Store) Rerun(ctx context.Context, event string, again dedup.Rerun) (dedup.Record, error) {
	return s.edit(ctx, event, func(r *dedup.Record, now time.Time) error { return r.Rerun(again, now) })
}

// RunNow implements [dedup.Store].
func (s *Store) RunNow(ctx context.Context, event string) (dedup.Record, error) {
	return s.edit(ctx, event, (*dedup.Record).RunNow)
}

type recordEdit = func(r *dedup.Record, now time.Time) error

func (s *Store) edit(ctx context.Context, event string, edit recordEdit) (dedup.Record, error) {
	o := &editOp{ticket: newTicket(true), event: event, edit: edit}
	if err := s.do(ctx, o); err != nil {
		return dedup.Record{}, err
	}
	body, err := s.body(o.row)
	o.rec.Payload.Body = body
	return o.rec, err
}

// Purge implements [dedup.Store].
func (s *Store) Purge(ctx context.Context, event string) error {
	return s.do(ctx, &purgeOp{ticket: newTicket(true), event: event})
}
