package receiver

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"

	"github.com/eyelet-dev/eyelet/dedup"
	"github.com/eyelet-dev/eyelet/producer"
	"github.com/eyelet-dev/eyelet/verify"
)

const (
	maxResponse = 1 << 20 // bytes of the body of a stored response
	// pollInterval is how often a waiting duplicate polls the store: the handler may run in
	// another process.
	pollInterval = 200 * time.Millisecond
)

// inFlight reports whether an Answer handler has the record and there is no response yet.
func inFlight(rec dedup.Record) bool { return rec.Hold && rec.Response.Status == 0 && rec.Open() }

// answer claims the event for its Answer handler and runs it, or waits for the delivery that
// does. When a claim is released, the store gives it to exactly one of the waiting deliveries.
func (d *delivery) answer(ctx context.Context, e *entry) (*reply, error) {
	key := e.claim.Key.Hash()
	watch := d.rx.pending.watch(key)
	defer watch.unwatch()
	timeout := time.NewTimer(max(0, d.rx.cfg.InFlightWait))
	defer timeout.Stop()
	for {
		stored, asked := watch.next(), time.Now()
		decisions, err := d.rx.claim(ctx, e.claim)
		if err != nil {
			return nil, err
		}
		decision := decisions[0]
		switch {
		case decision.Verdict == dedup.New:
			d.logNew(ctx, e, decision)
			return d.run(ctx, e, decision, asked)
		case decision.Verdict != dedup.Known || !inFlight(decision.Record):
			return d.concludeOne(ctx, e, decision)
		}
		select {
		case <-stored:
		case <-time.After(pollInterval):
		case <-timeout.C:
			return nil, fail(codeInFlight, nil)
		case <-ctx.Done():
			return nil, fail(codeInFlight, ctx.Err())
		}
	}
}

// resumable reports whether a run of an Answer handler ended without a response.
func resumable(rec dedup.Record) bool { return inFlight(rec) && rec.Tasks[0].State == dedup.Pending }

// resume claims such an event for a delivery that matches no Answer handler: the type need not
// be signed, and the handlers or the producer may have changed since.
func (d *delivery) resume(ctx context.Context, e *entry, rec dedup.Record) (*reply, error) {
	e.claim.Tasks = []dedup.NewTask{{Handler: rec.Tasks[0].Handler}}
	e.claim.Response = dedup.Response{}
	e.claim.Hold, e.claim.Lease = true, d.rx.cfg.Lease
	return d.answer(ctx, e)
}

// answerRun is one run of an Answer handler, which holds the lease.
type answerRun struct {
	leasedRun
	rx       *Receiver
	end      context.CancelFunc // ends the handler's context
	p        *producer.Producer
	handler  *Handler
	asked    time.Time             // when its claim was asked for: the lease began later
	accepted dedup.Response        // to an event that no handler answers
	storeErr atomic.Pointer[error] // why the result is not recorded yet; nil before
}

// begin returns the run of a claimed event. The first run gets the delivery itself. A later one
// gets what the store kept of the first, and the delivery only triggers it. Its handler is the one
// that began the event or, when that name is gone, the Answer handler of the stored type, or nil.
func (d *delivery) begin(ctx context.Context, e *entry, decision dedup.Decision) (*answerRun, error) {
	cfg := &d.rx.cfg
	run := &answerRun{
		rx: d.rx, p: &d.ep.p, handler: e.answer, accepted: d.ep.acceptance(e.claim.Payload.Type),
	}
	run.leasedRun = leasedRun{owner: run, rec: decision.Record, lease: decision.Lease, began: time.Now()}
	task := run.task()
	if task.Attempt == 1 {
		p := e.claim.Payload // a decision comes without the body
		p.Header = p.Header.Clone()
		run.rec.Payload = p
		return run, nil
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), cfg.StoreTimeout)
	defer cancel()
	rec, err := cfg.Store.Get(ctx, run.rec.Event)
	if err != nil {
		err = storeFailure(err)
		release := dedup.Result{Kind: dedup.ResultRelease, Reason: task.Reason, Err: task.Err}
		return nil, errors.Join(err, cfg.Store.Finish(ctx, run.lease, release))
	}
	run.rec = rec
	if run.handler = d.rx.registry.byName[task.Handler]; run.handler == nil {
		it := d.items[0]
		it.Type = rec.Payload.Type
		_, run.handler, _ = d.match(it)
	}
	return run, nil
}

