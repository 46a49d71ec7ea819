package receiver

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"runtime/debug"
	"strconv"
	"time"

	"github.com/eyelet-dev/eyelet/dedup"
	"github.com/eyelet-dev/eyelet/producer"
)

// maxResponse bounds the body of a response, which is stored, in bytes.
const maxResponse = 1 << 20

// pollInterval is how often a duplicate asks the store about a handler that may run in another process.
const pollInterval = 200 * time.Millisecond

// inFlight reports whether an Answer handler has the record and there is no answer yet.
func inFlight(rec dedup.Record) bool { return rec.Hold && rec.Response.Status == 0 && rec.Open() }

// answer claims the event for its Answer handler and runs it, or waits for the delivery that does. When a
// claim is released, exactly one of those that wait gets it from the store; the others wait on.
func (d *delivery) answer(ctx context.Context, e entry) (*reply, error) {
	key := e.claim.Key.Hash()
	watch := d.rx.pending.watch(key)
	defer watch.leave()
	patience := time.NewTimer(max(0, d.rx.cfg.InFlightWait))
	defer patience.Stop()
	for {
		notified := watch.next()
		decisions, err := d.rx.claim(ctx, e.claim)
		if err != nil {
			return nil, err
		}
		decision := decisions[0]
		switch {
		case decision.Verdict == dedup.New:
			d.noteNew(ctx, e, decision)
			return d.run(ctx, e, decision)
		case decision.Verdict != dedup.Known || !inFlight(decision.Record):
			return d.concludeOne(ctx, e, decision)
		}
		select {
		case <-notified:
		case <-time.After(pollInterval):
		case <-patience.C:
			return nil, fail(codeInFlight, nil)
		case <-ctx.Done():
			return nil, fail(codeInFlight, ctx.Err())
		}
	}
}

// resumable reports whether an Answer handler has begun the event and was freed of it without an answer.
func resumable(rec dedup.Record) bool { return inFlight(rec) && rec.Tasks[0].State == dedup.Pending }

// resume claims an event that an Answer handler was freed of, for a delivery that no Answer handler takes: its type
// need not be signed, and handlers may have changed since.
func (d *delivery) resume(ctx context.Context, e entry, rec dedup.Record) (*reply, error) {
	e.claim.Tasks = []dedup.NewTask{{Handler: rec.Tasks[0].Handler}}
	e.claim.Response = dedup.Response{}
	e.claim.Hold, e.claim.Lease = true, d.rx.cfg.Lease
	return d.answer(ctx, e)
}

// begin makes the run of an event whose claim the delivery holds. The first run is of the delivery itself. A later one
// is of what the store kept of the first: the delivery only triggers it. Its handler is the one that began the event,
// or, where that has another name by now, the Answer handler of the stored type; nil where there is none.
func (d *delivery) begin(ctx context.Context, e entry, decision dedup.Decision) (*held, error) {
	h := &held{
		rx: d.rx, p: &d.ep.p, handler: e.answer, rec: decision.Record, lease: decision.Lease, started: time.Now(),
		accepted: d.ep.accepted,
	}
	task := h.rec.Tasks[h.lease.Task]
	if task.Attempt == 1 {
		h.rec.Payload = e.claim.Payload // a decision comes without the body
		h.rec.Payload.Header, h.rec.Payload.Attributes = h.rec.Payload.Header.Clone(), maps.Clone(h.rec.Payload.Attributes)
		return h, nil
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), d.rx.cfg.StoreTimeout)
	defer cancel()
	rec, err := d.rx.cfg.Store.Get(ctx, h.rec.Event)
	if err != nil {
		err = storeFailure(err)
		release := dedup.Result{Kind: dedup.ResultRelease, Reason: task.Reason, Err: task.Err}
		return nil, errors.Join(err, d.rx.cfg.Store.Finish(ctx, h.lease, release))
	}
	h.rec = rec
	if h.handler = d.rx.registry.byName[task.Handler]; h.handler == nil {
		_, h.handler = d.rx.registry.match(d.ep.p.Name, rec.Payload.Type)
	}
	return h, nil
}

