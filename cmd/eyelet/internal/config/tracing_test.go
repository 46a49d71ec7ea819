package config

import (
	"strings"
	"testing"
)

func TestTracingByAnotherProtocolIsRefused(t *testing.T) {
	t.Setenv("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc")
	got := withHints(buildText(t, t.TempDir(), validShop+"tracing: {url: \"http://localhost:4317\"}\n"))
	if !strings.Contains(got, "4318") {
		t.Error(got)
	}
}
