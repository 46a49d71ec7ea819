package main

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/eyelet-dev/eyelet/cmd/eyelet/internal/load"
)

// TestTopHasProducersAndHandlers as text and as JSON, from the start of the server.
func TestTopHasProducersAndHandlers(t *testing.T) {
	t.Parallel()
	file := configured(t, "  shop: {preset: shopify, secret: [shop-secret-0123456789]}\n"+fallible)
	r := launch(t, "serve", "--config", file)
	push(t, http.DefaultClient, r.deliveries, "g-1", "{}")
	push(t, http.DefaultClient, r.deliveries, "g-1", "{}")
	res, err := http.Post("http://"+strings.TrimPrefix(r.deliveries, "http://")+"/webhooks/shop", "text/plain", nil)
	check(t, err)
	_ = res.Body.Close()
	counted(t, file, "dead", 1)
	var report load.Report
	eventually(t, "the attempt is counted", func() bool {
		out, _ := command(t, exitOK, "", "top", "--once", "-o", "json", "--config", file)
		report = load.Report{}
		check(t, json.Unmarshal([]byte(out), &report))
		return len(report.Handlers) == 1 && report.Handlers[0].Failed == 1
	})
	gh, shop, handler := report.Producers[0], report.Producers[1], report.Handlers[0]
	if gh.Name != "gh" || gh.Accepted != 1 || gh.Duplicates != 1 || gh.P95 == 0 || gh.Last.IsZero() ||
		shop.Name != "shop" || shop.Refused != 1 || handler.Attempts != 1 || handler.P50 == 0 || !report.Accepting ||
		report.Dead != 1 || report.Hour == nil || report.Hour.Accepted != 1 || !report.Since.Equal(report.Started) {
		t.Errorf("%+v", report)
	}
	out, _ := command(t, exitOK, "", "top", "--config", file)
	for _, want := range []string{"accepting, up ", ", dead 1\n", "this hour: 1 accepted, 1 duplicate, 1 refused, p50 ",
		"1 attempt, 1 failed, ", "per minute, over the last ", "\ngh ", "\nshop ", "\n" + handler.Name + " "} {
		if !strings.Contains(out, want) {
			t.Errorf("no %q in:\n%s", want, out)
		}
	}
}

// TestTopNeedsAServer and says how to start one.
func TestTopNeedsAServer(t *testing.T) {
	t.Parallel()
	code, _, errs := run(t, "top", "--config", configured(t, fallible))
	if code != exitFailed || !strings.Contains(errs, "no server runs") {
		t.Errorf("exit %d: %s", code, errs)
	}
}

// TestRatesArePerMinute.
func TestRatesArePerMinute(t *testing.T) {
	t.Parallel()
	for n, want := range map[float64]string{0: "0", .2: "<0.1", 3: "1.0", 300: "100"} {
		if got := perMinute(n, 3*time.Minute); got != want {
			t.Errorf("%v in 3 minutes: %s, want %s", n, got, want)
		}
	}
}
