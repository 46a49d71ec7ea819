package server

import (
	"context"
	"net/http/httptest"
	"os"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/eyelet-dev/eyelet/cmd/eyelet/internal/forward"
	"github.com/eyelet-dev/eyelet/dedup"
	"github.com/eyelet-dev/eyelet/receiver"
)

func TestMetricsOfRepeatedContent(t *testing.T) {
	t.Parallel()
	store := dedup.NewMemory(dedup.MemoryOptions{})
	defer store.Close() //nolint:errcheck // it never fails
	claim := dedup.Claim{
		Key:        dedup.Key{Principal: "gh", Endpoint: "gh", Space: dedup.SpaceQuarantine, ID: "a"},
		Payload:    dedup.Payload{Producer: "gh", Endpoint: "gh"},
		Quarantine: &dedup.Quarantine{Reason: "same_bytes"},
	}
	if _, err := store.Claim(t.Context(), claim); err != nil {
		t.Fatal(err)
	}
	m := newMetrics(store, forward.NewState(), nil)
	for _, outcome := range []string{"known", "again", "quarantined", "quarantined", "refused", ""} {
		m.observe(context.Background(), receiver.Observation{
			Kind: "delivery", Endpoint: "gh", SameBytes: receiver.SameBytes(outcome), IDReused: outcome == "again",
		})
	}
	m.has(t,
		`eyelet_same_bytes_total{endpoint="gh",outcome="known"} 1`,
		`eyelet_same_bytes_total{endpoint="gh",outcome="again"} 1`,
		`eyelet_same_bytes_total{endpoint="gh",outcome="quarantined"} 2`,
		`eyelet_same_bytes_total{endpoint="gh",outcome="refused"} 1`,
		`eyelet_id_reused_total{endpoint="gh"} 1`,
		`eyelet_quarantined{endpoint="gh",reason="same_bytes"} 1`,
		`eyelet_deliveries_total{code="",endpoint="gh"} 6`,
	)
}

// has checks that the page of metrics has the lines.
func (m *metrics) has(t *testing.T, lines ...string) {
	t.Helper()
	w := httptest.NewRecorder()
	promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{}).ServeHTTP(w, httptest.NewRequest("GET", "/metrics", nil))
	for _, line := range lines {
		if !strings.Contains(w.Body.String(), line+"\n") {
			t.Errorf("no line %s", line)
		}
	}
}

func TestMetricsOfAttemptsAreCountedWithoutAllocating(t *testing.T) {
	store := dedup.NewMemory(dedup.MemoryOptions{})
	defer store.Close() //nolint:errcheck // it never fails
	m := newMetrics(store, forward.NewState(), nil)
	done := receiver.Observation{Kind: "attempt", Endpoint: "gh", Handler: "h", Event: "e", State: dedup.Done}
	answered := receiver.Observation{Kind: "delivery", Endpoint: "gh", Code: "accepted"}
	if n := testing.AllocsPerRun(100, func() {
		m.observe(context.Background(), done)
		m.observe(context.Background(), answered)
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
	hangs := receiver.Observation{Kind: "hanging", Endpoint: "gh", Handler: "h", Event: "hangs"}
	for range 2 {
		m.observe(context.Background(), hangs)
	}
	m.observe(context.Background(), done)
	m.has(t, `eyelet_handlers_hanging{endpoint="gh",handler="h"} 1`)
	hangs.Kind, hangs.State = "attempt", dedup.Dead
	for range 2 {
		m.observe(context.Background(), hangs)
	}
	m.has(t,
		`eyelet_handlers_hanging{endpoint="gh",handler="h"} 0`,
		`eyelet_attempts_total{endpoint="gh",handler="h",state="done"} 102`,
		`eyelet_attempts_total{endpoint="gh",handler="h",state="dead"} 2`,
		`eyelet_attempt_seconds_count{endpoint="gh",handler="h"} 104`,
		`eyelet_deliveries_total{code="accepted",endpoint="gh"} 101`,
		`eyelet_delivery_seconds_count{endpoint="gh"} 101`,
	)
}

// TestThePageNamesEveryMetric compares docs/operations.md with the metrics.
func TestThePageNamesEveryMetric(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../../../../docs/operations.md")
	if err != nil {
		t.Fatal(err)
	}
	page := string(text)
	store := dedup.NewMemory(dedup.MemoryOptions{})
	defer store.Close()
	targets := forward.NewState()
	if _, err := forward.New(forward.Config{Name: "t", URL: "http://h/", State: targets}); err != nil {
		t.Fatal(err)
	}
	m := newMetrics(store, targets, []*receiver.Listener{receiver.Listen(nil, receiver.Limits{})})
	m.observe(t.Context(), receiver.Observation{Kind: "delivery", Endpoint: "e", Code: "accepted"})
	m.observe(t.Context(), receiver.Observation{Kind: "attempt", Endpoint: "e", Handler: "h", State: dedup.Done})
	families, err := m.registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	seen := 0
	for _, f := range families {
		if strings.HasPrefix(f.GetName(), "eyelet_") {
			seen++
			if !strings.Contains(page, "`"+f.GetName()+"`") && !strings.Contains(page, "`"+f.GetName()+"{") {
				t.Errorf("the page lacks the metric %s", f.GetName())
			}
		}
	}
	if seen < 10 {
		t.Fatalf("only %d metrics were checked", seen)
	}
}
