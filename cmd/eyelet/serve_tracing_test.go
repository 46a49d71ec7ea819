package main

import (
	"bytes"
	"cmp"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"

	otlp "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"
)

// collected are the spans that a collector has, by name.
type collected struct {
	mu    sync.Mutex
	spans map[string]*otlp.Span
	token string // of the last request
	from  string // its resource
}

func (c *collected) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.token = r.Header.Get("Authorization")
	body, err := io.ReadAll(r.Body)
	var data otlp.TracesData
	if err := errors.Join(err, proto.Unmarshal(body, &data)); err != nil || r.URL.Path != "/v1/traces" ||
		r.Header.Get("Content-Type") != "application/x-protobuf" {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	for _, of := range data.ResourceSpans {
		c.from = of.Resource.String()
		for _, scope := range of.ScopeSpans {
			for _, s := range scope.Spans {
				c.spans[s.Name] = s
			}
		}
	}
}

func (c *collected) has(names ...string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, name := range names {
		if c.spans[name] == nil {
			return false
		}
	}
	return true
}

// TestSpansReachTheCollector follows a delivery to a target.
func TestSpansReachTheCollector(t *testing.T) {
	t.Setenv("OTEL_BSP_SCHEDULE_DELAY", "20")
	t.Setenv("OTEL_RESOURCE_ATTRIBUTES", "deployment.environment.name=test")
	c := &collected{spans: map[string]*otlp.Span{}}
	collector := httptest.NewServer(c)
	defer collector.Close()
	forwarded := make(chan string, 10)
	target := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		forwarded <- r.Header.Get("Traceparent")
	}))
	defer target.Close()
	file := configured(t, fmt.Sprintf("handlers:\n  - {producer: gh, type: push, forward: %s, name: ship}\n"+
		"tracing: {url: %s, bearer: s3cret}\n", target.URL, collector.URL))
	r := launch(t, "serve", "--config", file)
	const theirTrace, theirSpan = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
	push := pushRequest(t, r.deliveries, "d1", "{}")
	push.Header.Set("Traceparent", "00-"+theirTrace+"-"+theirSpan+"-01")
	res, err := http.DefaultClient.Do(push)
	check(t, err)
	_ = res.Body.Close()
	eventually(t, "spans", func() bool { return c.has("POST", "POST /webhooks/gh", "claim", "process ship") })
	c.mu.Lock()
	defer c.mu.Unlock()
	request, delivery, claim, attempt := c.spans["POST"], c.spans["POST /webhooks/gh"], c.spans["claim"],
		c.spans["process ship"]
	for _, s := range []*otlp.Span{request, delivery} {
		if len(s.Links) != 1 || hex.EncodeToString(s.Links[0].TraceId) != theirTrace ||
			hex.EncodeToString(s.Links[0].SpanId) != theirSpan || hex.EncodeToString(s.TraceId) == theirTrace {
			t.Errorf("trace %x, links %v", s.TraceId, s.Links)
		}
	}
	if request.ParentSpanId != nil || request.Kind != otlp.Span_SPAN_KIND_SERVER ||
		attributesOf(request)["http.route"] != "/webhooks/gh" {
		t.Errorf("request %v", request)
	}
	if !bytes.Equal(delivery.ParentSpanId, request.SpanId) || delivery.Kind != otlp.Span_SPAN_KIND_INTERNAL {
		t.Errorf("delivery %v", delivery)
	}
	if !bytes.Equal(claim.TraceId, delivery.TraceId) || !bytes.Equal(claim.ParentSpanId, delivery.SpanId) ||
		claim.Kind != otlp.Span_SPAN_KIND_INTERNAL {
		t.Errorf("claim %v", claim)
	}
	if len(attempt.Links) != 1 || !bytes.Equal(attempt.Links[0].SpanId, delivery.SpanId) ||
		bytes.Equal(attempt.TraceId, delivery.TraceId) || attempt.Kind != otlp.Span_SPAN_KIND_CONSUMER {
		t.Errorf("attempt %v", attempt)
	}
	if got, want := <-forwarded, fmt.Sprintf("00-%x-%x-01", attempt.TraceId, attempt.SpanId); got != want {
		t.Errorf("the target got %q, want %q", got, want)
	}
	if c.token != "Bearer s3cret" {
		t.Errorf("token %q", c.token)
	}
	resource := regexp.MustCompile(`deployment\.environment\.name.*"service\.name"\s+value:{string_value:"eyelet"}`)
	if !resource.MatchString(c.from) {
		t.Errorf("resource %s", c.from)
	}
	if strings.Contains(r.errs.String(), "s3cret") {
		t.Error("the log has the token")
	}
}

