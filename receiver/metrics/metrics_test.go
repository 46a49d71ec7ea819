package metrics_test

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/eyelet-dev/eyelet/dedup"
	"github.com/eyelet-dev/eyelet/dedup/memstore"
	"github.com/eyelet-dev/eyelet/producer"
	"github.com/eyelet-dev/eyelet/producer/preset"
	"github.com/eyelet-dev/eyelet/receiver"
	"github.com/eyelet-dev/eyelet/receiver/metrics"
	"github.com/eyelet-dev/eyelet/verify"
)

func TestMetricsOfRepeatedContent(t *testing.T) {
	t.Parallel()
	store := memstore.New(memstore.Options{})
	defer store.Close() //nolint:errcheck // it never fails
	claim := dedup.Claim{
		Key:        dedup.Key{Principal: "gh", Endpoint: "gh", Space: dedup.SpaceQuarantine, ID: "a"},
		Payload:    dedup.Payload{Producer: "gh", Endpoint: "gh"},
		Quarantine: &dedup.Quarantine{Reason: "same_bytes"},
	}
	if _, err := store.Claim(t.Context(), claim); err != nil {
		t.Fatal(err)
	}
	m := newScraped(store)
	for _, outcome := range []string{"known", "again", "quarantined", "quarantined", "refused", ""} {
		m.Observe(context.Background(), receiver.Observation{
			Kind: "delivery", Endpoint: "gh", SameBytes: receiver.SameBytes(outcome),
		})
	}
	m.has(t,
		`eyelet_same_bytes_total{endpoint="gh",outcome="known"} 1`,
		`eyelet_same_bytes_total{endpoint="gh",outcome="again"} 1`,
		`eyelet_same_bytes_total{endpoint="gh",outcome="quarantined"} 2`,
		`eyelet_same_bytes_total{endpoint="gh",outcome="refused"} 1`,
		`eyelet_quarantined{endpoint="gh",reason="same_bytes"} 1`,
		`eyelet_deliveries_total{code="",endpoint="gh"} 6`,
	)
}

// scraped is a collector with the page that Prometheus reads.
type scraped struct {
	*metrics.Collector
	pages *prometheus.Registry
}

func newScraped(store dedup.Store) scraped {
	m := scraped{metrics.New(), prometheus.NewPedanticRegistry()}
	m.pages.MustRegister(m.Collector, metrics.Store(store))
	return m
}

// has checks that the page of metrics has the lines.
func (m scraped) has(t *testing.T, lines ...string) {
	t.Helper()
	page := m.page()
	for _, line := range lines {
		if !strings.Contains(page, line+"\n") {
			t.Errorf("no line %s", line)
		}
	}
}

func (m scraped) page() string {
	w := httptest.NewRecorder()
	promhttp.HandlerFor(m.pages, promhttp.HandlerOpts{}).ServeHTTP(w, httptest.NewRequest("GET", "/metrics", nil))
	return w.Body.String()
}