// run lets the handler run and waits for it as long as the producer does. What the producer no longer waits
// for goes on, and its result is recorded for the next delivery: there is never a second run beside it.
func (d *delivery) run(ctx context.Context, e entry, decision dedup.Decision) (*reply, error) {
	h, err := d.begin(ctx, e, decision)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), d.rx.cfg.AnswerTimeout)
	done := make(chan ended, 1)
	d.rx.inflight.Add()
	share := d.share.Transfer() // a handler that outlasts its delivery keeps its place in the quota
	go func() {
		defer d.rx.inflight.Done()
		defer cancel()
		end := h.run(ctx, cancel)
		share.Release() // before anybody hears of the end
		done <- end
	}()
	select {
	case end := <-done:
		return end.reply, end.err
	case <-ctx.Done():
	}
	// The handler's own answer counts, also when it came at the last moment.
	select {
	case end := <-done:
		return end.reply, end.err
	default:
		return nil, fail(codeAnswerTimeout, context.Cause(ctx))
	}
}

// held is an Answer handler at work, with the claim in its hands.
type held struct {
	rx      *Receiver
	p       *producer.Producer
	handler *Handler
	rec     dedup.Record
	lease   dedup.Lease
	started time.Time
	// accepted is the answer to an event that no handler answers.
	accepted dedup.Response
}

// ended is how it ended, for the delivery that waits.
type ended struct {
	reply *reply
	err   error
}

// run runs the handler and records how it ended.
func (h *held) run(ctx context.Context, cancel context.CancelFunc) (end ended) {
	defer func() {
		if v := recover(); v != nil { // a bug of ours or of the store; the handler's panics are its own
			h.rx.log.Error("panic while answering", "endpoint", h.p.Name, "value", panicText(v), "stack", string(debug.Stack()))
			end = ended{err: fail(codeInternal, nil)}
		}
	}()
	if h.handler == nil {
		gone := dedup.Result{Kind: dedup.ResultDead, Reason: reasonGone, Err: errGone, Response: h.accepted}
		return h.finish(ctx, gone, ended{}, nil)
	}
	r := h.wait(ctx, cancel)
	result, end := h.judge(ctx, r)
	return h.finish(ctx, result, end, r.err)
}

// wait runs the handler and keeps the lease until it has returned, however long that takes. Its context ends
// early when the lease is lost, because then another delivery may have the event, and when the receiver ends.
func (h *held) wait(ctx context.Context, cancel context.CancelFunc) returned {
	came := h.handler.start(ctx, &h.rec, h.rec.Tasks[h.lease.Task].Attempt)
	extend := time.NewTicker(max(h.rx.cfg.Lease/3, time.Millisecond))
	defer extend.Stop()
	ending := h.rx.ending.Done()
	for {
		select {
		case r := <-came:
			return r
		case <-ending:
			ending = nil
			cancel()
		case <-extend.C:
			if err := h.extend(ctx); errors.Is(err, dedup.ErrLeaseLost) {
				h.rx.log.Error("lease lost while the handler runs", "handler", h.handler.name, "event", h.rec.Event)
				cancel()
				extend.Stop()
			} else if err != nil {
				h.rx.log.Warn("lease not extended", "handler", h.handler.name, "event", h.rec.Event, "err", err)
				if errors.Is(err, dedup.ErrFailed) { // no extension can succeed any more
					extend.Stop()
				}
			}
		}
	}
}

func (h *held) extend(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), h.rx.cfg.Lease/3)
	defer cancel()
	return h.rx.cfg.Store.Extend(ctx, h.lease, h.rx.cfg.Lease)
}

// finish records the result, and only then says so: to the delivery that waits, and to the duplicates.
func (h *held) finish(ctx context.Context, result dedup.Result, end ended, cause error) ended {
	defer h.rx.pending.notify(h.rec.Key.Hash())
	h.rx.reportAnswerRun(ctx, h, result, cause)
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), h.rx.cfg.StoreTimeout)
	defer cancel()
	if err := h.rx.cfg.Store.Finish(ctx, h.lease, result); err != nil {
		return ended{err: storeFailure(err)}
	}
	if result.Response.Status != 0 {
		h.rec.Response = result.Response
		end.reply = storedReply(h.p, h.rec, false)
	}
	return end
}

