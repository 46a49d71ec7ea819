package main

import (
	"context"
	"net/http/httptest"
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
		m.observe(context.Background(), receiver.Observation{Kind: "delivery", Endpoint: "gh", SameBytes: outcome, IDReused: outcome == "again"})
	}
	w := httptest.NewRecorder()
	promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{}).ServeHTTP(w, httptest.NewRequest("GET", "/metrics", nil))
	for _, line := range []string{
		`eyelet_same_bytes_total{endpoint="gh",outcome="known"} 1`,
		`eyelet_same_bytes_total{endpoint="gh",outcome="again"} 1`,
		`eyelet_same_bytes_total{endpoint="gh",outcome="quarantined"} 2`,
		`eyelet_same_bytes_total{endpoint="gh",outcome="refused"} 1`,
		`eyelet_id_reused_total{endpoint="gh"} 1`,
		`eyelet_quarantined{endpoint="gh",reason="same_bytes"} 1`,
		`eyelet_deliveries_total{code="",endpoint="gh"} 6`,
	} {
		if !strings.Contains(w.Body.String(), line+"\n") {
			t.Errorf("no line %s", line)
		}
	}
}
