package tracing

import (
	"encoding/json"
	"strconv"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/sdk/instrumentation"
	"go.opentelemetry.io/otel/sdk/resource"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
)

// The types are the JSON form of the messages of OTLP 1.10 (its specification, section JSON
// Protobuf Encoding): identifiers in hexadecimal, integers of 64 bits as text, enumerations as
// numbers.
type (
	exportRequest struct {
		ResourceSpans []resourceSpans `json:"resourceSpans"`
	}
	resourceSpans struct {
		Resource   attributes   `json:"resource"`
		SchemaURL  string       `json:"schemaUrl,omitempty"`
		ScopeSpans []scopeSpans `json:"scopeSpans"`
	}
	attributes struct {
		Attributes []keyValue `json:"attributes,omitempty"`
	}
	scopeSpans struct {
		Scope     scope      `json:"scope"`
		SchemaURL string     `json:"schemaUrl,omitempty"`
		Spans     []spanJSON `json:"spans"`
	}
	scope struct {
		Name    string `json:"name"`
		Version string `json:"version,omitempty"`
	}
	spanJSON struct {
		TraceID    string      `json:"traceId"`
		SpanID     string      `json:"spanId"`
		ParentID   string      `json:"parentSpanId,omitempty"`
		Flags      byte        `json:"flags"`
		Name       string      `json:"name"`
		Kind       int         `json:"kind"`
		Start      string      `json:"startTimeUnixNano"`
		End        string      `json:"endTimeUnixNano"`
		Attributes []keyValue  `json:"attributes,omitempty"`
		Events     []eventJSON `json:"events,omitempty"`
		Links      []linkJSON  `json:"links,omitempty"`
		Status     statusJSON  `json:"status"`
	}
	eventJSON struct {
		Time       string     `json:"timeUnixNano"`
		Name       string     `json:"name"`
		Attributes []keyValue `json:"attributes,omitempty"`
	}
	linkJSON struct {
		TraceID    string     `json:"traceId"`
		SpanID     string     `json:"spanId"`
		Flags      byte       `json:"flags"`
		Attributes []keyValue `json:"attributes,omitempty"`
	}
	statusJSON struct {
		Code    int    `json:"code,omitempty"`
		Message string `json:"message,omitempty"`
	}
	keyValue struct {
		Key   string         `json:"key"`
		Value map[string]any `json:"value"`
	}
)

// encode returns the request that exports spans.
func encode(spans []sdk.ReadOnlySpan) ([]byte, error) {
	type key struct {
		of    *resource.Resource
		scope instrumentation.Scope
	}
	groups := map[key]int{}
	var request exportRequest
	for _, s := range spans {
		k := key{s.Resource(), s.InstrumentationScope()}
		i, ok := groups[k]
		if !ok {
			i = len(request.ResourceSpans)
			groups[k] = i
			request.ResourceSpans = append(request.ResourceSpans, resourceSpans{
				Resource: attributes{encodeAttributes(k.of.Attributes())}, SchemaURL: k.of.SchemaURL(),
				ScopeSpans: []scopeSpans{{
					Scope: scope{Name: k.scope.Name, Version: k.scope.Version}, SchemaURL: k.scope.SchemaURL,
				}},
			})
		}
		of := &request.ResourceSpans[i].ScopeSpans[0]
		of.Spans = append(of.Spans, encodeSpan(s))
	}
	return json.Marshal(request)
}

func encodeSpan(s sdk.ReadOnlySpan) spanJSON {
	at := s.SpanContext()
	out := spanJSON{
		TraceID: at.TraceID().String(), SpanID: at.SpanID().String(), Flags: byte(at.TraceFlags()),
		Name: s.Name(), Kind: int(s.SpanKind()), Start: nanos(s.StartTime()), End: nanos(s.EndTime()),
		Attributes: encodeAttributes(s.Attributes()), Status: encodeStatus(s.Status()),
	}
	if parent := s.Parent(); parent.HasSpanID() {
		out.ParentID = parent.SpanID().String()
	}
	for _, e := range s.Events() {
		out.Events = append(out.Events, eventJSON{nanos(e.Time), e.Name, encodeAttributes(e.Attributes)})
	}
	for _, l := range s.Links() {
		out.Links = append(out.Links, encodeLink(l.SpanContext, l.Attributes))
	}
	return out
}

func encodeLink(to trace.SpanContext, attrs []attribute.KeyValue) linkJSON {
	return linkJSON{to.TraceID().String(), to.SpanID().String(), byte(to.TraceFlags()), encodeAttributes(attrs)}
}

// encodeStatus returns a status, whose numbers are others than those of the SDK.
func encodeStatus(s sdk.Status) statusJSON {
	switch s.Code {
	case codes.Ok:
		return statusJSON{Code: 1}
	case codes.Error:
		return statusJSON{Code: 2, Message: s.Description}
	default:
		return statusJSON{}
	}
}

func encodeAttributes(attrs []attribute.KeyValue) []keyValue {
	var out []keyValue
	for _, a := range attrs {
		out = append(out, keyValue{string(a.Key), encodeValue(a.Value)})
	}
	return out
}

// encodeValue returns a value. Those of types that no span of a receiver has are text.
func encodeValue(v attribute.Value) map[string]any {
	switch v.Type() {
	case attribute.BOOL:
		return map[string]any{"boolValue": v.AsBool()}
	case attribute.INT64:
		return map[string]any{"intValue": strconv.FormatInt(v.AsInt64(), 10)}
	case attribute.STRING:
		return map[string]any{"stringValue": v.AsString()}
	case attribute.STRINGSLICE: // of the resource
		values := []any{}
		for _, text := range v.AsStringSlice() {
			values = append(values, map[string]any{"stringValue": text})
		}
		return map[string]any{"arrayValue": map[string]any{"values": values}}
	default:
		return map[string]any{"stringValue": v.String()}
	}
}

func nanos(t time.Time) string { return strconv.FormatInt(t.UnixNano(), 10) }