// judge decides what a handler's end means. What no repetition can change is stored with its answer; anything
// else frees the claim for the next delivery.
func (h *held) judge(ctx context.Context, r returned) (dedup.Result, ended) {
	release := func(code string, after time.Duration, err error) (dedup.Result, ended) {
		return dedup.Result{Kind: dedup.ResultRelease, Reason: code, Err: errText(err)},
			ended{err: &failure{code: code, after: after, err: err}}
	}
	if wait, ok := postponed(r.err); ok && !isRejected(r.err) {
		return release(codePostponed, min(max(wait, time.Second), h.rx.cfg.PostponeMax), r.err)
	}
	switch {
	case isRejected(r.err):
		return h.refuse(codeRejected, r.err)
	case isUndecodable(r.err):
		return h.refuse(codeUndecodable, r.err)
	case r.err != nil && ctx.Err() != nil:
		return release(codeAnswerTimeout, notBefore(r.err), r.err)
	case r.err != nil:
		return release(codeAnswerFailed, notBefore(r.err), r.err)
	}
	if r.response != nil && r.response.Refusal != nil && isRefusal(r.response.Status) {
		r.response = h.rx.refusalResponse(h.p, r.response)
	}
	answer, err := answerOf(h.p, r.response)
	if err != nil {
		return release(codeAnswerFailed, 0, err)
	}
	if transient(answer.Status) {
		return dedup.Result{Kind: dedup.ResultRelease, Reason: "transient", Err: fmt.Sprintf("the handler answered %d", answer.Status)},
			ended{reply: h.transientReply(answer)}
	}
	return dedup.Result{Kind: dedup.ResultDone, Response: answer}, ended{}
}

// refuse is the terminal answer to an event that will never be handled as it is.
func (h *held) refuse(code string, err error) (dedup.Result, ended) {
	problem := h.rx.problemReply(h.p, fail(code, err))
	return dedup.Result{
		Kind: dedup.ResultDead, Reason: code, Err: errText(err),
		Response: dedup.Response{Status: problem.status, Header: problem.header, Body: problem.body},
	}, ended{}
}

// transientReply passes a transient response on, which is not stored.
func (h *held) transientReply(a dedup.Response) *reply {
	header := a.Header.Clone()
	header.Set("Cache-Control", "no-store")
	if header.Get("Retry-After") == "" {
		header.Set("Retry-After", h.rx.retryAfter(0))
	}
	return &reply{status: a.Status, header: header, body: a.Body, code: codeAnswerFailed, event: h.rec.Event}
}

// isRefusal reports whether a response with a Refusal can have the status.
func isRefusal(status int) bool {
	return status == 0 || status >= 400 && status < 500 && !transient(status)
}

// transient reports whether a status says that the same delivery may succeed later.
func transient(status int) bool {
	switch status {
	case http.StatusRequestTimeout, http.StatusTooEarly, http.StatusTooManyRequests:
		return true
	}
	return status >= 500
}

// answerOf checks a handler's response and fills in its defaults. A response that no producer could act upon
// is an error of the handler.
func answerOf(p *producer.Producer, r *Response) (dedup.Response, error) {
	if r == nil {
		r = &Response{}
	}
	a := dedup.Response{Status: r.Status, Header: repeatable(r.Header), Body: r.Body}
	if a.Status == 0 && r.Refusal != nil { // of an event that was reopened: nobody gets it
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
		return a, fmt.Errorf("the handler refused the event with status %d, which does not refuse it for good", r.Status)
	case a.Status < 200, a.Status >= 300 && a.Status < 400, a.Status > 599, a.Status == http.StatusMultiStatus:
		return a, fmt.Errorf("the handler answered with status %s, which no producer may get", strconv.Itoa(a.Status))
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
