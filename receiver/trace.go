package receiver

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"github.com/eyelet-dev/eyelet/dedup"
)

// The attributes of spans: those of the OpenTelemetry semantic conventions 1.43.0, in which HTTP
// is stable and messaging is in development, and our own. None has text of an unverified request.
const (
	attrMethod      = attribute.Key("http.request.method")
	attrRoute       = attribute.Key("http.route")
	attrStatus      = attribute.Key("http.response.status_code")
	attrErrorType   = attribute.Key("error.type")
	attrSystem      = attribute.Key("messaging.system")
	attrOperation   = attribute.Key("messaging.operation.name")
	attrOperationOf = attribute.Key("messaging.operation.type")
	attrDestination = attribute.Key("messaging.destination.name")
	attrMessage     = attribute.Key("messaging.message.id")
	attrBatch       = attribute.Key("messaging.batch.message_count")

	attrCode    = attribute.Key("eyelet.code")       // of the response: accepted, signature_mismatch, ...
	attrEvent   = attribute.Key("eyelet.event")      // our id of the event
	attrType    = attribute.Key("eyelet.event.type") // the sender's
	attrHandler = attribute.Key("eyelet.handler")
	attrAttempt = attribute.Key("eyelet.attempt")
	attrResult  = attribute.Key("eyelet.result") // of an attempt: done, retry, postponed, dead or released
	attrReason  = attribute.Key("eyelet.reason") // of the result, as dead letters have it
)

const (
	tracedSystem = "eyelet"
	spanClaim    = "claim"    // the name of the span of the durable step
	spanProcess  = "process " // followed by the name of the handler
)

// startDelivery starts the span of a delivery. It continues a span of this process, such as that of
// middleware, which gets the route. The sender's trace is only linked: otherwise any client could
// choose the trace of a delivery, and force it to be sampled.
func startDelivery(ctx context.Context, d *delivery) context.Context {
	method := d.r.Method
	if !slices.Contains(d.ep.p.Methods, method) {
		method = "_OTHER"
	}
	route := webhooksPath + d.ep.p.Name
	options := []trace.SpanStartOption{trace.WithAttributes(attrMethod.String(method), attrRoute.String(route))}
	here := trace.SpanFromContext(ctx)
	if at := here.SpanContext(); at.IsValid() && !at.IsRemote() {
		here.SetAttributes(attrRoute.String(route))
	} else {
		options = append(options, trace.WithNewRoot(), trace.WithSpanKind(trace.SpanKindServer))
	}
	if lines := d.r.Header["Traceparent"]; len(lines) == 1 {
		options = appendLink(options, lines[0])
	}
	ctx, d.span = d.rx.cfg.Tracer.Start(ctx, method+" "+route, options...)
	return ctx
}

// endDelivery adds what became of the delivery to its span.
func endDelivery(d *delivery, resp *reply) {
	attrs := []attribute.KeyValue{attrStatus.Int(resp.Status), attrCode.String(string(resp.code))}
	if resp.event != "" {
		attrs = append(attrs, attrEvent.String(resp.event))
	}
	if len(d.items) == 1 { // it is verified
		attrs = append(attrs, attrMessage.String(d.id), attrType.String(d.typ))
	}
	if resp.Status >= http.StatusInternalServerError {
		attrs = append(attrs, attrErrorType.String(string(resp.code)))
		d.span.SetStatus(codes.Error, "")
	}
	d.span.SetAttributes(attrs...)
}

// claimInSpan takes one durable step in a span of its own.
func claimInSpan(ctx context.Context, rx *Receiver, claims []dedup.Claim) (decisions []dedup.Decision, err error) {
	ctx, span := rx.cfg.Tracer.Start(ctx, spanClaim, trace.WithAttributes(attrBatch.Int(len(claims))))
	defer span.End()
	if decisions, err = rx.cfg.Store.Claim(rx.storing.Context(ctx), claims...); err != nil {
		span.SetAttributes(attrErrorType.String(errType(err)))
		span.SetStatus(codes.Error, "")
	}
	return decisions, err
}

