package tracing

import (
	"bytes"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	otlp "go.opentelemetry.io/proto/otlp/trace/v1"
)

// TestTheLogSaysWhatTheCollectorDoes sends to a collector that answers each request in another way.
func TestTheLogSaysWhatTheCollectorDoes(t *testing.T) {
	partial := "\x1a\x01x" + "\x0a\x07" + "\x12\x03why" + "\x08\x05" // an unknown field, then 5 refused spans
	type answer struct {
		status int
		body   string
	}
	answers := []answer{{400, ""}, {401, ""}, {503, ""}, {200, ""}, {200, partial}, {200, partial[:9]}, {200, "{}"}}
	var requests int
	collector := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(answers[requests].status)
		_, _ = io.WriteString(w, answers[requests].body)
		requests++
	}))
	defer collector.Close()
	to, err := Options{Endpoint: collector.URL + "/s3cret"}.destination()
	if err != nil {
		t.Fatal(err)
	}
	var log bytes.Buffer
	c := newClient(to, slog.New(slog.NewTextHandler(&log, nil)))
	for range len(answers) - 1 { // 503 is repeated
		if err := c.UploadTraces(t.Context(), []*otlp.ResourceSpans{{}}); err != nil {
			t.Error(err)
		}
	}
	var got []string
	for line := range strings.Lines(log.String()) {
		_, text, _ := strings.Cut(line, "msg=")
		got = append(got, strings.ReplaceAll(strings.TrimSpace(text), " collector="+to.url.Host, ""))
	}
	want := []string{
		`"spans are dropped: the collector does not take them" error="status 400"`,
		`"the collector takes spans again"`,
		`"the collector refused spans" spans=5`,
	}
	if strings.Join(got, "\n") != strings.Join(want, "\n") || requests != len(answers) {
		t.Errorf("%d requests, log\n%s", requests, log.String())
	}
}
