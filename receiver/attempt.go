package receiver

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/eyelet-dev/eyelet/dedup"
	"github.com/eyelet-dev/eyelet/producer"
	"github.com/eyelet-dev/eyelet/receiver/internal/admission"
	"github.com/eyelet-dev/eyelet/receiver/internal/deadline"
)

// Reasons why a task waits or is dead, as stored.
const (
	reasonRejected    = "rejected"     // dead: Reject
	reasonUndecodable = "undecodable"  // dead: the payload does not decode into the handler's type
	reasonExhausted   = "exhausted"    // dead: no attempts left
	reasonUnverified  = "unverified"   // dead: its handler does not take unverified events
	reasonGone        = "handler_gone" // dead: no receiver has had a handler of this name for OrphanAfter
	reasonPostponed   = "postponed"    // waits: Postpone
	reasonFailed      = "failed"       // waits: the handler returned an error
	reasonTimeout     = "timeout"      // waits: error after the handler timeout
	reasonPanicked    = "panicked"     // waits: panic or runtime.Goexit
	reasonStopped     = "stopped"      // waits: the receiver stopped; does not count as an attempt
	reasonWaited      = "waited"       // waits: no worker was free; does not count as an attempt
	reasonPaused      = "paused"       // waits: its handler was paused; does not count as an attempt

	// The following are only observed, not stored.
	reasonLeaseLost  = "lease_lost" // another process has the task
	reasonUnrecorded = "unrecorded" // the store did not record the outcome
	reasonHanging    = "hanging"    // the handler still runs after its context ended
)

const (
	errGone    = "no receiver has a handler of this name" // the stored error of a task with reasonGone
	maxErrText = 5 << 10                                  // bytes of the stored text of an error
)

// attempt is one start of a task.
//
// Errors and panics of handlers may quote the payload. The store has their text, and so has the
// log unless Config.OmitErrors is set. Observers get only the type.
type attempt struct {
	leasedRun
	d       *dispatcher
	size    int64        // of the payload
	taken   time.Time    // when the lease began
	ctx     deadline.Run // of the handler
	lost    atomic.Bool  // the lease was lost while the handler ran
	working bool         // it occupies a worker
	hanging sync.Mutex   // held by hung: observers see that a handler hangs before its outcome
	over    bool         // its handler has returned
	stored  bool         // the handler's transaction recorded the result
	result  dedup.Result // once there is one
	cause   error        // of the result

	limit *limit // of its handler; nil without one
	share admission.Share
	half  admission.Share // of an unverified event
	trial bool            // of the breaker of its handler
}

func newAttempt(d *dispatcher, w dedup.Work) *attempt {
	now := time.Now()
	a := &attempt{d: d, size: int64(len(w.Record.Payload.Body)), taken: now}
	a.leasedRun = leasedRun{owner: a, rec: w.Record, lease: w.Lease, began: now}
	return a
}

// log returns a logger that names the attempt. Few attempts log anything.
func (a *attempt) log() *slog.Logger {
	return a.d.log.With(append(eventAttrs(&a.rec), "handler", a.task().Handler, "attempt", a.task().Attempt)...)
}

// eventAttrs name an event in the log. The id is the sender's.
func eventAttrs(rec *dedup.Record) []any {
	p := &rec.Payload
	all := []any{"event", rec.Event, "endpoint", p.Endpoint, "type", p.Type, "id", cmp.Or(p.VendorID, rec.Key.ID)}
	if isUnverified(rec) {
		all = append(all, "unverified", true)
	}
	return all
}

// errorAttr is the error of a handler as an attribute of the log, which leaves out an empty one.
func (c *Config) errorAttr(err error) slog.Attr {
	switch {
	case err == nil:
		return slog.Attr{}
	case c.OmitErrors:
		return slog.String("error_type", errType(err))
	}
	return slog.String("error", errText(err))
}

// cancel ends the handler's context.
func (a *attempt) cancel(cause error) {
	if errors.Is(cause, dedup.ErrLeaseLost) {
		a.lost.Store(true)
	}
	a.ctx.End(cause)
}

// hung records a handler that still runs after its context ended.
func (a *attempt) hung() {
	a.hanging.Lock()
	defer a.hanging.Unlock()
	if a.over {
		return
	}
	a.log().Warn("the handler hangs: it still runs after its context ended, and occupies its worker until it returns")
	a.observe(KindHanging, dedup.Running, reasonHanging, nil)
}

