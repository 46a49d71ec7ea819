package receiver

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"
	"go.opentelemetry.io/otel/trace"

	"github.com/eyelet-dev/eyelet/dedup"
)

const (
	foreignTrace       = "4bf92f3577b34da6a3ce929d0e0e4736"
	foreignTraceparent = "00-" + foreignTrace + "-00f067aa0ba902b7-01"
)

// recorder collects the spans of a receiver in memory.
type recorder struct {
	*tracetest.InMemoryExporter
	provider *sdktrace.TracerProvider
}

func record(sampler sdktrace.Sampler) recorder {
	spans := tracetest.NewInMemoryExporter()
	return recorder{spans, sdktrace.NewTracerProvider(sdktrace.WithSyncer(spans), sdktrace.WithSampler(sampler))}
}

func (r recorder) tracer(c *Config) { c.Tracer = r.provider.Tracer("eyelet") }

// named waits for as many spans of a name, and returns them in the order of their end.
func (r recorder) named(t *testing.T, name string, n int) (found []tracetest.SpanStub) {
	t.Helper()
	waitFor(t, func() bool {
		found = slices.DeleteFunc(r.GetSpans(), func(s tracetest.SpanStub) bool { return s.Name != name })
		return len(found) >= n
	})
	return found
}

func attrsOf(s tracetest.SpanStub) map[attribute.Key]string {
	all := map[attribute.Key]string{}
	for _, kv := range s.Attributes {
		all[kv.Key] = kv.Value.String()
	}
	return all
}

func linksTo(s tracetest.SpanStub, to trace.SpanContext) bool {
	return slices.ContainsFunc(s.Links, func(l sdktrace.Link) bool {
		return l.SpanContext.TraceID() == to.TraceID() && l.SpanContext.SpanID() == to.SpanID()
	})
}

func TestSpansOfADeliveryAndItsAttempts(t *testing.T) {
	t.Parallel()
	spans, failed, sent := record(sdktrace.AlwaysSample()), false, make(chan string, 2)
	s := serve(t, apiProducer(), func(c *Config) { spans.tracer(c); c.BackoffBase = 1 },
		On("shop", "*", func(ctx context.Context, ev Event[[]byte]) error {
			if sent <- Traceparent(ctx); ev.Attributes[traceAttribute] != "" || ev.Extensions[traceAttribute] != "" {
				t.Error("the handler sees an internal attribute")
			}
			if failed = !failed; failed {
				return errors.New("secret-payload in an error")
			}
			return nil
		}).Named("work"))
	s.send(req{id: `"a1"`, typ: "order.paid", body: "secret-payload", header: http.Header{
		"Traceparent": {foreignTraceparent}, "Tracestate": {"a=secret-payload"},
	}})
	delivery := spans.named(t, "POST /webhooks/shop", 1)[0]
	claim := spans.named(t, "claim", 1)[0]
	attempts := spans.named(t, "process work", 2)

	if delivery.SpanKind != trace.SpanKindServer || delivery.Parent.IsValid() ||
		delivery.SpanContext.TraceID().String() == foreignTrace {
		t.Errorf("the delivery is a %v in trace %s of parent %v", delivery.SpanKind, delivery.SpanContext.TraceID(),
			delivery.Parent)
	}
	foreign, _ := parseTraceparent(foreignTraceparent)
	if len(delivery.Links) != 1 || !linksTo(delivery, foreign) {
		t.Errorf("links of the delivery: %v; want that of the sender", delivery.Links)
	}
	if claim.Parent.SpanID() != delivery.SpanContext.SpanID() {
		t.Error("the durable step is not in the delivery")
	}
	got := attrsOf(delivery)
	event := got[attrEvent]
	for key, want := range map[attribute.Key]string{
		attrMethod: "POST", attrRoute: "/webhooks/shop", attrStatus: "202", attrCode: "accepted", attrMessage: "a1",
		attrType: "order.paid",
	} {
		if got[key] != want {
			t.Errorf("delivery: %s is %q, want %q", key, got[key], want)
		}
	}
	for i, result := range []string{"retry", "done"} {
		a, got := attempts[i], attrsOf(attempts[i])
		if a.Parent.IsValid() || a.SpanContext.TraceID() == delivery.SpanContext.TraceID() ||
			len(a.Links) != 1 || !linksTo(a, delivery.SpanContext) {
			t.Errorf("attempt %d: parent %v, links %v; want a trace of its own, linked to the delivery",
				i+1, a.Parent, a.Links)
		}
		if a.SpanKind != trace.SpanKindConsumer || got[attrResult] != result || event == "" ||
			got[attrEvent] != event || got[attrMessage] != "a1" || got[attrDestination] != "shop" ||
			got[attrHandler] != "work" {
			t.Errorf("attempt %d: %v %v", i+1, a.SpanKind, got)
		}
		if want := result != "done"; (a.Status.Code == codes.Error) != want || (got[attrErrorType] != "") != want {
			t.Errorf("attempt %d: status %v, %q", i+1, a.Status, got[attrErrorType])
		}
		if in, _ := parseTraceparent(<-sent); in.SpanID() != a.SpanContext.SpanID() {
			t.Errorf("attempt %d: the context of the handler has another span", i+1)
		}
	}
	for _, span := range spans.GetSpans() {
		if text := strings.Join(slices.Collect(valuesOf(span)), " "); strings.Contains(text, "secret-payload") {
			t.Errorf("span %s has payload: %s", span.Name, text)
		}
	}
}

