package server

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/eyelet-dev/eyelet/cmd/eyelet/internal/forward"
	"github.com/eyelet-dev/eyelet/cmd/eyelet/internal/refused"
	"github.com/eyelet-dev/eyelet/dedup"
	"github.com/eyelet-dev/eyelet/dedup/memstore"
	"github.com/eyelet-dev/eyelet/inspect"
	"github.com/eyelet-dev/eyelet/producer"
	"github.com/eyelet-dev/eyelet/receiver"
	"github.com/eyelet-dev/eyelet/receiver/metrics"
)

var update = flag.Bool("update", false, "write the table of metrics in docs/operations.md")

// metricFamily is a metric with its labels.
type metricFamily struct{ name, labels, kind, help string }

// metricFamilies returns Eyelet's own metrics, once each of them has a value.
func metricFamilies(t *testing.T) (own []metricFamily) {
	t.Helper()
	store := memstore.New(memstore.Options{})
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
	r.MustRegister(append((&reloads{}).metrics(), handlerMetrics{onePaused{}})...)
	c.Expect([]producer.Producer{{Name: "e", ExpectEvery: time.Hour}})
	c.Observe(t.Context(), receiver.Observation{Kind: "delivery", Endpoint: "e", Code: "accepted",
		SameBytes: "known", New: true, Secret: 1, Signed: true})
	c.Observe(t.Context(), receiver.Observation{Kind: "delivery", Endpoint: "e", New: true, Unverified: true})
	c.Observe(t.Context(), receiver.Observation{Kind: "attempt", Endpoint: "e", Handler: "h", State: dedup.Done,
		Reason: dedup.ReasonStale})
	c.Observe(t.Context(), receiver.Observation{Kind: "hanging", Endpoint: "e", Handler: "h"})
	c.Observe(t.Context(), receiver.Observation{Kind: "missed", Endpoint: "e", Code: "asked"})
	c.Observe(t.Context(), receiver.Observation{Kind: "compared", Endpoint: "e"})
	families, err := r.Gather()
	check(t, err)
	for _, f := range families {
		if !strings.HasPrefix(f.GetName(), "eyelet_") {
			continue
		}
		var labels []string
		for _, l := range f.GetMetric()[0].GetLabel() {
			labels = append(labels, l.GetName())
		}
		own = append(own, metricFamily{f.GetName(), strings.Join(labels, ","),
			strings.ToLower(f.GetType().String()), f.GetHelp()})
	}
	if len(own) < 30 {
		t.Fatalf("only %d metrics", len(own))
	}
	return own
}

// onePaused has a handler that is paused.
type onePaused struct{ inspect.Handlers }

func (onePaused) Controls() []receiver.Control {
	return []receiver.Control{{Handler: "h", Paused: true}}
}

// metricTable lists the metrics as docs/operations.md has them.
func metricTable(t *testing.T) string {
	t.Helper()
	var b strings.Builder
	b.WriteString("metric | type | meaning\n---|---|---\n")
	for _, f := range metricFamilies(t) {
		name := f.name
		if f.labels != "" {
			name += "{" + f.labels + "}"
		}
		for _, scope := range []string{" Of the store:", " Of this process.", " Receivers that share"} {
			f.help, _, _ = strings.Cut(f.help, scope) // the page says it once
		}
		fmt.Fprintf(&b, "`%s` | %s | %s\n", name, f.kind, strings.TrimSuffix(f.help, "."))
	}
	return b.String()
}

// TestThePageListsTheMetrics compares the table of docs/operations.md with the metrics, or writes
// it with -update.
func TestThePageListsTheMetrics(t *testing.T) {
	t.Parallel()
	const begin = "<!-- metrics: written by go test ./cmd/eyelet/internal/server -update -->\n"
	const end, file = "<!-- end of metrics -->", "docs/operations.md"
	page := readText(t, file)
	before, rest, ok := strings.Cut(page, begin)
	_, after, ended := strings.Cut(rest, end)
	if !ok || !ended {
		t.Fatal("the page has no place for the metrics")
	}
	want := before + begin + metricTable(t) + end + after
	if want == page {
		return
	}
	if !*update {
		t.Fatal("the page lists other metrics: go test ./cmd/eyelet/internal/server -update writes them")
	}
	if err := os.WriteFile("../../../../"+file, []byte(want), 0o600); err != nil {
		t.Fatal(err)
	}
}

// TestRulesAndDashboardNameMetricsThatExist compares ops/ with the metrics.
func TestRulesAndDashboardNameMetricsThatExist(t *testing.T) {
	t.Parallel()
	var names []string
	for _, f := range metricFamilies(t) {
		names = append(names, f.name)
		if f.kind == "histogram" {
			names = append(names, f.name+"_bucket", f.name+"_sum", f.name+"_count")
		}
	}
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
	row := regexp.MustCompile("(?m)^`(Eyelet\\w+)` \\|")
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
