package receiver

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/eyelet-dev/eyelet/dedup"
	"github.com/eyelet-dev/eyelet/producer"
)

// Handler handles events of one producer. [On], [Answer], [Inline], [OnTx] and [AnswerTx] make
// one.
type Handler struct {
	name, producer, pattern       string
	answer, inline, other, yields bool
	retired, orphaned, unverified bool

	lane, newest producer.Extractor
	when         *producer.Condition // nil for none
	future       time.Duration       // by which a version may be ahead of the clock

	concurrency, breaker int
	rate                 producer.Rate

	with []func(Next) Next
	// run decodes the data and calls the user's function; the Response is nil for On.
	run func(ctx context.Context, ev Event[any], decode decodeFunc) (*Response, error)
	// next is run inside its middleware.
	next  Next
	route *inlineRoute // of an Inline handler in a registry
	tx    reflect.Type // of the transaction that it joins; nil for none
	err   error
}

type decodeFunc func(contentType string, body []byte, v any) error

// Next runs a handler; middleware wraps it. The Data of the event is not decoded yet.
type Next func(ctx context.Context, ev Event[any]) (*Response, error)

// On makes a handler whose events are stored and acknowledged first. Workers then run fn, with
// retries, until it succeeds, rejects the event ([Reject]) or has no attempts left.
//
// The pattern is an exact event type, "prefix*", or "*". Every matching On handler has a task of
// its own for an event, with its own attempts, outcome and dead letter.
//
// T is decoded by encoding/json or [Config.Decode]; []byte and json.RawMessage get the bytes,
// url.Values a parsed form. The data of a structured CloudEvent is decoded, not its envelope. A
// payload that does not decode becomes a dead letter without retries.
//
// A panic of fn counts as an error. The context ends after [Config.HandlerTimeout]. If fn still
// runs then, it occupies its worker until it returns.
func On[T any](producer, pattern string, fn func(context.Context, Event[T]) error) Handler {
	return newHandler(producer, pattern, fn == nil, func(ctx context.Context, ev Event[T]) (*Response, error) {
		return nil, fn(ctx, ev)
	})
}

// Answer makes a handler whose result is the response. It runs while the producer waits. Its
// response is stored before it is sent, and sent again to duplicates. No other handler may match
// the same events.
//
// The context of fn does not end when the producer hangs up, so that work is never left half
// done. T is decoded as for [On]. When a dead event is reopened, a worker runs fn; its response
// is then neither sent nor stored.
func Answer[T any](producer, pattern string, fn func(context.Context, Event[T]) (Response, error)) Handler {
	h := newHandler(producer, pattern, fn == nil, func(ctx context.Context, ev Event[T]) (*Response, error) {
		response, err := fn(ctx, ev)
		return &response, err
	})
	h.answer = true
	return h.Unverified(false)
}

// OnTx makes a handler like [On] whose effect and outcome are one commit of the store: what fn does
// through tx happens exactly once. What it does by other means may happen again.
//
// Tx is a type of transaction that the store offers, such as pgx.Tx and *sql.Tx in pgstore. [Open]
// refuses a store without it. If fn returns an error, panics, or lost its lease meanwhile, what it
// did through tx is undone. fn must not end the transaction: Commit is an error, and so is nil
// after Rollback.
//
// fn runs again at once, as the same attempt, if the database undid the transaction in favor of
// another one. An attempt whose transaction could not begin does not count.
func OnTx[Tx, T any](producer, pattern string, fn func(context.Context, Tx, Event[T]) error) Handler {
	return newTxHandler(producer, pattern, fn == nil, func(ctx context.Context, tx Tx, ev Event[T]) (*Response, error) {
		return nil, fn(ctx, tx, ev)
	})
}

// AnswerTx makes a handler like [Answer] whose response, effect and outcome are one commit of the
// store, as [OnTx] does. A response that is not stored, such as a 503, undoes the effect.
func AnswerTx[Tx, T any](
	producer, pattern string, fn func(context.Context, Tx, Event[T]) (Response, error),
) Handler {
	h := newTxHandler(producer, pattern, fn == nil, func(ctx context.Context, tx Tx, ev Event[T]) (*Response, error) {
		response, err := fn(ctx, tx, ev)
		return &response, err
	})
	h.answer = true
	return h
}

