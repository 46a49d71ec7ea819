package library

import (
	"context"
	"log/slog"
	"slices"

	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/propagation"

	"github.com/eyelet-dev/eyelet"
	"github.com/eyelet-dev/eyelet/receiver"
)

// measured opens a receiver whose metrics are registered.
func measured(dir, secret string, r prometheus.Registerer) (*eyelet.Receiver, error) {
	return eyelet.Open(dir, eyelet.GitHub(secret), eyelet.On("github", "push", onPush), eyelet.Metrics(r))
}

type pushed struct{ Ref string }

func onPush(_ context.Context, ev eyelet.Event[pushed]) error {
	slog.Info("pushed", "ref", ev.Data.Ref)
	return nil
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
