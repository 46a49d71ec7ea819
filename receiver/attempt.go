package receiver

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"strings"
	"time"

	"github.com/eyelet-dev/eyelet/dedup"
	"github.com/eyelet-dev/eyelet/producer"
)

// Reasons why a task waits or is dead, as stored.
const (
	reasonRejected    = "rejected"     // dead: Reject
	reasonUndecodable = "undecodable"  // dead: the payload does not decode into the handler's type
	reasonExhausted   = "exhausted"    // dead: no attempts left
	reasonGone        = "handler_gone" // dead: no handler has this name
	reasonPostponed   = "postponed"    // waits: Postpone
	reasonFailed      = "failed"       // waits: the handler returned an error
	reasonTimeout     = "timeout"      // waits: error after the handler timeout
	reasonPanicked    = "panicked"     // waits: panic or runtime.Goexit
	reasonStopped     = "stopped"      // waits: the receiver stopped; does not count as an attempt
	reasonWaited      = "waited"       // waits: no worker was free; does not count as an attempt

	// The following are only observed, not stored.
	reasonLeaseLost  = "lease_lost" // another process has the task
	reasonUnrecorded = "unrecorded" // the store did not record the outcome
	reasonHanging    = "hanging"    // the handler still runs after its context ended
)

const (
	errGone    = "no handler has this name" // the stored error of a task with reasonGone
	maxErrText = 1 << 10                    // bytes of the stored text of an error
)

// attempt is one start of a task.
//
// Errors and panics of handlers may quote the payload, which must not be logged. The log gets
// the type of such an error, the store its text.
type attempt struct {
	leasedRun
	d       *dispatcher
	work    dedup.Work
	task    *dedup.Task
	size    int64     // of the payload
	began   time.Time // when it was taken, later when its handler started
	working bool      // it occupies a worker
	left    bool      // it no longer counts as running or prefetched
}

func newAttempt(d *dispatcher, w dedup.Work) *attempt {
	a := &attempt{
		leasedRun: newLeasedRun(&d.cfg, w.Lease),
		d:         d, work: w, size: int64(len(w.Record.Payload.Body)), began: time.Now(),
	}
	a.task = a.work.Task()
	return a
}

// log returns a logger that names the attempt. Few attempts log anything.
func (a *attempt) log() *slog.Logger {
	return a.d.log.With("event", a.work.Record.Event, "endpoint", a.work.Record.Payload.Endpoint,
		"handler", a.task.Handler, "attempt", a.task.Attempt)
}

// run takes the attempt to a recorded outcome.
func (a *attempt) run() {
	defer a.freeWorker()
	if !a.waitForWorker() {
		return
	}
	h := a.d.registry.byName[a.task.Handler]
	switch {
	case h == nil:
		a.finish(dead(reasonGone, errGone), nil)
	case a.failures() > a.d.cfg.Attempts:
		// Every attempt was interrupted, probably by a crash: do not run it again.
		a.finish(dead(reasonExhausted, "no attempts left; the last error: "+a.task.Err), nil)
	default:
		a.call(h)
	}
}

// waitForWorker reports whether the attempt got a worker. If it waits too long, or the
// dispatcher stops, the task returns to the store as it was.
func (a *attempt) waitForWorker() bool {
	if a.d.takeCtx.Err() != nil {
		a.release(reasonStopped)
		return false
	}
	select {
	case a.d.workers <- struct{}{}:
		a.working = true
		return true
	default:
	}
	timeout := time.NewTimer(min(workerPatience, a.d.cfg.Lease/3))
	defer timeout.Stop()
	select {
	case a.d.workers <- struct{}{}:
		a.working, a.began = true, time.Now()
		return true
	case <-timeout.C:
		a.d.prefetch.observeWait(time.Since(a.began))
		a.release(reasonWaited)
	case <-a.d.takeCtx.Done():
		a.release(reasonStopped)
	}
	return false
}

// release returns an unstarted task to the store and keeps the previous attempt's error.
func (a *attempt) release(reason string) {
	res := dedup.Result{Kind: dedup.ResultRelease, Reason: reason}
	if a.task.Reason != "" {
		res.Reason, res.Err = a.task.Reason, a.task.Err
	}
	a.finish(res, nil)
}

// freeWorker frees the worker and the capacity, once.
func (a *attempt) freeWorker() {
	if a.working {
		a.working = false
		a.d.prefetch.observeRun(time.Since(a.began))
		<-a.d.workers
	}
	if !a.left {
		a.left = true
		a.work.Record.Payload.Body = nil
		a.d.prefetch.release(a.size)
	}
}