// startSpan starts the span of a run, with a tracer. A run in a delivery belongs to its trace. Any
// other begins a trace of its own. Each is linked to the delivery that brought the event.
func (l *leasedRun) startSpan(ctx context.Context, t trace.Tracer) context.Context {
	if t == nil {
		return ctx
	}
	rec, task := &l.rec, l.task()
	options := []trace.SpanStartOption{
		trace.WithSpanKind(trace.SpanKindConsumer),
		trace.WithAttributes(
			attrSystem.String(tracedSystem), attrOperation.String("process"), attrOperationOf.String("process"),
			attrDestination.String(rec.Payload.Endpoint), attrMessage.String(rec.Key.ID), attrEvent.String(rec.Event),
			attrType.String(rec.Payload.Type), attrHandler.String(task.Handler), attrAttempt.Int(task.Attempt),
		),
	}
	options = appendLink(options, rec.Payload.Attributes[traceAttribute])
	ctx, l.span = t.Start(ctx, spanProcess+task.Handler, options...)
	return ctx
}

// endSpan ends the span of a run, if it has one. The texts of errors are left out: they may quote
// payload.
func (l *leasedRun) endSpan(result dedup.Result, cause error) {
	span := l.span
	if span == nil {
		return
	}
	name, failed := "done", true
	switch {
	case result.Kind == dedup.ResultDone:
		failed = false
	case result.Kind == dedup.ResultDead:
		name = "dead"
	case result.Kind == dedup.ResultRelease:
		name, failed = "released", result.Reason != reasonStopped
	case result.Postponed:
		name, failed = "postponed", false
	default:
		name = "retry"
	}
	span.SetAttributes(attrResult.String(name))
	if result.Reason != "" {
		span.SetAttributes(attrReason.String(result.Reason))
	}
	if failed {
		kind := result.Reason
		if cause != nil {
			kind = errType(cause)
		}
		span.SetAttributes(attrErrorType.String(kind))
		span.SetStatus(codes.Error, "")
	}
	span.End()
}

// Traceparent returns the field of the span in ctx for requests to other services (W3C Trace
// Context, section 3.2), "" without a span. Handlers of a receiver with [Config.Tracer] have the
// span of their attempt in their context.
func Traceparent(ctx context.Context) string {
	return traceparentOf(trace.SpanContextFromContext(ctx))
}

func traceparentOf(at trace.SpanContext) string {
	if !at.IsValid() {
		return ""
	}
	return "00-" + at.TraceID().String() + "-" + at.SpanID().String() + "-" + at.TraceFlags().String()
}

// sampledTrace returns the Traceparent of a span that is sampled, which is stored with the event;
// else "".
func sampledTrace(span trace.Span) string {
	if span == nil || !span.SpanContext().IsSampled() {
		return ""
	}
	return traceparentOf(span.SpanContext())
}

// appendLink adds a link to the span that a field traceparent names, if it is well-formed.
func appendLink(options []trace.SpanStartOption, field string) []trace.SpanStartOption {
	if to, ok := parseTraceparent(field); ok {
		options = append(options, trace.WithLinks(trace.Link{SpanContext: to}))
	}
	return options
}

// parseTraceparent reads a field as W3C Trace Context section 3.2 says: later versions may have
// more after the flags.
func parseTraceparent(field string) (trace.SpanContext, bool) {
	const size = len("00-") + 32 + len("-") + 16 + len("-01")
	if len(field) < size || len(field) > maxTraceparent || strings.Trim(field[:size], "0123456789abcdef-") != "" {
		return trace.SpanContext{}, false
	}
	version, rest := field[:2], field[size:]
	if version > "fe" || version == "00" && rest != "" || rest != "" && rest[0] != '-' ||
		field[2] != '-' || field[35] != '-' || field[52] != '-' {
		return trace.SpanContext{}, false
	}
	traceID, err1 := trace.TraceIDFromHex(field[3:35])
	spanID, err2 := trace.SpanIDFromHex(field[36:52])
	_, err3 := strconv.ParseUint(version, 16, 8)
	flags, err4 := strconv.ParseUint(field[53:size], 16, 8)
	return trace.NewSpanContext(trace.SpanContextConfig{
		TraceID: traceID, SpanID: spanID, TraceFlags: trace.TraceFlags(flags) & trace.FlagsSampled, Remote: true,
	}), errors.Join(err1, err2, err3, err4) == nil
}

// maxTraceparent bounds the field of a sender, in bytes.
const maxTraceparent = 256