// txKey is the key of the transaction in the context of its handler.
type txKey struct{}

var errNoTx = errors.New("the handler's context has no transaction: " +
	"middleware must pass on a context that is made from its own")

func newTxHandler[Tx, T any](
	producer, pattern string, missing bool, fn func(context.Context, Tx, Event[T]) (*Response, error),
) Handler {
	h := newHandler(producer, pattern, missing, func(ctx context.Context, ev Event[T]) (*Response, error) {
		tx, ok := ctx.Value(txKey{}).(Tx)
		if !ok {
			return nil, errNoTx
		}
		return fn(ctx, tx, ev)
	})
	h.tx = reflect.TypeFor[Tx]()
	return h.Unverified(false)
}

// joins returns an error if the handler wants a transaction that the store does not offer.
func (h *Handler) joins(s dedup.Store) error {
	if h.tx == nil {
		return nil
	}
	t, ok := s.(dedup.Transactor)
	if !ok {
		return fmt.Errorf("it joins a transaction of the store, and %T has none: "+
			"use On or Answer, or a store in PostgreSQL (pgstore)", s)
	}
	if types := t.TxTypes(); !slices.Contains(types, h.tx) {
		return fmt.Errorf("it joins a transaction of type %v, and %T offers %v", h.tx, s, types)
	}
	return nil
}

func newHandler[T any](
	producer, pattern string, missing bool, fn func(context.Context, Event[T]) (*Response, error),
) Handler {
	if missing {
		return Handler{producer: producer, pattern: pattern, err: errors.New("the function is nil")}
	}
	run := func(ctx context.Context, ev Event[any], decode decodeFunc) (*Response, error) {
		typed, err := decodeEvent[T](ev, decode)
		if err != nil {
			return nil, err
		}
		return fn(ctx, typed)
	}
	return Handler{producer: producer, pattern: pattern, run: run, unverified: true}
}

// Otherwise makes the handler match only events that no other handler of its producer matches. A
// handler whose condition does not hold ([Handler.When]) matches none.
func (h Handler) Otherwise() Handler { h.other = true; return h }

// Named sets the stable name, under which tasks are stored. Defaults to producer and pattern
// with a slash between them. A task whose name no handler has becomes a dead letter.
func (h Handler) Named(name string) Handler { h.name = name; return h }

// Retired makes the handler take no new events: it only runs the tasks that it has, until they have
// their outcomes. Its producer need not exist any more. Use it to remove a handler without dead
// letters: as retired first, and from the configuration once it has no tasks. An [Inline] handler
// cannot be retired, because its route runs it.
func (h Handler) Retired() Handler { h.retired = true; return h }

// Orphaned is [Handler.Retired], but the tasks that the handler has become dead letters
// (handler_gone) at once.
func (h Handler) Orphaned() Handler { h.retired, h.orphaned = true, true; return h }

// Unverified is whether the handler gets events whose deliveries do not verify
// ([producer.Producer.MonitorUntil], [Event.Unverified]). Defaults to true for On, and to false for
// OnTx and package once. A handler that answers never gets one.
func (h Handler) Unverified(take bool) Handler { h.unverified = take; return h }

// With wraps the handler in middleware, the first one outermost. [Open] calls each function
// once. The Next that it returns is called for every attempt, concurrently.
func (h Handler) With(middleware ...func(Next) Next) Handler {
	h.with = append(h.with[:len(h.with):len(h.with)], middleware...)
	return h
}

// Lane makes tasks with the same value of the extractor run one after another in accepted order.
// Events without a value run unordered. A task that fails holds up the later ones of its lane
// until it has its outcome, unless the handler has [Handler.LaneYields].
func (h Handler) Lane(by producer.Extractor) Handler { h.lane = by; return h }