// run takes the attempt to an outcome, in a goroutine of the workers.
func (a *attempt) run() {
	timeout := a.d.cfg.HandlerTimeout
	a.working, a.began = true, time.Now()
	a.hungAt = a.began.Add(timeout + hungGrace)
	a.ctx.Begin(timeout)
	defer a.ctx.End(nil)
	a.d.watchdog.add(&a.leasedRun, a.taken)
	h := a.d.registry.byName[a.task().Handler]
	switch {
	case h == nil:
		a.finish(dead(reasonGone, errGone), nil)
	case isUnverified(&a.rec) && !h.unverified:
		a.finish(dead(reasonUnverified, "its delivery did not verify, and the handler takes verified events only"), nil)
	case a.failures() > a.d.cfg.Attempts:
		// Every attempt was interrupted, probably by a crash: do not run it again.
		a.finish(dead(reasonExhausted, "no attempts left; the last error: "+a.task().Err), nil)
	default:
		ctx := a.startSpan(&a.ctx, a.d.cfg.Tracer)
		var decide func(returned) dedup.Result
		if h.tx != nil {
			decide = func(r returned) dedup.Result { return a.outcome(r, a.ctx.Cause()) }
		}
		a.conclude(h.runLeased(ctx, a.d.watchdog, &a.leasedRun, decide))
	}
}

// goexit concludes the attempt of a handler that ended its goroutine.
func (a *attempt) goexit() { a.conclude(returned{err: errGoexit}) }

// conclude finishes the attempt with what its handler returned.
func (a *attempt) conclude(r returned) {
	var result dedup.Result
	if a.stored = r.committed != nil; a.stored {
		result = *r.committed
	} else {
		result = a.outcome(r, a.ctx.Cause())
	}
	a.ctx.End(nil)
	if crash, ok := errors.AsType[*panicked](r.err); ok {
		a.log().Error("the handler panicked", "panic_type", fmt.Sprintf("%T", crash.value), "stack", crash.stack)
	}
	a.finish(result, r.err)
}

// release returns an unstarted task to the store and keeps the previous attempt's error.
func (a *attempt) release(reason string) {
	a.unstarted(dedup.Result{Kind: dedup.ResultRelease}, reason)
}

func (a *attempt) unstarted(res dedup.Result, reason string) {
	a.d.watchdog.add(&a.leasedRun, a.taken)
	res.Reason = reason
	if a.task().Reason != "" {
		res.Reason, res.Err = a.task().Reason, a.task().Err
	}
	a.finish(res, nil)
}

// finish frees the worker, and hands the result to the reporter.
func (a *attempt) finish(res dedup.Result, cause error) {
	if a.working {
		a.d.prefetch.observeRun(time.Since(a.began))
	}
	a.hanging.Lock()
	a.over = true
	a.hanging.Unlock()
	a.rec.Payload.Body = nil
	a.d.prefetch.release(a.size)
	a.d.control.free(a)
	a.result, a.cause = res, cause
	a.endSpan(res, cause)
	switch {
	case !a.d.watchdog.finish(&a.leasedRun): // the dispatcher has stopped
	case a.stored: // whatever an extension found
		go a.settle(nil)
	case a.lost.Load():
		a.drop()
	default:
		a.d.reporter.add(a)
	}
}

// failures counts this attempt and the earlier ones that failed or were interrupted.
func (a *attempt) failures() int { return a.task().Attempt - a.task().Postponed }

// outcome is the result of what the handler returned; ended is why its context ended.
func (a *attempt) outcome(r returned, ended error) dedup.Result {
	res := a.classified(r, ended)
	res.Reply = replyOf(r.err)
	return res
}

func (a *attempt) classified(r returned, ended error) dedup.Result {
	if r.stale {
		return dedup.Stale()
	}
	err := r.err
	if err == nil {
		err = responseError(r.response)
	}
	switch kind, wait := classify(err); {
	case kind == errorNone:
		h := a.d.registry.byName[a.task().Handler]
		return dedup.Result{Kind: dedup.ResultDone, Unfenced: h.isAhead(a.task().Version, a.d.cfg.Clock)}
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

func (a *attempt) observe(kind Kind, state dedup.State, reason string, err error) {
	a.d.cfg.observe(context.Background(), a.d.log, a.observation(kind, state, reason, err))
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