// run runs the handler and waits for it as long as the producer does. A slower handler continues,
// and its result is stored for the next delivery: no second run starts beside it. The store was
// asked for the claim at the given time. It may have answered long after the lease began.
func (d *delivery) run(ctx context.Context, e *entry, decision dedup.Decision, asked time.Time) (*reply, error) {
	run, err := d.begin(ctx, e, decision)
	if err != nil {
		return nil, err
	}
	run.asked = asked
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), d.rx.cfg.AnswerTimeout)
	done := make(chan *reply, 1)
	d.rx.inflight.Add()
	share := d.share.Transfer() // a handler that outlasts its delivery keeps its slot of the quota
	go func() {
		defer d.rx.inflight.Done()
		defer cancel()
		resp := run.run(ctx, cancel)
		share.Release() // before the producer can send the next delivery
		done <- resp
	}()
	select {
	case resp := <-done:
		return resp, nil
	case <-ctx.Done():
	}
	// The handler's own response counts, even at the last moment.
	select {
	case resp := <-done:
		return resp, nil
	default:
	}
	if err := run.storeErr.Load(); err != nil {
		return nil, storeFailure(*err)
	}
	return nil, run.timeout(context.Cause(ctx))
}

// timeout is the failure of a run that outlasts the wait of its producer. An Inline handler still
// needs the request, so its connection cannot carry another one.
func (r *answerRun) timeout(cause error) *failure {
	f := fail(codeAnswerTimeout, cause)
	if r.handler != nil && r.handler.route != nil {
		f.header = http.Header{"Connection": {"close"}}
	}
	return f
}

// run runs the handler, records its result, and returns the reply for the waiting delivery.
func (r *answerRun) run(ctx context.Context, cancel context.CancelFunc) (resp *reply) {
	defer func() {
		if v := recover(); v != nil { // ours or the store's: a handler's panic is its error
			r.rx.log.Error("panic while answering",
				"endpoint", r.p.Name, "value", panicText(v), "stack", string(debug.Stack()))
			resp = r.rx.problemReply(r.p, fail(codeInternal, nil))
		}
	}()
	r.end = cancel
	r.rx.answers.add(&r.leasedRun, r.asked)
	defer r.rx.answers.remove(&r.leasedRun) // once the result is recorded
	var came returned
	if r.handler != nil {
		ctx = r.startSpan(ctx, r.rx.cfg.Tracer)
		came = <-start(func() returned {
			return r.handler.runLeased(ctx, r.rx.answers, &r.leasedRun, func(came returned) dedup.Result {
				result, _ := r.outcome(ctx, came)
				return result
			})
		})
	}
	r.rx.answers.finish(&r.leasedRun)
	defer r.rx.pending.notify(r.rec.Key.Hash())
	result, resp := r.outcome(ctx, came)
	r.endSpan(result, came.err)
	r.rx.reportAnswerRun(ctx, r, result, came.err)
	if came.committed == nil {
		if err := r.record(ctx, result); err != nil {
			return r.rx.problemReply(r.p, storeFailure(err))
		}
	}
	if result.Response.Status == 0 {
		return resp
	}
	r.rec.Response = result.Response
	stored := storedReply(nil, r.p, &r.rec, false)
	return &stored
}

func (r *answerRun) log() *slog.Logger {
	return r.rx.log.With("handler", r.task().Handler, "event", r.rec.Event)
}

func (r *answerRun) cancel(cause error) {
	if errors.Is(cause, dedup.ErrLeaseLost) {
		r.log().Error("lease lost while the handler runs")
	}
	r.end()
}

// hung is never called: the producer's wait is bounded, and the handler occupies no worker.
func (r *answerRun) hung() {}

