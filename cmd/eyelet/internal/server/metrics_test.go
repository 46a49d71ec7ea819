package server

import (
	"os"
	"strings"
	"testing"

	"github.com/eyelet-dev/eyelet/cmd/eyelet/internal/forward"
	"github.com/eyelet-dev/eyelet/cmd/eyelet/internal/refused"
	"github.com/eyelet-dev/eyelet/dedup"
	"github.com/eyelet-dev/eyelet/receiver"
	"github.com/eyelet-dev/eyelet/receiver/metrics"
)

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
	c := metrics.New()
	ring, err := refused.New(refused.Options{})
	if err != nil {
		t.Fatal(err)
	}
	r := newRegistry(c, store, targets, ring,
		[]*receiver.Listener{receiver.Listen(nil, receiver.Limits{})})
	c.Observe(t.Context(), receiver.Observation{Kind: "delivery", Endpoint: "e", Code: "accepted"})
	c.Observe(t.Context(), receiver.Observation{Kind: "attempt", Endpoint: "e", Handler: "h", State: dedup.Done})
	families, err := r.Gather()
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
