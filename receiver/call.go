package receiver

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"mime"
	"mime/multipart"
	"net/url"
	"runtime"
	"strings"
	"time"
	"unicode/utf8"

	"go.opentelemetry.io/otel/trace"

	"github.com/eyelet-dev/eyelet/dedup"
	"github.com/eyelet-dev/eyelet/producer"
)

// returned is a handler's result.
type returned struct {
	response  *Response
	err       error
	committed *dedup.Result // what the handler's transaction recorded; nil without one
	stale     bool          // the handler did not run, or its effect was undone: its event is stale
}

// start calls a handler in a goroutine of its own: nothing else survives runtime.Goexit, which is
// an error of the attempt. The channel gets exactly one value and never blocks.
func start(call func() returned) <-chan returned {
	out := make(chan returned, 1)
	go func() {
		r := returned{err: errGoexit}
		defer func() { out <- r }()
		r = call()
	}()
	return out
}

// leasedRun is one run of a handler for a task whose lease it holds: the common part of an attempt
// and an answerRun. The watchdog extends the lease.
type leasedRun struct {
	owner
	rec   dedup.Record
	lease dedup.Lease
	began time.Time  // when the handler started, before that when the run was made
	span  trace.Span // of the handler; nil without Config.Tracer, and before it runs

	// These belong to the watchdog.
	extendAt time.Time // when the lease is extended; zero is never
	hungAt   time.Time // when a handler that still runs counts as hung; zero is never
	at       int       // index in watchdog.runs, plus 1
	returned bool      // the handler has returned
	finishes bool      // its transaction records the outcome: an extension would wait for it
}

// owner is what the watchdog calls for a run. It calls cancel and hung only before the handler has
// returned.
type owner interface {
	log() *slog.Logger
	cancel(cause error) // ends the handler's context
	hung()              // called once
}

func (l *leasedRun) task() *dedup.Task { return &l.rec.Tasks[l.lease.Task] }

// observation describes the run without payload: handlers' errors only by their types.
func (l *leasedRun) observation(kind Kind, state dedup.State, reason string, err error) Observation {
	return Observation{
		Kind: kind, Endpoint: l.rec.Payload.Endpoint, Type: l.rec.Payload.Type, ID: l.rec.Key.ID, Event: l.rec.Event,
		Handler: l.task().Handler, Attempt: l.task().Attempt, State: state, Reason: reason,
		Took: time.Since(l.began), Err: err,
	}
}

// runLeased runs the handler of a leased task once, in a transaction if it joins one, unless the
// task is stale. The maps and the body of the record become the handler's. decide returns the
// outcome of what the handler returned; only a transaction needs it.
func (h *Handler) runLeased(
	ctx context.Context, w *watchdog, l *leasedRun, decide func(returned) dedup.Result,
) returned {
	if stale, err := l.stale(ctx, w.store); err != nil {
		return returned{err: Postpone(0, err)}
	} else if stale {
		return returned{stale: true}
	}
	if h.tx == nil {
		return h.call(ctx, eventOf(&l.rec, l.lease.Task))
	}
	var r returned
	began := false
	var result dedup.Result
	err := w.store.(dedup.Transactor).InTx(ctx, l.lease, h.tx, func(ctx context.Context, tx any) (dedup.Result, error) {
		w.finishing(l, false)
		began = true
		own := l.rec.Clone() // the handler may run again
		r = h.call(context.WithValue(ctx, txKey{}, tx), eventOf(&own, l.lease.Task))
		w.finishing(l, true)
		if r.err != nil {
			return dedup.Result{}, r.err
		}
		if result = decide(r); result.Kind != dedup.ResultDone {
			return result, errUndone
		}
		return result, nil
	})
	switch {
	case err == nil:
		r.committed = &result
		return r
	case !began:
		r.err = Postpone(0, err)
	case r.err == nil && errors.Is(err, dedup.ErrStale):
		r.stale = true
	case r.err == nil && !errors.Is(err, errUndone):
		r.err = err
	}
	w.finishing(l, false)
	return r
}

// stale reports whether a newer event of the task's lane was handled.
func (l *leasedRun) stale(ctx context.Context, store dedup.Store) (bool, error) {
	key, fenced := l.rec.FenceOf(l.lease.Task)
	if !fenced {
		return false, nil
	}
	note, err := store.Note(ctx, key)
	return err == nil && l.rec.Stale(l.lease.Task, note), err
}

// errUndone undoes the effect of a handler whose response is not the outcome.
var errUndone = errors.New("the response of the handler is not final")

// call runs the handler once. A panic is an error of the attempt.
func (h *Handler) call(ctx context.Context, ev Event[any]) (r returned) {
	defer func() {
		if v := recover(); v != nil {
			r = returned{err: newPanic(v)}
		}
	}()
	r.response, r.err = h.next(ctx, ev)
	probe(r.err)
	return r
}