// failures counts this attempt and the earlier ones that failed or were interrupted.
func (a *attempt) failures() int { return a.task.Attempt - a.task.Postponed }

func (a *attempt) call(h *Handler) {
	runCtx, cancel := context.WithCancelCause(a.d.handlerCtx)
	defer cancel(nil)
	ctx, stop := context.WithTimeout(runCtx, a.d.cfg.HandlerTimeout)
	defer stop()
	out := h.start(ctx, &a.work.Record, a.task.Attempt)
	hung := int64(0)
	r, ok := a.runLeased(a.d.leaseCtx, out, runHooks{
		log: a.log, cancel: cancel, hungAfter: a.d.cfg.HandlerTimeout + hungGrace,
		hung: func() { hung = 1; a.reportHung() },
	})
	defer func() { a.d.hung.Add(-hung) }()
	if !ok {
		return
	}
	if crash, ok := errors.AsType[*panicked](r.err); ok {
		a.log().Error("the handler panicked", "panic_type", fmt.Sprintf("%T", crash.value), "stack", crash.stack)
	}
	if context.Cause(runCtx) == dedup.ErrLeaseLost { //nolint:errorlint // the very value given to cancel
		a.drop(r.err)
		return
	}
	a.finish(a.outcome(r, context.Cause(ctx)), r.err)
}

// reportHung records a handler that still runs after its context ended.
func (a *attempt) reportHung() {
	a.log().Warn("the handler hangs: it still runs after its context ended, and occupies its worker until it returns")
	a.d.hung.Add(1)
	a.observe(KindHanging, dedup.Running, reasonHanging, nil)
}

// outcome classifies what the handler returned; ended is why its context ended.
func (a *attempt) outcome(r returned, ended error) dedup.Result {
	err := r.err
	if err == nil {
		err = responseError(r.response)
	}
	switch kind, wait := classify(err); {
	case kind == errorNone:
		return dedup.Result{Kind: dedup.ResultDone}
	case kind == errorRejected:
		return dead(reasonRejected, errText(err))
	case kind == errorUndecodable:
		return dead(reasonUndecodable, errText(err))
	case kind == errorPostponed:
		return a.postpone(wait, err)
	case kind == errorPanic:
		return a.retry(reasonPanicked, wait, err)
	case errors.Is(ended, errStopping):
		return dedup.Result{Kind: dedup.ResultRelease, Reason: reasonStopped, Err: errText(err)}
	case errors.Is(ended, context.DeadlineExceeded):
		return a.retry(reasonTimeout, wait, err)
	default:
		return a.retry(reasonFailed, wait, err)
	}
}

func (a *attempt) postpone(wait time.Duration, err error) dedup.Result {
	if wait <= 0 {
		wait = a.d.cfg.BackoffBase
	}
	return dedup.Result{
		Kind: dedup.ResultRetry, Postponed: true, After: min(wait, a.d.cfg.PostponeMax),
		Reason: reasonPostponed, Err: errText(err),
	}
}

// retry runs the task again after the backoff, which is added to the least wait.
func (a *attempt) retry(reason string, least time.Duration, err error) dedup.Result {
	n := a.failures()
	if n >= a.d.cfg.Attempts {
		return dead(reasonExhausted, errText(err))
	}
	after := least + backoff(a.d.cfg.BackoffBase, min(a.d.cfg.BackoffCap, longestWait), n-1, a.d.random)
	return dedup.Result{Kind: dedup.ResultRetry, After: after, Reason: reason, Err: errText(err)}
}

// finish records the outcome. While the store is unavailable it tries again and extends the
// lease, so that the handler need not run again for a fault of the store. It abandons the
// outcome when the lease is lost, when the store has failed for good, when the dispatcher stops,
// and after one more lease on errors that promise no end.
func (a *attempt) finish(res dedup.Result, cause error) {
	a.freeWorker() // recording needs none
	deadline := time.Now().Add(a.d.cfg.Lease)
	for n := 0; ; n++ {
		ctx, cancel := context.WithTimeout(a.d.leaseCtx, max(a.d.cfg.Lease/3, time.Millisecond))
		err := a.d.cfg.Store.Finish(ctx, a.work.Lease, res)
		cancel()
		if err == nil {
			a.report(res, cause)
			return
		}
		var unavailable *dedup.ErrUnavailable
		switch {
		case errors.Is(err, dedup.ErrLeaseLost):
			a.drop(cause)
			return
		case errors.As(err, &unavailable) && !errors.Is(err, dedup.ErrFailed):
			deadline = time.Now().Add(a.d.cfg.Lease)
		case errors.Is(err, dedup.ErrFailed), errors.Is(err, dedup.ErrClosed), errors.Is(err, dedup.ErrNotFound),
			time.Now().After(deadline):
			a.abandon(err)
			return
		}
		if n == 0 {
			a.log().Warn("the outcome is not recorded yet; retrying", "err", err)
		}
		if !pause(a.d.leaseCtx.Done(), min(backoff(storeRetryBase, storeRetryCap, n, a.d.random), a.d.cfg.Lease/6)) {
			a.abandon(err)
			return
		}
		if time.Now().After(a.renewAt) && errors.Is(a.extend(a.d.leaseCtx, a.log), dedup.ErrLeaseLost) {
			a.drop(cause)
			return
		}
	}
}