// LaneYields lets later tasks of a lane run, out of order, while a task waits for its retry. The
// retry then waits until the lane is idle. Two tasks of a lane still never run at once. Requires
// [Handler.Lane].
func (h Handler) LaneYields() Handler { h.yields = true; return h }

// Newest is a fence in every lane against older events. The extractor reads the version of an
// event: a number, a time (RFC 3339, or since 1970 in seconds, milliseconds or microseconds, of 10,
// 13 or 16 digits), or a text that is ordered byte by byte, of at most [dedup.MaxVersion] bytes.
// Once an event of a lane was handled successfully, an older one is stale: its task is done with
// the reason "stale", and fn does not run. Events of the same version run. A dead letter does not
// count as handled.
//
// An event without a lane or a version runs. So does one of a time that is ahead of the clock by
// more than the tolerance of its producer. Neither makes others stale. Versions of different kinds
// are not compared.
//
// With [OnTx] an older event never has an effect after a newer one. Other handlers may have one if
// they outlast their lease, or fail after their effect: compare [Event.Version] where it is made.
//
// Requires [Handler.Lane], and signatures that bind what both extractors read. Only On and OnTx
// have a fence. [dedup.Fence] says how long it is kept.
func (h Handler) Newest(by producer.Extractor) Handler { h.newest = by; return h }

// When makes the handler match only events for which the condition holds, by what their delivery
// says when it is accepted. Of a batch each item counts by itself, as for lanes. What the condition
// decided is never decided again: a duplicate, a retry or a changed configuration does not run the
// event. An event that no handler matches is stored with the names of those whose conditions did
// not hold; a task for one of them can be added later.
//
// [Open] refuses a condition over what signatures do not bind ([producer.Condition.Unbound]), and
// one of an [Inline] handler. [Answer] handlers that all have conditions may match the same types:
// the first one in the configuration whose condition holds answers. Beside an Answer handler an On
// handler of the same types is [Handler.Otherwise].
func (h Handler) When(c producer.Condition) Handler { h.when = &c; return h }

// Names returns the name of the handler and that of its producer.
func (h Handler) Names() (handler, producer string) {
	return cmp.Or(h.name, h.producer+"/"+h.pattern), h.producer
}

// Concurrency bounds how many tasks of the handler run at once in this receiver; the others wait in
// the store. Defaults to all workers ([Config.Workers]).
func (h Handler) Concurrency(tasks int) Handler { h.concurrency = tasks; return h }

// Rate bounds how many tasks of the handler start per time in this receiver, retries included, by
// the monotonic clock; the others wait in the store. Defaults to no bound.
func (h Handler) Rate(r producer.Rate) Handler { h.rate = r; return h }

// Breaker pauses the handler when so many different events, at least 2 and of at least two lanes,
// failed without a success between: an event that always fails does not stop the others. An event
// without a lane counts as a lane of its own. A failure is an attempt that is retried or leaves a
// dead letter, but not one that was postponed.
//
// After 30 seconds, which double up to 10 minutes, one event is tried; its success ends the pause.
// [Receiver.Resume] ends it at once. Receivers of a shared store are paused together. Defaults to
// none.
func (h Handler) Breaker(events int) Handler { h.breaker = events; return h }

// checkLimits lists the mistakes in the limits of a handler.
func (h *Handler) checkLimits() (errs faults) {
	errs.when(h.concurrency < 0, "the concurrency must not be negative")
	errs.when(h.breaker < 0 || h.breaker == 1, "a breaker needs at least 2 events")
	if err := h.rate.WithDefaults().Check(); err != nil {
		errs = append(errs, err)
	}
	errs.when((h.answer || h.inline) && (h.concurrency != 0 || h.breaker != 0 || h.rate != (producer.Rate{})),
		"an Answer or Inline handler has no concurrency, rate or breaker: set those of its producer, or use On")
	return errs
}

func (h *Handler) matches(typ string) bool { return dedup.MatchType(h.pattern, typ) }

// compose wraps run in the middleware.
func (h *Handler) compose(decode decodeFunc) {
	run := h.run
	h.next = func(ctx context.Context, ev Event[any]) (*Response, error) { return run(ctx, ev, decode) }
	for _, wrap := range slices.Backward(h.with) {
		h.next = wrap(h.next)
	}
}