// probe reads an error the way it is read later. A broken error, such as a nil pointer in an
// interface, then panics where the handler's panics are recovered.
func probe(err error) {
	if err == nil {
		return
	}
	_ = err.Error()
	_ = errType(err)
	_, _ = classify(err)
}

// eventOf returns the event of a task before decoding. It shares its maps and its body with the
// record.
func eventOf(rec *dedup.Record, task int) Event[any] {
	p, t := &rec.Payload, &rec.Tasks[task]
	ev := Event[any]{
		ID: rec.Key.ID, VendorID: p.VendorID, EventID: rec.Event,
		Producer: p.Producer, Endpoint: p.Endpoint, Principal: rec.Key.Principal,
		Type: p.Type, Handler: t.Handler, Version: t.Version, Attempt: t.Attempt, Accepted: rec.Accepted,
		KeyField: p.KeyField, Method: p.Method, Target: p.Target, Header: p.Header,
		Attributes: p.Attributes, Body: p.Body,
	}
	ev.describe()
	return ev
}

func decodeEvent[T any](ev Event[any], decode decodeFunc) (Event[T], error) {
	typed := Event[T]{
		ID: ev.ID, VendorID: ev.VendorID, EventID: ev.EventID,
		Producer: ev.Producer, Endpoint: ev.Endpoint, Principal: ev.Principal,
		Type: ev.Type, Handler: ev.Handler, Version: ev.Version, Attempt: ev.Attempt, Accepted: ev.Accepted,
		KeyField: ev.KeyField, Method: ev.Method, Target: ev.Target, Header: ev.Header,
		SignedFields: ev.SignedFields, SignatureLabel: ev.SignatureLabel,
		Source: ev.Source, Subject: ev.Subject, Time: ev.Time,
		Extensions: ev.Extensions, Attributes: ev.Attributes, Body: ev.Body, FormMember: ev.FormMember,
		Tenant: ev.Tenant, Fetched: ev.Fetched, Unverified: ev.Unverified,
	}
	media := ev.Header.Get("Content-Type")
	plain, err := decodedBody(ev.Header, ev.Body, maxPlain)
	if _, asForm := any(typed.Data).(url.Values); err == nil && !asForm {
		if event, ok := producer.FormValue(plain, ev.FormMember); ok {
			media, plain = "application/json", event
		}
	}
	if err == nil {
		err = decodeInto(&typed.Data, media, plain, decode)
	}
	if err != nil {
		return typed, &undecodable{reason{"payload is not a " + fmt.Sprintf("%T", (*T)(nil))[1:], err}}
	}
	return typed, nil
}

// decodeInto decodes a body without its coding. It does not let to escape, which would move the
// whole event to the heap.
func decodeInto[T any](to *T, contentType string, body []byte, decode decodeFunc) error {
	switch to := any(to).(type) {
	case *[]byte:
		*to = body
		return nil
	case *json.RawMessage:
		*to = body
		return nil
	case *url.Values:
		form, err := parseForm(contentType, body)
		*to = form
		return err
	}
	contentType, body, err := producer.CloudEventData(contentType, body)
	if err != nil {
		return err
	}
	data := new(T)
	err = decode(contentType, body, data)
	*to = *data
	return err
}

// parseForm reads a form, of a multipart one without its files.
func parseForm(contentType string, body []byte) (url.Values, error) {
	if kind, params, _ := mime.ParseMediaType(contentType); kind == "multipart/form-data" {
		form, err := multipart.NewReader(bytes.NewReader(body), params["boundary"]).ReadForm(math.MaxInt64) // no file
		if err != nil {
			return nil, err
		}
		return form.Value, nil
	}
	return url.ParseQuery(string(body))
}

// decodeJSON is the default of Config.Decode. Handlers of strings get text as it is.
// encoding/json refuses trailing data.
func decodeJSON(contentType string, body []byte, v any) error {
	if text, ok := v.(*string); ok && strings.HasPrefix(contentType, "text/") && utf8.Valid(body) {
		*text = string(body)
		return nil
	}
	return json.Unmarshal(body, v)
}

// errGoexit is the error of a handler that ended its goroutine.
var errGoexit = errors.New("the handler called runtime.Goexit")

// panicked is the error of a handler that panicked. Its text may hold payload; its stack holds
// none, because it lists functions and lines without arguments.
type panicked struct {
	value any
	stack []string
}

func (e *panicked) Error() string { return fmt.Sprintf("panic: %v", e.value) }

// newPanic records where the panic came from. The function that recovered it must call newPanic
// itself.
func newPanic(v any) *panicked {
	var pcs [64]uintptr
	frames := runtime.CallersFrames(pcs[:runtime.Callers(3, pcs[:])])
	e := &panicked{value: v}
	for {
		f, more := frames.Next()
		if f.Function != "" {
			e.stack = append(e.stack, fmt.Sprintf("%s (%s:%d)", f.Function, f.File, f.Line))
		}
		if !more {
			return e
		}
	}
}
