package config

import (
	"cmp"
	"strings"
	"testing"
)

func TestSettingsOfTracing(t *testing.T) {
	const base = "producers:\n  gh: {preset: github, secret: 0123456789abcdef}\ntracing: "
	const share = "e.yaml:3: tracing.sample is not a share of deliveries | write 10%, or leave it out for all"
	for text, want := range map[string]string{
		"{endpoint: http://localhost:4318, bearer: abc, sample: 12.5%}": "",
		"{endpoint: https://otlp.example/base, bearer: abc}":            "",
		"{sample: 100%}":   "",
		"{sample: 0.1}":    share,
		"{sample: NaN%}":   share,
		"{sample: 100.1%}": share,
		"{endpoint: localhost:4318}": "e.yaml:3: tracing: the collector is not an http or https URL, such as " +
			"http://localhost:4318",
		"{bearer: abc}": "e.yaml:3: tracing: bearer without endpoint: write both, or use OTEL_EXPORTER_OTLP_HEADERS",
		"{endpoint: \"http://otlp.example\", bearer: abc}": "e.yaml:3: tracing: bearer would be sent without TLS: " +
			"write an https endpoint",
	} {
		dir := t.TempDir()
		got := strings.ReplaceAll(withHints(buildText(t, dir, base+text)), dir+"/", "")
		if got != cmp.Or(want, "<nil>") {
			t.Errorf("%s: %s\nwant %s", text, got, want)
		}
	}
	t.Setenv("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc")
	got := withHints(buildText(t, t.TempDir(), base+"{endpoint: \"http://localhost:4317\"}"))
	if !strings.Contains(got, "4318") {
		t.Error(got)
	}
}