func TestMetricsOfAttemptsAreCountedWithoutAllocating(t *testing.T) {
	store := memstore.New(memstore.Options{})
	defer store.Close() //nolint:errcheck // it never fails
	m := newScraped(store)
	done := receiver.Observation{Kind: "attempt", Endpoint: "gh", Handler: "h", Event: "e", State: dedup.Done}
	answered := receiver.Observation{
		Kind: "delivery", Endpoint: "gh", Code: "accepted", New: true, Secret: 1, Signed: true,
	}
	if n := testing.AllocsPerRun(100, func() {
		m.Observe(context.Background(), done)
		m.Observe(context.Background(), answered)
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
	hangs := receiver.Observation{Kind: "hanging", Endpoint: "gh", Handler: "h", Event: "hangs"}
	for range 2 {
		m.Observe(context.Background(), hangs)
	}
	m.Observe(context.Background(), done)
	m.has(t, `eyelet_handlers_hanging{endpoint="gh",handler="h"} 1`)
	hangs.Kind, hangs.State = "attempt", dedup.Dead
	for range 2 {
		m.Observe(context.Background(), hangs)
	}
	stale := done
	stale.Reason = dedup.ReasonStale
	m.Observe(context.Background(), stale)
	m.has(t,
		`eyelet_stale_total{endpoint="gh",handler="h"} 1`,
		`eyelet_handlers_hanging{endpoint="gh",handler="h"} 0`,
		`eyelet_attempts_total{endpoint="gh",handler="h",state="done"} 103`,
		`eyelet_attempts_total{endpoint="gh",handler="h",state="dead"} 2`,
		`eyelet_attempt_seconds_count{endpoint="gh",handler="h"} 105`,
		`eyelet_deliveries_total{code="accepted",endpoint="gh"} 101`,
		`eyelet_delivery_seconds_count{endpoint="gh"} 101`,
	)
}

func TestMetricsOfConnections(t *testing.T) {
	t.Parallel()
	ln, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	limited := receiver.Listen(ln, receiver.Limits{})
	defer limited.Close() //nolint:errcheck // the test is over
	m := newScraped(memstore.New(memstore.Options{}))
	m.pages.MustRegister(metrics.Connections(map[string]*receiver.Listener{"deliveries": limited}))
	m.has(t,
		`eyelet_connections{port="deliveries"} 0`,
		`eyelet_connections_closed_total{limit="head_budget",port="deliveries"} 0`,
	)
}

// TestAClosedStoreHasNoCounts leaves the other metrics of the page alone.
func TestAClosedStoreHasNoCounts(t *testing.T) {
	t.Parallel()
	store := memstore.New(memstore.Options{})
	m := newScraped(store)
	m.has(t, "eyelet_store_records 0")
	if err := store.Close(); err != nil {
		t.Fatal(err)
	}
	m.Observe(t.Context(), receiver.Observation{
		Kind: receiver.KindDelivery, Endpoint: "gh", Code: "accepted", New: true,
	})
	families, err := m.pages.Gather()
	if err != nil || len(families) != 3 {
		t.Errorf("%d families, %v; want those of the delivery", len(families), err)
	}
}

func TestMetricsOfSenders(t *testing.T) {
	t.Parallel()
	store := memstore.New(memstore.Options{})
	defer store.Close() //nolint:errcheck // it never fails
	m := newScraped(store)
	m.Expect([]producer.Producer{
		{Name: "quiet", ExpectEvery: time.Nanosecond}, {Name: "busy", ExpectEvery: time.Hour}, {Name: "any"},
	})
	verified := receiver.Observation{
		Kind: receiver.KindDelivery, Endpoint: "busy", Code: "accepted", New: true, Secret: 2, Signed: true,
		SignedAge: 3 * time.Second,
	}
	m.Observe(t.Context(), verified)
	verified.New, verified.SignedAge = false, -10*time.Second
	m.Observe(t.Context(), verified)
	m.Observe(t.Context(), receiver.Observation{
		Kind: receiver.KindDelivery, Endpoint: "any", Code: "signature_mismatch",
	})
	m.has(t,
		`eyelet_secret_matches_total{endpoint="busy",secret="1"} 0`,
		`eyelet_secret_matches_total{endpoint="busy",secret="2"} 2`,
		`eyelet_signed_age_seconds_bucket{endpoint="busy",le="-60"} 0`,
		`eyelet_signed_age_seconds_bucket{endpoint="busy",le="-5"} 1`,
		`eyelet_signed_age_seconds_bucket{endpoint="busy",le="5"} 2`,
		`eyelet_silent{endpoint="quiet"} 1`,
		`eyelet_silent{endpoint="busy"} 0`,
	)
	page := m.page()
	if n := strings.Count(page, "\neyelet_last_accepted_timestamp_seconds{"); n != 1 {
		t.Errorf("%d endpoints have a time of the last new event, want that of busy", n)
	}
	if strings.Contains(page, `eyelet_silent{endpoint="any"}`) {
		t.Error("silence is reported without an expectation")
	}
	m.Expect([]producer.Producer{{Name: "busy", ExpectEvery: time.Hour}})
	if strings.Contains(m.page(), `eyelet_silent{endpoint="quiet"}`) {
		t.Error("silence is reported of a producer that was removed")
	}
	m.Forget(prometheus.Labels{"handler": "h"})
	m.has(t, `eyelet_deliveries_total{code="accepted",endpoint="busy"} 2`)
	m.Forget(prometheus.Labels{"endpoint": "busy"})
	if page := m.page(); strings.Contains(page, `endpoint="busy"`) || !strings.Contains(page, `endpoint="any"`) {
		t.Errorf("forgot the wrong ones: %s", page)
	}
	m.Observe(t.Context(), verified)
	m.has(t, `eyelet_deliveries_total{code="accepted",endpoint="busy"} 1`,
		`eyelet_secret_matches_total{endpoint="busy",secret="2"} 1`)
}

func TestMetricsHaveNoTenants(t *testing.T) {
	t.Parallel()
	store := memstore.New(memstore.Options{})
	defer store.Close() //nolint:errcheck // it never fails
	m := newScraped(store)
	shop := producer.Tenants{
		With: preset.GitHub,
		List: func(context.Context) (map[string][]verify.Secret, error) {
			return map[string][]verify.Secret{"acme": verify.Secrets("hidden"), "beta": verify.Secrets("")}, nil
		},
	}.Producer()
	rx, err := receiver.Open(receiver.Config{Store: store, Producers: []producer.Producer{shop}, Observe: m.Observe})
	if err != nil {
		t.Fatal(err)
	}
	mac := hmac.New(sha256.New, []byte("hidden"))
	mac.Write([]byte("{}"))
	for _, tenant := range []string{"acme", "beta", "gamma"} {
		r := httptest.NewRequest(http.MethodPost, "/webhooks/github/"+tenant, strings.NewReader("{}"))
		r.Header.Set("Content-Type", "application/json")
		r.Header.Set("X-GitHub-Delivery", tenant)
		r.Header.Set("X-Hub-Signature-256", "sha256="+hex.EncodeToString(mac.Sum(nil)))
		rx.Handler().ServeHTTP(httptest.NewRecorder(), r)
	}
	if err := rx.Close(); err != nil {
		t.Fatal(err)
	}
	m.has(t,
		`eyelet_deliveries_total{code="accepted",endpoint="github"} 1`,
		`eyelet_deliveries_total{code="keys_unavailable",endpoint="github"} 1`,
	)
	for _, word := range []string{"acme", "beta", "gamma", "hidden"} {
		if strings.Contains(m.page(), word) {
			t.Errorf("the metrics have %s", word)
		}
	}
}