// drop discards the result: the lease was lost, or an earlier call recorded the outcome although
// it returned an error.
func (a *attempt) drop(cause error) {
	a.log().Warn("the lease was lost: the result of this attempt is discarded", "error_type", errType(cause))
	a.observe(KindAttempt, dedup.Pending, reasonLeaseLost, nil)
}

func (a *attempt) abandon(err error) {
	a.log().Error("the outcome could not be recorded: the task runs again after its lease", "err", err)
	a.observe(KindAttempt, dedup.Pending, reasonUnrecorded, err)
}

// report logs and observes the recorded outcome.
func (a *attempt) report(res dedup.Result, cause error) {
	state := dedup.Pending
	switch res.Kind {
	case dedup.ResultDone:
		state = dedup.Done
		if a.d.log.Enabled(a.d.leaseCtx, slog.LevelDebug) {
			a.log().Debug("task done", "took", time.Since(a.began))
		}
	case dedup.ResultDead:
		state = dedup.Dead
		a.log().Error("task is a dead letter", "reason", res.Reason, "error_type", errType(cause))
	case dedup.ResultRetry:
		a.log().Warn("task runs again", "reason", res.Reason, "after", res.After, "error_type", errType(cause))
	case dedup.ResultRelease:
		a.log().Info("task released", "reason", res.Reason)
	}
	a.observe(KindAttempt, state, res.Reason, typeOnly(cause))
}

// observe describes the attempt without payload: handlers' errors only by their types.
func (a *attempt) observe(kind Kind, state dedup.State, reason string, err error) {
	rec := &a.work.Record
	a.d.cfg.observe(context.Background(), a.d.log, Observation{
		Kind: kind, Endpoint: rec.Payload.Endpoint, Type: rec.Payload.Type, ID: rec.Key.ID, Event: rec.Event,
		Handler: a.task.Handler, Attempt: a.task.Attempt, State: state, Reason: reason,
		Took: time.Since(a.began), Err: err,
	})
}

func dead(reason, text string) dedup.Result {
	return dedup.Result{Kind: dedup.ResultDead, Reason: reason, Err: bounded(text)}
}

// responseError converts the response of a reopened event of an Answer handler, which no
// producer waits for, to an error. Statuses mean what they mean to a producer.
func responseError(r *Response) error {
	if r == nil {
		return nil
	}
	answer, err := responseOf(&producer.Producer{}, r)
	switch {
	case err != nil:
		return err
	case transient(answer.Status):
		return fmt.Errorf("the handler answered %d, which is transient", answer.Status)
	case answer.Status >= 400:
		return Reject(fmt.Errorf("the handler answered %d", answer.Status))
	}
	return nil
}

// errText is the stored text of an error. fmt survives errors whose Error method panics.
func errText(err error) string { return bounded(fmt.Sprint(err)) }

func bounded(text string) string {
	if len(text) > maxErrText {
		text = text[:maxErrText]
	}
	return strings.ToValidUTF8(text, "")
}

// errType names the types of the errors in the chain. Unlike their texts, types hold no payload.
func errType(err error) string {
	var names []string
	for ; err != nil && len(names) < 8; err = errors.Unwrap(err) {
		names = append(names, fmt.Sprintf("%T", err))
	}
	return strings.Join(names, " > ")
}

// backoff is full jitter: uniform in [0, min(limit, base*2^n)], where n counts the failures
// before this one (draft-mayankpanke-event-delivery-semantics-01 section 9.6). random(k) is
// uniform in [0, k).
func backoff(base, limit time.Duration, n int, random func(int64) int64) time.Duration {
	limit = min(limit, math.MaxInt64-1)
	most := min(base, limit)
	for ; n > 0 && most < limit; n-- {
		most += min(most, limit-most) // doubled, without overflow
	}
	if most <= 0 {
		return 0
	}
	return time.Duration(random(int64(most) + 1))
}