// laneOf returns the lane of the handler's task for an item of a delivery, "" for none. Its
// error is the extractor's.
//
// The lane is a digest of endpoint (NAME/TENANT), handler and value, each prefixed with its length.
// Lanes of different handlers never collide, and no byte of the payload ends up in a key of the
// store. A collision of two values in 128 bits would only make them wait for each other.
func (h *Handler) laneOf(d *producer.Delivery, it producer.Item, tenant string) (string, error) {
	if h.lane == nil {
		return "", nil
	}
	value, err := h.lane.Extract(itemView(d, it))
	if err != nil || value == "" {
		return "", err
	}
	endpoint := h.producer
	if tenant != "" {
		endpoint += "/" + tenant
	}
	var b []byte
	for _, part := range [...]string{endpoint, h.name, value} {
		b = append(binary.AppendUvarint(b, uint64(len(part))), part...)
	}
	sum := sha256.Sum256(b)
	lane := base64.RawURLEncoding.EncodeToString(sum[:16])
	if h.yields {
		lane = dedup.LaneYields + lane
	}
	return lane, nil
}

// consumes lists what lane, version and condition read, as [producer.Extractor.Consumes] does.
func (h *Handler) consumes() (parts []string) {
	for _, x := range [...]producer.Extractor{h.lane, h.newest} {
		if x != nil {
			parts = append(parts, x.Consumes()...)
		}
	}
	if h.when != nil {
		parts = append(parts, h.when.Consumes()...)
	}
	return parts
}

// itemView returns the delivery as extractors see it for one of its items.
func itemView(d *producer.Delivery, it producer.Item) *producer.Delivery {
	if it.Body == nil {
		return d
	}
	view := *d
	view.Body = it.Body
	return &view
}

// versionOf returns the version of an item of a delivery, "" for none.
func (h *Handler) versionOf(d *producer.Delivery, it producer.Item) (string, error) {
	version, err := h.newest.Extract(itemView(d, it))
	if err == nil && (len(version) > dedup.MaxVersion || !utf8.ValidString(version) ||
		strings.ContainsFunc(version, unicode.IsControl)) {
		err = errors.New("not a version")
	}
	return version, err
}

// isAhead reports whether a version is a time that is too far ahead to make others stale.
func (h *Handler) isAhead(version string, clock func() time.Time) bool {
	if version == "" {
		return false
	}
	at, ok := dedup.VersionTime(version)
	return ok && at.Sub(clock()) > h.future
}

// checkNewest lists what is missing for the fence of a handler.
func (h *Handler) checkNewest(p *producer.Producer) (errs faults) {
	if h.newest == nil {
		return nil
	}
	errs.when(h.answer || h.inline, "an Answer or Inline handler has no fence: use On, or leave out Newest")
	errs.when(h.lane == nil, "Newest without a lane: set one with Lane")
	if p == nil || h.lane == nil {
		return errs
	}
	errs.when(p.Series != nil, "producer %q sends states, whose newest is kept anyway: leave out Newest", p.Name)
	for _, part := range slices.Concat(h.lane.Consumes(), h.newest.Consumes()) {
		errs.when(!p.Binds(part), "Newest: signatures of producer %q do not bind %s, so a changed copy of a delivery "+
			"could make other events stale: read lane and version from what every signature covers", p.Name, part)
	}
	return errs
}

// checkWhen lists why the handler cannot have its condition.
func (h *Handler) checkWhen(p *producer.Producer) (errs faults) {
	if h.when == nil {
		return nil
	}
	errs.when(h.inline, "an Inline handler has no condition, because its route takes all events: leave out When")
	if p == nil {
		return errs
	}
	for _, part := range h.when.Unbound(p) {
		errs.when(true, "When: signatures of producer %q do not bind %s, so a changed copy of a delivery that arrives "+
			"first could keep the event from its handlers: test what every signature covers", p.Name, part)
	}
	return errs
}
