package main

import (
	"encoding/json"
	"math"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/eyelet-dev/eyelet/inspect"
	"github.com/eyelet-dev/eyelet/receiver"
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
	var report topReport
	eventually(t, "the attempt is counted", func() bool {
		out, _ := command(t, exitOK, "", "top", "--once", "-o", "json", "--config", file)
		report = topReport{}
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

// sampleAt is a sample, after so many seconds, of a server that started at another.
func sampleAt(started, at int, metrics string) topSample {
	s := topSample{at: time.Unix(int64(at), 0), producers: map[string]counts{"gh": {below: map[float64]float64{}}},
		handlers: map[string]counts{"h": {below: map[float64]float64{}}}, traffic: []inspect.ProducerState{{Name: "gh"}},
		health: inspect.Health{Started: time.Unix(int64(started), 0)}}
	s.health.Handlers = []receiver.Control{{Handler: "h"}}
	s.count(metrics)
	return s
}

// TestTopCountsSinceTheOldestSampleOfAMinute, and since the start of another server.
func TestTopCountsSinceTheOldestSampleOfAMinute(t *testing.T) {
	t.Parallel()
	const labels = `{endpoint="gh",handler="h",state=`
	metrics := func(done, dead string) string {
		return "# HELP eyelet_attempts_total x\neyelet_attempts_total" + labels + `"done"} ` + done +
			"\neyelet_attempts_total" + labels + `"dead"} ` + dead +
			"\neyelet_attempts_total{endpoint=\"gh\",handler=\"gone\",state=\"done\"} 9\n"
	}
	top := &top{}
	for _, step := range []struct {
		started, at, since int
		done, dead         string
		attempts, failed   float64
	}{
		{0, 600, 0, "10", "2", 12, 2}, {0, 630, 600, "12", "2", 2, 0}, {0, 660, 600, "12", "3", 3, 1},
		{0, 690, 630, "20", "3", 9, 1}, {0, 692, 630, "4", "1", 5, 1}, // the handler was removed and added again
		{700, 702, 700, "1", "1", 2, 1},
	} {
		r := top.add(sampleAt(step.started, step.at, metrics(step.done, step.dead)))
		if got := r.Handlers[0]; r.Since.Unix() != int64(step.since) || got.Attempts != step.attempts ||
			got.Failed != step.failed || len(r.Handlers) != 1 {
			t.Errorf("at %d: %+v since %d", step.at, got, r.Since.Unix())
		}
	}
}

// TestPercentilesAreInterpolated within buckets, as Prometheus does.
func TestPercentilesAreInterpolated(t *testing.T) {
	t.Parallel()
	const bucket = `eyelet_delivery_seconds_bucket{endpoint="gh",le=`
	before := sampleAt(0, 1, bucket+"\"1\"} 4\n"+bucket+"\"2\"} 4\n"+bucket+"\"+Inf\"} 4\n")
	after := sampleAt(0, 2, bucket+"\"1\"} 8\n"+bucket+"\"2\"} 12\n"+bucket+"\"+Inf\"} 14\n")
	c := after.producers["gh"].since(before.producers["gh"])
	for q, want := range map[float64]float64{.2: .5, .4: 1, .5: 1.25, .95: 2} {
		if got := c.quantile(q); math.Abs(got-want) > 1e-9 {
			t.Errorf("the quantile %v is %v, want %v", q, got, want)
		}
	}
	if got := (counts{}).quantile(.5); got != 0 {
		t.Errorf("without observations: %v", got)
	}
	for n, want := range map[float64]string{0: "0", .2: "<0.1", 3: "1.0", 300: "100"} {
		if got := perMinute(n, 3*time.Minute); got != want {
			t.Errorf("%v in 3 minutes: %s, want %s", n, got, want)
		}
	}
}
