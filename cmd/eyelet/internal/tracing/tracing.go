package tracing

import (
	"context"
	"log/slog"
	"time"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace"
	"go.opentelemetry.io/otel/sdk/resource"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"
	"go.opentelemetry.io/otel/trace"
)

// Provider makes spans and sends them. Nil is off.
type Provider struct {
	provider *sdk.TracerProvider
	client   *client
	tracer   trace.Tracer
}

// closeTime is how long Close waits for the collector.
const closeTime = 3 * time.Second

// Open starts sending, nil if nothing says where to. version is that of the program.
func Open(o Options, version string, log *slog.Logger) (*Provider, error) {
	to, err := o.destination()
	if to == nil || err != nil {
		return nil, err
	}
	otel.SetErrorHandler(otel.ErrorHandlerFunc(func(err error) { log.Warn("tracing", "error", err) }))
	from, err := resource.New(context.Background(),
		resource.WithAttributes(semconv.ServiceName("eyelet"), semconv.ServiceVersion(version)),
		resource.WithTelemetrySDK(), resource.WithHost(), resource.WithFromEnv())
	if err != nil {
		log.Warn("the resource of spans is incomplete", "error", err)
	}
	c := newClient(to, log)
	exporter, err := otlptrace.New(context.Background(), c)
	if err != nil {
		return nil, err
	}
	options := []sdk.TracerProviderOption{sdk.WithResource(from), sdk.WithBatcher(exporter)}
	if o.Sample > 0 {
		options = append(options, sdk.WithSampler(sdk.ParentBased(sdk.TraceIDRatioBased(o.Sample))))
	}
	p := &Provider{client: c, provider: sdk.NewTracerProvider(options...)}
	p.tracer = p.provider.Tracer("github.com/eyelet-dev/eyelet", trace.WithInstrumentationVersion(version),
		trace.WithSchemaURL(semconv.SchemaURL))
	log.Info("tracing", "collector", to.url.Host)
	return p, nil
}

// Tracer returns the tracer for receiver.Config, nil if it is off.
func (p *Provider) Tracer() trace.Tracer {
	if p == nil {
		return nil
	}
	return p.tracer
}

// Close sends the spans that wait, for three seconds at most.
func (p *Provider) Close() {
	if p == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), closeTime)
	defer cancel()
	_ = p.provider.Shutdown(ctx) // the client has logged it
	p.client.cancel()
}