func attributesOf(s *otlp.Span) map[string]string {
	all := map[string]string{}
	for _, a := range s.Attributes {
		all[a.Key] = cmp.Or(a.Value.GetStringValue(), strconv.FormatInt(a.Value.GetIntValue(), 10))
	}
	return all
}

// TestEveryRequestHasASpanWithoutTextOfItsClient sends what no endpoint gets.
func TestEveryRequestHasASpanWithoutTextOfItsClient(t *testing.T) {
	t.Setenv("OTEL_BSP_SCHEDULE_DELAY", "20")
	c := &collected{spans: map[string]*otlp.Span{}}
	collector := httptest.NewServer(c)
	defer collector.Close()
	r := launch(t, "serve", "--config", configured(t, "handlers:\n  - {producer: gh, type: push, stdout: true}\n"+
		"tracing: {url: "+collector.URL+"}\n"))
	send := func(method, path string) {
		request, err := http.NewRequestWithContext(t.Context(), method, r.deliveries+path, nil)
		check(t, err)
		for _, name := range []string{"User-Agent", "X-Forwarded-For", "Tracestate", "Traceparent", "Baggage"} {
			request.Header.Set(name, "s3cret=1")
		}
		request.Host = "s3cret.example"
		res, err := http.DefaultClient.Do(request)
		check(t, err)
		_ = res.Body.Close()
	}
	send(http.MethodPut, "/s3cret?key=s3cret")
	send("S3CRET", "/webhooks/gh")
	eventually(t, "spans", func() bool { return c.has("PUT", "HTTP", "_OTHER /webhooks/gh") })
	if r.stop(); <-r.ended != 0 {
		t.Error(r.errs.String())
	}
	host, port, _ := net.SplitHostPort(strings.TrimPrefix(r.deliveries, "http://"))
	for name, want := range map[string]map[string]string{
		"PUT":  {"http.request.method": "PUT", "http.response.status_code": "404"},
		"HTTP": {"http.request.method": "_OTHER", "http.response.status_code": "405", "http.route": "/webhooks/gh"},
	} {
		span := c.spans[name]
		got := attributesOf(span)
		want["server.address"], want["server.port"] = host, port
		for key, value := range want {
			if got[key] != value {
				t.Errorf("%s: %s is %q, want %q", name, key, got[key], value)
			}
		}
		if span.Kind != otlp.Span_SPAN_KIND_SERVER || len(span.Links) > 0 {
			t.Errorf("%s: %v, links %v", name, span.Kind, span.Links)
		}
	}
	for _, span := range c.spans {
		if text := strings.ToLower(span.String()); strings.Contains(text, "s3cret") {
			t.Error(text)
		}
	}
}

// TestNothingWaitsForTheCollector has collectors that do not take spans. One that hangs would hold
// up a caller that waits for it for an hour.
func TestNothingWaitsForTheCollector(t *testing.T) {
	for _, name := range []string{"OTEL_EXPORTER_OTLP_TIMEOUT", "OTEL_BSP_EXPORT_TIMEOUT"} {
		t.Setenv(name, "3600000")
	}
	t.Setenv("OTEL_BSP_SCHEDULE_DELAY", "1")
	t.Setenv("OTEL_BSP_MAX_QUEUE_SIZE", "4")
	t.Setenv("OTEL_BSP_MAX_EXPORT_BATCH_SIZE", "2")
	gone := httptest.NewServer(http.NotFoundHandler())
	gone.Close()
	release := make(chan struct{})
	hangs := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-release }))
	defer hangs.Close()
	defer close(release)
	busy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Retry-After", "3600")
		w.WriteHeader(http.StatusServiceUnavailable)
	}))
	defer busy.Close()
	refuses := httptest.NewServer(http.NotFoundHandler())
	defer refuses.Close()
	for name, collector := range map[string]string{
		"gone": gone.URL, "hangs": hangs.URL, "busy": busy.URL, "refuses": refuses.URL,
	} {
		t.Run(name, func(t *testing.T) {
			t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", collector)
			file := configured(t, "handlers:\n  - {producer: gh, type: push, stdout: true}\n")
			r := launch(t, "serve", "--config", file)
			for i := range 20 {
				status, _ := push(t, http.DefaultClient, r.deliveries, fmt.Sprint("d", i), "{}")
				if status != http.StatusOK {
					t.Errorf("status %d", status)
				}
			}
			if r.stop(); <-r.ended != 0 {
				t.Error(r.errs.String())
			}
		})
	}
}
