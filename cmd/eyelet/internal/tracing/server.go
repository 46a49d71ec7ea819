package tracing

import (
	"context"
	"net"
	"net/http"
	"slices"

	"go.opentelemetry.io/contrib/instrumentation/net/http/otelhttp"
	"go.opentelemetry.io/otel/propagation"
)

// methods are those that a span names. Others are _OTHER.
var methods = []string{
	http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete,
	http.MethodConnect, http.MethodOptions, http.MethodTrace,
}

// Handler serves each request in a span of its own, to which the span of a delivery belongs:
// requests that no endpoint gets have one too. The sender's trace is linked, never continued. If
// tracing is off, Handler returns next.
//
// Spans have no text of a client. So otelhttp gets another request, without the path, the fields
// and the addresses.
func (p *Provider) Handler(next http.Handler) http.Handler {
	if p == nil {
		return next
	}
	traced := otelhttp.NewHandler(http.HandlerFunc(func(w http.ResponseWriter, shown *http.Request) {
		r := shown.Context().Value(requestKey{}).(*http.Request)
		next.ServeHTTP(w, r.WithContext(shown.Context()))
	}), "",
		otelhttp.WithTracerProvider(p.provider), otelhttp.WithPropagators(propagation.TraceContext{}),
		otelhttp.WithPublicEndpointFn(func(*http.Request) bool { return true }))
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		traced.ServeHTTP(w, shownRequest(r))
	})
}

type requestKey struct{}

// shownRequest returns what otelhttp may know of a request, which is in its context.
func shownRequest(r *http.Request) *http.Request {
	shown := &http.Request{Proto: r.Proto, TLS: r.TLS, Header: http.Header{}}
	if slices.Contains(methods, r.Method) {
		shown.Method = r.Method
	}
	if own, ok := r.Context().Value(http.LocalAddrContextKey).(net.Addr); ok {
		shown.Host = own.String()
	}
	if lines := r.Header["Traceparent"]; len(lines) == 1 {
		shown.Header["Traceparent"] = lines
	}
	return shown.WithContext(context.WithValue(r.Context(), requestKey{}, r))
}
