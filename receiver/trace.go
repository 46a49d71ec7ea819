package receiver

import (
	"context"
	"net/http"
	"slices"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
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

// startClaim starts the span of a durable step, which end ends.
func startClaim(ctx context.Context, t trace.Tracer, claims int) (_ context.Context, end func(error)) {
	ctx, span := t.Start(ctx, spanClaim, trace.WithAttributes(attrBatch.Int(claims)))
	return ctx, func(err error) {
		if err != nil {
			span.SetAttributes(attrErrorType.String(errType(err)))
			span.SetStatus(codes.Error, "")
		}
		span.End()
	}
}

// startAttempt starts the span of an attempt. An attempt in a delivery belongs to its trace. Any
// other begins a trace of its own. Each is linked to the delivery that brought the event.
func startAttempt(
	ctx context.Context, t trace.Tracer, rec *dedup.Record, task *dedup.Task,
) (context.Context, trace.Span) {
	options := []trace.SpanStartOption{
		trace.WithSpanKind(trace.SpanKindConsumer),
		trace.WithAttributes(
			attrSystem.String(tracedSystem), attrOperation.String("process"), attrOperationOf.String("process"),
			attrDestination.String(rec.Payload.Endpoint), attrMessage.String(rec.Key.ID), attrEvent.String(rec.Event),
			attrType.String(rec.Payload.Type), attrHandler.String(task.Handler), attrAttempt.Int(task.Attempt),
		),
	}
	options = appendLink(options, rec.Payload.Attributes[traceAttribute])
	return t.Start(ctx, spanProcess+task.Handler, options...)
}

// endAttempt ends the span of an attempt. The texts of errors are left out: they may quote payload.
func endAttempt(span trace.Span, result dedup.Result, cause error) {
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
// span of their attempt in their context:
//
//	req.Header.Set("Traceparent", receiver.Traceparent(ctx))
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

// maxTraceparent bounds the field of a sender, in bytes.
const maxTraceparent = 256

// appendLink adds a link to the span that a field traceparent names, if it is well-formed.
func appendLink(options []trace.SpanStartOption, field string) []trace.SpanStartOption {
	if to := parseTraceparent(field); to.IsValid() {
		options = append(options, trace.WithLinks(trace.Link{SpanContext: to}))
	}
	return options
}

func parseTraceparent(field string) trace.SpanContext {
	if len(field) > maxTraceparent {
		return trace.SpanContext{}
	}
	fields := propagation.MapCarrier{"traceparent": field}
	return trace.SpanContextFromContext(propagation.TraceContext{}.Extract(context.Background(), fields))
}
