package load

import (
	"math"
	"testing"
	"time"

	"github.com/eyelet-dev/eyelet/inspect"
	"github.com/eyelet-dev/eyelet/receiver"
)

// sampleAt is a sample, after so many seconds, of a server that started at another.
func sampleAt(started, at int, metrics string) Sample {
	s := Sample{at: time.Unix(int64(at), 0), producers: map[string]counts{"gh": {below: map[float64]float64{}}},
		handlers: map[string]counts{"h": {below: map[float64]float64{}}},
		traffic:  []inspect.ProducerState{{Name: "gh"}}, health: inspect.Health{Started: time.Unix(int64(started), 0)}}
	s.health.Handlers = []receiver.Control{{Handler: "h"}}
	s.count(metrics)
	return s
}

// TestCountsAreSinceTheOldestSampleOfAMinute, and since the start of another server.
func TestCountsAreSinceTheOldestSampleOfAMinute(t *testing.T) {
	t.Parallel()
	const labels = `{endpoint="gh",handler="h",state=`
	metrics := func(done, dead string) string {
		return "# HELP eyelet_attempts_total x\neyelet_attempts_total" + labels + `"done"} ` + done +
			"\neyelet_attempts_total" + labels + `"dead"} ` + dead +
			"\neyelet_attempts_total{endpoint=\"gh\",handler=\"gone\",state=\"done\"} 9\n"
	}
	var h History
	for _, step := range []struct {
		started, at, since int
		done, dead         string
		attempts, failed   float64
	}{
		{0, 600, 0, "10", "2", 12, 2}, {0, 630, 600, "12", "2", 2, 0}, {0, 660, 600, "12", "3", 3, 1},
		{0, 690, 630, "20", "3", 9, 1}, {0, 692, 630, "4", "1", 5, 1}, // the handler was removed and added again
		{700, 702, 700, "1", "1", 2, 1},
	} {
		r := h.Add(sampleAt(step.started, step.at, metrics(step.done, step.dead)))
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
}