func valuesOf(s tracetest.SpanStub) func(yield func(string) bool) {
	return func(yield func(string) bool) {
		for _, value := range attrsOf(s) {
			if !yield(value) {
				return
			}
		}
		yield(s.Status.Description + s.SpanContext.TraceState().String())
		for _, l := range s.Links {
			yield(l.SpanContext.TraceState().String())
		}
	}
}

func TestAnAnswerIsInTheTraceOfItsDelivery(t *testing.T) {
	t.Parallel()
	spans := record(sdktrace.AlwaysSample())
	s := serve(t, apiProducer(), spans.tracer,
		Answer("shop", "*", func(context.Context, Event[[]byte]) (Response, error) {
			return Response{}, nil
		}).Named("quote"))
	s.send(req{id: `"a1"`, typ: "quote", body: "{}"})
	delivery, attempt := spans.named(t, "POST /webhooks/shop", 1)[0], spans.named(t, "process quote", 1)[0]
	if attempt.Parent.SpanID() != delivery.SpanContext.SpanID() || !linksTo(attempt, delivery.SpanContext) {
		t.Errorf("the attempt has parent %v and links %v", attempt.Parent, attempt.Links)
	}
}

// TestARefusedDeliveryHasNoIdentifierInItsSpan: nothing of an unverified request is in it.
func TestARefusedDeliveryHasNoIdentifierInItsSpan(t *testing.T) {
	t.Parallel()
	spans := record(sdktrace.AlwaysSample())
	s := serve(t, apiProducer(), spans.tracer)
	s.send(req{id: `"forged"`, typ: "forged", body: "forged", method: "FORGED"})
	s.send(req{id: `"forged"`, typ: "forged", body: "forged", header: http.Header{"Sig": {"signature_mismatch"}}})
	for i, name := range []string{"_OTHER /webhooks/shop", "POST /webhooks/shop"} {
		span := spans.named(t, name, 1)[0]
		for key, value := range attrsOf(span) {
			if strings.Contains(strings.ToLower(value), "forged") {
				t.Errorf("%s is %q", key, value)
			}
		}
		if got, want := attrsOf(span)[attrCode], []string{"method_not_allowed", "signature_mismatch"}[i]; got != want {
			t.Errorf("code %q, want %q", got, want)
		}
		if span.Status.Code == codes.Error {
			t.Errorf("%s: a refusal is not an error of the server", name)
		}
	}
}

// TestASenderCannotSwitchSamplingOn sends the sampled flag, and malformed fields.
func TestASenderCannotSwitchSamplingOn(t *testing.T) {
	t.Parallel()
	spans := record(sdktrace.ParentBased(sdktrace.NeverSample()))
	s := serve(t, apiProducer(), spans.tracer)
	r := s.send(req{id: `"a1"`, typ: "t", body: "{}", header: http.Header{"Traceparent": {foreignTraceparent}}})
	if r.status != http.StatusAccepted || len(spans.GetSpans()) > 0 {
		t.Errorf("status %d, %d spans; want none", r.status, len(spans.GetSpans()))
	}
	for rec, err := range s.store.List(t.Context(), dedup.Filter{}) {
		if err != nil || rec.Payload.Attributes[traceAttribute] != "" {
			t.Errorf("an unsampled trace is stored: %v, %v", rec.Payload.Attributes, err)
		}
	}
}

