package receiver

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/netip"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/eyelet-dev/eyelet/dedup"
	"github.com/eyelet-dev/eyelet/internal/nearest"
	"github.com/eyelet-dev/eyelet/producer"
	"github.com/eyelet-dev/eyelet/verify"
)

// Kind is the kind of an [Observation].
type Kind string

// The kinds of observations.
const (
	KindDelivery Kind = "delivery" // a request was answered
	KindAttempt  Kind = "attempt"  // a handler was run
	KindHanging  Kind = "hanging"  // a handler still runs after its context ended; KindAttempt follows
	KindMissed   Kind = "missed"   // an event that did not arrive was found in a list of the vendor
	KindCompared Kind = "compared" // a comparison with such a list ended; Err is why it did not reach the end
)

// The codes of KindMissed.
const (
	MissedFetched verify.Code = "fetched"  // it was taken in from the list
	MissedAsked   verify.Code = "asked"    // the vendor was asked to send it again
	MissedGivenUp verify.Code = "given_up" // it was asked for 5 times, and did not arrive
)

// SameBytes is the result for a delivery whose signed content is known.
type SameBytes string

// The results for known signed content.
const (
	SameKnown       SameBytes = "known"       // the same event
	SameAgain       SameBytes = "again"       // another occurrence, which runs
	SameQuarantined SameBytes = "quarantined" // kept, but not run
	SameRefused     SameBytes = "refused"     // not kept
)

// Observation describes an event for metrics and live views. It holds no payload and no secret.
type Observation struct {
	Kind Kind
	// Endpoint, Type, ID and Event identify the event as far as they are known.
	Endpoint, Type, ID, Event string
	// Status and Code are the response to a delivery and its reason: "accepted", "replayed",
	// "signature_mismatch", ...
	Status int
	Code   verify.Code
	// SameBytes is the result for a delivery with known signed content, where no signed
	// identifier names the event. Else it is empty.
	SameBytes SameBytes
	// New marks a delivery with a new event, which was accepted or answered.
	New bool
	// Unverified marks a delivery that did not verify and was not refused for that
	// ([producer.Producer.MonitorUntil]).
	Unverified bool
	// Secret is which secret or key of the producer's scheme verified a delivery, from 1; 0 if that
	// is not known, and for deliveries that were not verified ([verify.Identity.Secret]).
	Secret int
	// Signed reports whether a verified delivery has a signed time, and SignedAge how long before
	// the delivery that was: negative if the sender's clock is ahead.
	Signed    bool
	SignedAge time.Duration
	// Handler, Attempt, State and Reason describe an attempt and its outcome.
	Handler string
	Attempt int
	State   dedup.State
	Reason  string
	// Took is the duration.
	Took time.Duration
	// Err is the private cause, for the log. Errors of handlers may quote the payload, so they
	// are reduced to their types.
	Err error
}

// reportDelivery logs and observes the response to a delivery, with the precise code, which
// responses may not reveal. It includes no payload, credential or signature.
func (rx *Receiver) reportDelivery(ctx context.Context, d *delivery, resp *reply, took time.Duration) {
	name := d.ep.p.Name
	if level := levelOf(resp); rx.log.Enabled(ctx, level) {
		attrs := append(requestAttrs(d.r, d.peer, d.target.shown(d.r)), slog.Int64("size", d.body.size()),
			slog.Int("status", resp.Status), slog.Duration("took", took))
		if resp.event != "" {
			attrs = append(attrs, slog.String("event", resp.event))
		}
		if resp.err != nil && !fromHandler(resp.err) { // a handler's error is stored with the event instead
			attrs = append(attrs, slog.String("why", resp.err.Error()))
		}
		attrs = append(attrs, requestIDAttr(ctx))
		rx.sampled.write(ctx, level, sampledKind{
			text: "delivery", endpoint: name, code: resp.code, known: resp.code != "" && d.permit.Known(),
		}, attrs...)
	}
	o := Observation{
		Kind: KindDelivery, Endpoint: name, Type: d.typ, ID: d.id, Event: resp.event,
		Status: resp.Status, Code: resp.code, Took: took, Err: observedError(resp.err),
		SameBytes: d.sameBytes, New: resp.fresh, Unverified: d.unverified != nil,
	}
	if !d.verified.IsZero() {
		o.Secret, o.Signed = d.Identity.Secret, !d.Identity.SignedAt.IsZero()
	}
	if o.Signed {
		o.SignedAge = d.verified.Sub(d.Identity.SignedAt)
	}
	rx.cfg.observe(ctx, rx.log, o)
}

// observe calls Config.Observe and recovers its panics.
func (c *Config) observe(ctx context.Context, log *slog.Logger, o Observation) {
	if c.Observe == nil {
		return
	}
	defer func() {
		if v := recover(); v != nil {
			log.Error("Config.Observe panicked", "type", fmt.Sprintf("%T", v), "stack", newPanic(v).stack)
		}
	}()
	c.Observe(ctx, o)
}

