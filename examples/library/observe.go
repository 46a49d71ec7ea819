package library

import (
	"context"
	"errors"
	"slices"

	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/propagation"

	"github.com/eyelet-dev/eyelet/receiver"
	"github.com/eyelet-dev/eyelet/receiver/metrics"
)

// withMetrics registers the metrics of a receiver, before it is opened.
func withMetrics(c *receiver.Config, r prometheus.Registerer) error {
	counts := metrics.New()
	c.Observe = counts.Observe
	return errors.Join(r.Register(counts), r.Register(metrics.Store(c.Store)))
}

// traced runs each attempt of a handler in a span. It continues the producer's trace only where
// the signature covers it: any client can add fields to a captured delivery.
func traced(next receiver.Next) receiver.Next {
	return func(ctx context.Context, ev receiver.Event[any]) (*receiver.Response, error) {
		if slices.Contains(ev.SignedFields, "traceparent") {
			ctx = propagation.TraceContext{}.Extract(ctx, propagation.HeaderCarrier(ev.Header))
		}
		ctx, span := otel.Tracer("webhooks").Start(ctx, ev.Endpoint+" "+ev.Type)
		defer span.End()
		response, err := next(ctx, ev)
		if err != nil {
			span.RecordError(err)
		}
		return response, err
	}
}
