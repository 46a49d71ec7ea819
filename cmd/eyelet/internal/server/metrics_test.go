package server

import (
	"encoding/json"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/eyelet-dev/eyelet/cmd/eyelet/internal/forward"
	"github.com/eyelet-dev/eyelet/cmd/eyelet/internal/refused"
	"github.com/eyelet-dev/eyelet/dedup"
	"github.com/eyelet-dev/eyelet/producer"
	"github.com/eyelet-dev/eyelet/receiver"
	"github.com/eyelet-dev/eyelet/receiver/metrics"
)

// metricNames returns the names of Eyelet's own metrics, once each of them has a value.
func metricNames(t *testing.T) (names []string) {
	t.Helper()
	store := dedup.NewMemory(dedup.MemoryOptions{})
	defer store.Close()
	quarantined := dedup.Claim{
		Key:     dedup.Key{Principal: "e", Endpoint: "e", Space: dedup.SpaceQuarantine, ID: "a"},
		Payload: dedup.Payload{Endpoint: "e"}, Quarantine: &dedup.Quarantine{Reason: "conflict"},
	}
	if _, err := store.Claim(t.Context(), quarantined); err != nil {
		t.Fatal(err)
	}
	targets := forward.NewState()
	if _, err := forward.New(forward.Config{Name: "t", URL: "http://h/", State: targets}); err != nil {
		t.Fatal(err)
	}
	c := metrics.New()
	ring, err := refused.New(refused.Options{})
	check(t, err)
	r := newRegistry(c, store, targets, ring, []*receiver.Listener{receiver.Listen(nil, receiver.Limits{})}, "v1")
	c.Expect([]producer.Producer{{Name: "e", ExpectEvery: time.Hour}})
	c.Observe(t.Context(), receiver.Observation{Kind: "delivery", Endpoint: "e", Code: "accepted",
		SameBytes: "known", IDReused: true, New: true, Secret: 1, Signed: true})
	c.Observe(t.Context(), receiver.Observation{Kind: "attempt", Endpoint: "e", Handler: "h", State: dedup.Done})
	c.Observe(t.Context(), receiver.Observation{Kind: "hanging", Endpoint: "e", Handler: "h"})
	families, err := r.Gather()
	check(t, err)
	for _, f := range families {
		if !strings.HasPrefix(f.GetName(), "eyelet_") {
			continue
		}
		names = append(names, f.GetName())
		if f.GetMetric()[0].GetHistogram() != nil {
			names = append(names, f.GetName()+"_bucket", f.GetName()+"_sum", f.GetName()+"_count")
		}
	}
	if len(names) < 30 {
		t.Fatalf("only %d metrics", len(names))
	}
	return names
}

var partOfHistogram = regexp.MustCompile(`_(bucket|sum|count)$`)

// TestThePageNamesEveryMetric compares docs/operations.md with the metrics.
func TestThePageNamesEveryMetric(t *testing.T) {
	t.Parallel()
	page := readText(t, "docs/operations.md")
	for _, name := range metricNames(t) {
		if partOfHistogram.MatchString(name) {
			continue
		}
		if !strings.Contains(page, "`"+name+"`") && !strings.Contains(page, "`"+name+"{") {
			t.Errorf("the page lacks the metric %s", name)
		}
	}
}

// TestRulesAndDashboardNameMetricsThatExist compares ops/ with the metrics.
func TestRulesAndDashboardNameMetricsThatExist(t *testing.T) {
	t.Parallel()
	names := metricNames(t)
	for _, file := range []string{"ops/alerts.yaml", "ops/grafana.json"} {
		used := regexp.MustCompile(`eyelet_\w+`).FindAllString(readText(t, file), -1)
		if len(used) < 8 {
			t.Errorf("%s names only %d metrics", file, len(used))
		}
		for _, name := range used {
			if !slices.Contains(names, name) {
				t.Errorf("%s names the metric %s, which does not exist", file, name)
			}
		}
	}
	if !json.Valid([]byte(readText(t, "ops/grafana.json"))) {
		t.Error("ops/grafana.json is not JSON")
	}
}

// TestAlertsAreExplained compares the rules with the page about them.
func TestAlertsAreExplained(t *testing.T) {
	t.Parallel()
	var rules []string
	for _, m := range regexp.MustCompile(`alert: (\w+)`).FindAllStringSubmatch(readText(t, "ops/alerts.yaml"), -1) {
		rules = append(rules, m[1])
	}
	var explained []string
	row := regexp.MustCompile("(?m)^\\| `(Eyelet\\w+)` \\|")
	for _, m := range row.FindAllStringSubmatch(readText(t, "docs/howto/alerts.md"), -1) {
		explained = append(explained, m[1])
	}
	if len(rules) < 5 || !slices.Equal(rules, explained) {
		t.Errorf("rules %q, explained %q", rules, explained)
	}
}

func readText(t *testing.T, file string) string {
	t.Helper()
	text, err := os.ReadFile("../../../../" + file)
	check(t, err)
	return string(text)
}