func levelOf(resp *reply) slog.Level {
	switch {
	case resp.code == codeInternal:
		return slog.LevelError
	case resp.Status >= 500:
		return slog.LevelWarn
	case resp.Status >= 400:
		return slog.LevelInfo
	}
	return slog.LevelDebug
}

func (rx *Receiver) serveNotFound(w http.ResponseWriter, r *http.Request, at target) {
	resp := rx.problemReply(&producer.Producer{}, fail(codeNotFound, rx.misplaced(at)))
	resp.send(w)
	rx.logUnknown(withRequestID(r.Context(), w, r), r, at)
	rx.cfg.observe(r.Context(), rx.log, Observation{Kind: KindDelivery, Status: resp.Status, Code: resp.code})
	rx.reportRefused(r.Context(), w, r, resp)
}

// misplaced is the reason for a 404 whose path has a prefix before one of our paths, or nil.
func (rx *Receiver) misplaced(at target) error {
	own := policyPath
	if i := strings.LastIndex(at.path, webhooksPath); i >= 0 {
		own = at.path[i:]
	}
	prefix := at.prefixOf(own)
	if prefix == "" || rx.at(own) == nil {
		return nil
	}
	return verify.Public(fmt.Sprintf("%s is served here, without %s before it; the program or proxy in front must "+
		"remove the prefix, in Go with http.StripPrefix(%q, rx.Handler())", own, prefix, prefix))
}

// maxLoggedPath bounds the logged path of a request, in bytes.
const maxLoggedPath = 128

// logUnknown logs a request to a path without an endpoint. The query is not logged, because it may
// hold a credential.
func (rx *Receiver) logUnknown(ctx context.Context, r *http.Request, at target) {
	if !rx.log.Enabled(ctx, slog.LevelInfo) {
		return
	}
	path := at.shown(r)
	attrs := append(requestAttrs(r, clientAddr(r, rx.cfg.TrustedProxies), path),
		slog.String("code", string(codeNotFound)), slog.Int64("size", r.ContentLength),
		slog.Any("nearest", nearestEndpoint{rx, path}), requestIDAttr(ctx))
	rx.unknown.write(ctx, path, attrs...)
}

// requestIDField is where middleware, or a proxy in front, puts the id of a request.
const requestIDField = "X-Request-Id"

// maxLoggedID bounds the logged id of a request, in bytes.
const maxLoggedID = 128

type requestIDKey struct{} // of a context: the id of the request

// withRequestID returns a context with the id of the request: that of middleware in front, which is
// in the response, or else that of the request.
func withRequestID(ctx context.Context, w http.ResponseWriter, r *http.Request) context.Context {
	id := cmp.Or(w.Header().Get(requestIDField), r.Header.Get(requestIDField))
	if id == "" {
		return ctx
	}
	return context.WithValue(ctx, requestIDKey{}, id[:min(len(id), maxLoggedID)])
}

// requestIDAttr is the id of the request in the log; loggers leave out an empty attribute.
func requestIDAttr(ctx context.Context) slog.Attr {
	id, ok := ctx.Value(requestIDKey{}).(string)
	if !ok {
		return slog.Attr{}
	}
	return slog.String("request_id", id)
}

// maxLoggedMethod bounds the logged method of a request, in bytes.
const maxLoggedMethod = 32

// requestAttrs describes a request in the log: its client, its method, and its path. A query may
// hold a credential.
func requestAttrs(r *http.Request, peer netip.Addr, path string) []slog.Attr {
	return []slog.Attr{
		slog.String("peer", peer.String()), slog.String("method", r.Method[:min(len(r.Method), maxLoggedMethod)]),
		slog.String("path", path),
	}
}

// BodyRead is how much of a body was read.
type BodyRead string

// How much of the body of a [Refused] was read.
const (
	BodyWhole   BodyRead = "whole"
	BodyPartial BodyRead = "partial" // it was too large, late, or cut off
	BodyUnread  BodyRead = "unread"  // the request was refused before
)

// Refused is a request that was answered with a status of 400 or more. It holds what a client
// sent, credentials included: do not store or show it without removing them. Its slices and maps
// must not be changed.
type Refused struct {
	Time     time.Time
	Endpoint string // empty if no endpoint has the path
	// Request is the request without its body. Its URL is the one that the producer called, as
	// the receiver located it; where it was not located, only the URL's path and query are known.
	// RequestURI is the target as received.
	Request *http.Request
	// Body is what was read of the body, according to BodyRead, and Declared its declared length
	// in bytes; -1 if there was none.
	Body     []byte
	BodyRead BodyRead
	Declared int64
	// Peer is the client, behind a trusted proxy too. The zero address is unknown. Known reports
	// that it has recently sent new events to the endpoint.
	Peer  netip.Addr
	Known bool
	// Code is the precise reason, which the response may not reveal, and Err its cause, reduced
	// to its type if a handler returned it. Err may be nil.
	Code verify.Code
	Err  error
	// Response is what the sender was told.
	Response dedup.Response
}

// reportRefused passes a refused delivery to Config.Refused.
func (d *delivery) reportRefused(ctx context.Context, w http.ResponseWriter, resp *reply) {
	if d.rx.cfg.Refused != nil && resp.Status >= http.StatusBadRequest {
		d.callRefused(ctx, w, resp)
	}
}