func TestTraceparentIsReadStrictly(t *testing.T) {
	t.Parallel()
	const ids = "-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7"
	for field, want := range map[string]bool{
		"00" + ids + "-01": true, "00" + ids + "-ff": true, "cc" + ids + "-01-later": true, "cc" + ids + "-01": true,
		"": false, "00": false, "ff" + ids + "-01": false, "00" + ids + "-01-": false, "00" + ids + "-01-x": false,
		"cc" + ids + "-01x": false, "00" + ids + "-1": false, "00" + ids + "--1": false, "0-" + ids + "-01": false,
		"00-00000000000000000000000000000000-00f067aa0ba902b7-01": false,
		"00-4bf92f3577b34da6a3ce929d0e0e4736-0000000000000000-01": false,
		strings.ToUpper("00" + ids + "-01"):                       false, "00" + ids + "-0\x00": false,
		"cc" + ids + "-01-" + strings.Repeat("a", 1<<16): false, " 00" + ids + "-01": false,
		"00_4bf92f3577b34da6a3ce929d0e0e4736_00f067aa0ba902b7_01": false,
	} {
		got, ok := parseTraceparent(field)
		if ok != want {
			t.Errorf("%.80q: %v", field, ok)
		}
		if ok && (got.TraceID().String() != foreignTrace || !got.IsSampled() || !got.IsRemote()) {
			t.Errorf("%.80q: %v", field, got)
		}
	}
	at, _ := parseTraceparent(foreignTraceparent)
	if got := Traceparent(trace.ContextWithSpanContext(t.Context(), at)); got != foreignTraceparent {
		t.Errorf("written as %q", got)
	}
	if got := Traceparent(t.Context()); got != "" {
		t.Errorf("without a span: %q", got)
	}
}

// TestASpanOfThisProcessIsTheParent checks middleware that starts a span, and middleware that only
// reads the field of the sender.
func TestASpanOfThisProcessIsTheParent(t *testing.T) {
	t.Parallel()
	spans := record(sdktrace.AlwaysSample())
	s := serve(t, apiProducer(), spans.tracer)
	ctx, outer := spans.provider.Tracer("middleware").Start(t.Context(), "outer")
	remote, _ := parseTraceparent(foreignTraceparent)
	for i, ctx := range []context.Context{ctx, trace.ContextWithRemoteSpanContext(t.Context(), remote)} {
		r := s.request(req{id: `"a"`, typ: "t", body: "{}"})
		r.RequestURI = "/webhooks/shop"
		s.rx.Handler().ServeHTTP(httptest.NewRecorder(), r.WithContext(ctx))
		span := spans.named(t, "POST /webhooks/shop", i+1)[i]
		if i == 0 && (span.Parent.SpanID() != outer.SpanContext().SpanID() || span.SpanKind != trace.SpanKindInternal) {
			t.Errorf("%v with parent %v, want the span of the middleware", span.SpanKind, span.Parent)
		}
		if i == 1 && (span.Parent.IsValid() || span.SpanKind != trace.SpanKindServer) {
			t.Errorf("%v with parent %v, want none", span.SpanKind, span.Parent)
		}
	}
	outer.End()
	if got := attrsOf(spans.named(t, "outer", 1)[0])[attrRoute]; got != "/webhooks/shop" {
		t.Errorf("the span of the middleware has route %q", got)
	}
}

// TestAttributesHaveTheNamesOfTheConventions compares with version 1.43.0.
func TestAttributesHaveTheNamesOfTheConventions(t *testing.T) {
	t.Parallel()
	for own, want := range map[attribute.Key]attribute.Key{
		attrMethod: semconv.HTTPRequestMethodKey, attrRoute: semconv.HTTPRouteKey,
		attrStatus: semconv.HTTPResponseStatusCodeKey, attrErrorType: semconv.ErrorTypeKey,
		attrSystem: semconv.MessagingSystemKey, attrOperation: semconv.MessagingOperationNameKey,
		attrOperationOf: semconv.MessagingOperationTypeKey, attrDestination: semconv.MessagingDestinationNameKey,
		attrMessage: semconv.MessagingMessageIDKey, attrBatch: semconv.MessagingBatchMessageCountKey,
	} {
		if own != want {
			t.Errorf("%s is called %s", own, want)
		}
	}
}