// record records the result before it reaches the waiting delivery and the duplicates. While the
// store does not record it, the run keeps its lease: the next delivery must not start a second one.
// The waiting delivery gets the store's error if it waits no longer.
func (r *answerRun) record(ctx context.Context, result dedup.Result) error {
	err := r.rx.workers.record(r.log, r.rx.ending.Done(), nil, func() error {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), r.rx.cfg.StoreTimeout)
		defer cancel()
		err := r.rx.cfg.Store.Finish(ctx, r.lease, result)
		if err != nil {
			r.storeErr.Store(&err)
		}
		return err
	})
	switch {
	case err == nil:
	case errors.Is(err, dedup.ErrLeaseLost):
		r.log().Warn("the lease was lost: the result of this run is discarded, unless it was recorded before")
	default:
		r.log().Error("the outcome could not be recorded: the handler runs again after the lease", "err", err)
	}
	return err
}

// outcome classifies what the handler returned. A terminal result has its response, which is stored
// and then sent. A transient one releases the claim for the next delivery; the reply is to this.
func (r *answerRun) outcome(ctx context.Context, came returned) (dedup.Result, *reply) {
	switch {
	case came.committed != nil:
		return *came.committed, nil
	case r.handler == nil:
		return dedup.Result{Kind: dedup.ResultDead, Reason: reasonGone, Err: errGone, Response: r.accepted}, nil
	}
	switch kind, wait := classify(came.err); kind {
	case errorRejected:
		return r.reject(came), nil
	case errorUndecodable:
		return r.refuse(codeUndecodable, came.err), nil
	case errorPostponed:
		return r.release(codePostponed, min(max(wait, time.Second), r.rx.cfg.PostponeMax), came.err)
	case errorPanic, errorOther:
		code := codeAnswerFailed
		if ctx.Err() != nil {
			code = codeAnswerTimeout
		}
		result, resp := r.release(code, wait, came.err)
		if own, ok := r.own(came, transient); ok && wait == 0 {
			resp = r.transientReply(own)
		}
		return result, resp
	}
	said := ""
	if isRefused(came.response) {
		said, came.response = came.response.Refusal.Reply, r.rx.refusalResponse(r.p, came.response)
	}
	resp, err := responseOf(r.p, came.response)
	if err != nil {
		return r.release(codeAnswerFailed, 0, err)
	}
	if transient(resp.Status) {
		why := fmt.Sprintf("the handler answered %d", resp.Status)
		return dedup.Result{Kind: dedup.ResultRelease, Reason: "transient", Err: why}, r.transientReply(resp)
	}
	return dedup.Result{Kind: dedup.ResultDone, Response: resp, Reply: said}, nil
}

func (r *answerRun) release(code verify.Code, after time.Duration, err error) (dedup.Result, *reply) {
	return dedup.Result{Kind: dedup.ResultRelease, Reason: string(code), Err: errText(err), Reply: replyOf(err)},
		r.rx.problemReply(r.p, &failure{code: code, after: after, err: err})
}

// reject is the result with the refusal that came with the error, or with the problem for it.
func (r *answerRun) reject(came returned) dedup.Result {
	resp, ok := r.own(came, isRefusal)
	switch {
	case ok:
	case isRefused(came.response):
		refusal := r.rx.refusalResponse(r.p, came.response)
		resp = dedup.Response{Status: refusal.Status, Header: refusal.Header, Body: refusal.Body}
	default:
		return r.refuse(codeRejected, came.err)
	}
	return refusedWith(resp, reasonRejected, came.err)
}

// refuse is a terminal refusal with the problem of the code.
func (r *answerRun) refuse(code verify.Code, err error) dedup.Result {
	return refusedWith(r.rx.problemReply(r.p, fail(code, err)).Response, string(code), err)
}

func refusedWith(resp dedup.Response, reason string, err error) dedup.Result {
	result := dead(reason, errText(err))
	result.Reply, result.Response = replyOf(err), resp
	return result
}

// own returns the response with a status and a body that came with the error, if its status fits.
func (r *answerRun) own(came returned, fits func(status int) bool) (dedup.Response, bool) {
	own := came.response
	if own == nil || own.Status == 0 || len(own.Body) == 0 || own.Refusal != nil || !fits(own.Status) {
		return dedup.Response{}, false
	}
	resp, err := responseOf(r.p, own)
	return resp, err == nil
}