func (d *delivery) callRefused(ctx context.Context, w http.ResponseWriter, resp *reply) {
	request := d.Request
	if request == nil { // refused before its URL was located
		request = d.r
	}
	out := Refused{Endpoint: d.ep.p.Name, Request: request, Body: d.body.buf, BodyRead: BodyUnread, Peer: d.peer,
		Known: d.permit.Known()}
	if d.body.err != nil && len(d.body.part) > 0 {
		out.Body, out.BodyRead = d.body.part, BodyPartial
	} else if d.body.done && d.body.err == nil || d.body.declared == 0 {
		out.BodyRead = BodyWhole
	}
	d.rx.callRefused(ctx, w, resp, out)
}

// reportRefused passes a request that no endpoint received to Config.Refused.
func (rx *Receiver) reportRefused(ctx context.Context, w http.ResponseWriter, r *http.Request, resp *reply) {
	if rx.cfg.Refused == nil || resp.Status < http.StatusBadRequest {
		return
	}
	out := Refused{Request: r, BodyRead: BodyUnread, Peer: clientAddr(r, rx.cfg.TrustedProxies)}
	if r.ContentLength == 0 {
		out.BodyRead = BodyWhole
	}
	rx.callRefused(ctx, w, resp, out)
}

// callRefused calls Config.Refused and recovers its panics. It flushes the response first: small
// ones are otherwise sent when the request's goroutine ends.
func (rx *Receiver) callRefused(ctx context.Context, w http.ResponseWriter, resp *reply, out Refused) {
	defer func() {
		if v := recover(); v != nil {
			rx.refusedPanic.Do(func() {
				rx.log.Error("Config.Refused panicked", "type", fmt.Sprintf("%T", v), "stack", newPanic(v).stack)
			})
		}
	}()
	flush(w)
	if out.Request.Body != http.NoBody {
		bodyless := *out.Request
		bodyless.Body = http.NoBody
		out.Request = &bodyless
	}
	out.Time, out.Declared = time.Now(), out.Request.ContentLength
	out.Code, out.Err, out.Response = resp.code, observedError(resp.err), resp.Response
	rx.cfg.Refused(ctx, out)
}

// flush sends what was written. Some wrappers panic because the writer below them cannot.
func flush(w http.ResponseWriter) {
	defer func() { _ = recover() }()
	_ = http.NewResponseController(w).Flush()
}

// nearestEndpoint is the path of the endpoint that a path probably means. It is searched only if
// its line is written.
type nearestEndpoint struct {
	rx   *Receiver
	path string
}

// LogValue implements slog.LogValuer. An endpoint whose name ends the path is the nearest, in any
// letter case.
func (n nearestEndpoint) LogValue() slog.Value {
	best, least := "", -1
	for name := range n.rx.endpoints {
		distance := 0
		if at := len(n.path) - len("/"+name); at < 0 || !strings.EqualFold(n.path[at:], "/"+name) {
			distance = 1 + nearest.Distance(n.path, webhooksPath+name)
		}
		if least < 0 || distance < least || distance == least && name < best {
			best, least = name, distance
		}
	}
	return slog.StringValue(webhooksPath + best)
}

// observedError is the cause for observers, reduced to its type if a handler returned it.
func observedError(err error) error {
	if fromHandler(err) {
		return typeOnly(err)
	}
	return err
}

func typeOnly(err error) error {
	if err == nil {
		return nil
	}
	return errors.New(errType(err))
}

// fromHandler reports whether an error may hold the text of a handler's error, which may quote
// the payload.
func fromHandler(err error) bool {
	codes := []verify.Code{codeAnswerFailed, codeAnswerTimeout, codePostponed, codeRejected, codeUndecodable}
	f, ok := errors.AsType[*failure](err)
	return ok && slices.Contains(codes, f.code)
}

// panicText describes a recovered value without its text, which might be payload.
func panicText(v any) string {
	if err, ok := v.(runtime.Error); ok {
		return err.Error()
	}
	return fmt.Sprintf("%T", v)
}

func (rx *Receiver) reportAnswerRun(ctx context.Context, r *answerRun, result dedup.Result, cause error) {
	state := dedup.Done
	switch result.Kind {
	case dedup.ResultDead:
		state = dedup.Dead
	case dedup.ResultRelease:
		state = dedup.Pending
	}
	o := r.observation(KindAttempt, state, result.Reason, typeOnly(cause))
	if state != dedup.Done {
		args := append(eventAttrs(&r.rec), "handler", o.Handler, "attempt", o.Attempt, "reason", o.Reason,
			"took", o.Took, rx.cfg.errorAttr(cause), requestIDAttr(ctx))
		if p, ok := errors.AsType[*panicked](cause); ok {
			args = append(args, "panic", panicText(p.value), "stack", p.stack)
		}
		rx.log.WarnContext(ctx, "answer handler failed", args...)
	}
	rx.cfg.observe(ctx, rx.log, o)
}