// transientReply is the reply for a transient response, which is not stored.
func (r *answerRun) transientReply(a dedup.Response) *reply {
	a.Header = a.Header.Clone()
	a.Header.Set("Cache-Control", "no-store")
	if a.Header.Get("Retry-After") == "" {
		a.Header.Set("Retry-After", r.rx.retryAfter(0))
	}
	return &reply{Response: a, code: codeAnswerFailed, event: r.rec.Event}
}

// isRefused reports whether the response is a valid Refusal.
func isRefused(r *Response) bool { return r != nil && r.Refusal != nil && isRefusal(r.Status) }

// isRefusal reports whether a response with a Refusal may have the status.
func isRefusal(status int) bool {
	return status == 0 || status >= 400 && status < 500 && !transient(status)
}

// transient reports whether the same delivery may succeed later, given the status.
func transient(status int) bool {
	return status >= 500 || status == http.StatusRequestTimeout || status == http.StatusTooEarly ||
		status == http.StatusTooManyRequests
}

// responseOf checks a handler's response and sets its defaults. A response that producers cannot
// act upon is an error of the handler.
func responseOf(p *producer.Producer, r *Response) (dedup.Response, error) {
	if r == nil {
		r = &Response{}
	}
	a := dedup.Response{Status: r.Status, Header: repeatable(r.Header), Body: r.Body}
	if a.Status == 0 && r.Refusal != nil { // a reopened event: the response is not sent
		a.Status = http.StatusUnprocessableEntity
	}
	if a.Status == 0 {
		a.Status = http.StatusOK
		if len(r.Body) == 0 && p.Contract == producer.API {
			a.Status = http.StatusNoContent
		}
	}
	switch {
	case r.Refusal != nil && !isRefusal(r.Status):
		return a, fmt.Errorf("the handler refused the event with status %d, which is not final", r.Status)
	case a.Status < 200, a.Status >= 300 && a.Status < 400, a.Status > 599, a.Status == http.StatusMultiStatus:
		return a, fmt.Errorf("the handler answered with status %d, which must not be sent to producers", a.Status)
	case len(a.Body) > maxResponse:
		return a, fmt.Errorf("the handler's response has %d bytes, more than %d", len(a.Body), maxResponse)
	case bodyless(a.Status):
		a.Body = nil
	case len(a.Body) > 0 && a.Header.Get("Content-Type") == "":
		a.Header.Set("Content-Type", jsonType)
	case len(a.Body) == 0:
		a.Header.Del("Content-Type")
	}
	return a, nil
}

// pendingAnswers wakes the duplicates that wait for an Answer handler of this process.
type pendingAnswers struct {
	mu    sync.Mutex
	byKey map[[32]byte]*pendingAnswer
}

// pendingAnswer is one key for which duplicates wait.
type pendingAnswer struct {
	of      *pendingAnswers
	key     [32]byte
	waiters int
	stored  chan struct{} // closed and replaced each time a result is stored
}

// watch begins to wait for a key; unwatch must follow.
func (ps *pendingAnswers) watch(key [32]byte) *pendingAnswer {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	p := ps.byKey[key]
	if p == nil {
		p = &pendingAnswer{of: ps, key: key, stored: make(chan struct{})}
		ps.byKey[key] = p
	}
	p.waiters++
	return p
}

// next returns the channel that is closed when the next result is stored. Call it before
// querying the store, else a result stored in between is missed.
func (p *pendingAnswer) next() <-chan struct{} {
	p.of.mu.Lock()
	defer p.of.mu.Unlock()
	return p.stored
}

func (p *pendingAnswer) unwatch() {
	p.of.mu.Lock()
	defer p.of.mu.Unlock()
	if p.waiters--; p.waiters == 0 {
		delete(p.of.byKey, p.key)
	}
}

// notify wakes the waiters of a key once its result is stored.
func (ps *pendingAnswers) notify(key [32]byte) {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	if p := ps.byKey[key]; p != nil {
		close(p.stored)
		p.stored = make(chan struct{})
	}
}
