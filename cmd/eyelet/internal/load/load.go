// Package load counts what a running server does between two looks at it.
package load

import (
	"cmp"
	"context"
	"maps"
	"math"
	"regexp"
	"slices"
	"strconv"
	"time"

	"github.com/eyelet-dev/eyelet/inspect"
)

// Report is what a server did between two times, and its present state.
type Report struct {
	Since     time.Time      `json:"since"`
	Time      time.Time      `json:"time"`
	Started   time.Time      `json:"started"`
	Accepting bool           `json:"accepting"`
	Problem   string         `json:"problem,omitempty"`
	Waiting   int64          `json:"waiting"`
	Running   int64          `json:"running"`
	Dead      int64          `json:"dead"`
	Oldest    *time.Time     `json:"oldest,omitempty"`
	Hour      *inspect.Point `json:"hour,omitempty"` // the present one
	Producers []Producer     `json:"producers"`
	Handlers  []Handler      `json:"handlers"`
}

// Producer counts the deliveries of a producer.
type Producer struct {
	Name       string    `json:"name"`
	Accepted   float64   `json:"accepted"`
	Duplicates float64   `json:"duplicates"`
	Refused    float64   `json:"refused"`
	P50        float64   `json:"p50,omitempty"` // of all responses, in seconds, as P95
	P95        float64   `json:"p95,omitempty"`
	Last       time.Time `json:"last,omitzero"` // verified delivery
}

// Handler counts the attempts of a handler.
type Handler struct {
	Name     string  `json:"name"`
	Attempts float64 `json:"attempts"`
	Failed   float64 `json:"failed"`
	P50      float64 `json:"p50,omitempty"` // of attempts, in seconds, as P95
	P95      float64 `json:"p95,omitempty"`
	Paused   bool    `json:"paused"`
}

// Sample has the counts of a server since its start.
type Sample struct {
	at        time.Time
	health    inspect.Health
	hour      *inspect.Point
	traffic   []inspect.ProducerState
	producers map[string]counts
	handlers  map[string]counts
}

// counts are those of a producer (accepted, duplicates, refused) or a handler (attempts, failed).
type counts struct {
	n     [3]float64
	below map[float64]float64 // how many took at most so many seconds
}

// since returns what was counted since an earlier sample. Counts that fell began again.
func (c counts) since(before counts) counts {
	if c.n[0] < before.n[0] || c.below[math.Inf(1)] < before.below[math.Inf(1)] {
		return c
	}
	more := counts{below: map[float64]float64{}}
	for i := range c.n {
		more.n[i] = c.n[i] - before.n[i]
	}
	for bound, n := range c.below {
		more.below[bound] = n - before.below[bound]
	}
	return more
}

// quantile returns a quantile in seconds, interpolated within its bucket as histogram_quantile of
// Prometheus does. It is 0 without observations, and at most the largest bound.
func (c counts) quantile(q float64) float64 {
	rank := q * c.below[math.Inf(1)]
	low, under := 0.0, 0.0
	for _, bound := range slices.Sorted(maps.Keys(c.below)) {
		n := c.below[bound]
		switch {
		case rank == 0 || math.IsInf(bound, 1):
			return low
		case n >= rank:
			return low + (bound-low)*(rank-under)/(n-under)
		}
		low, under = bound, n
	}
	return 0
}

// window is the time that the counts of a report are of, at most.
const window = time.Minute

// History has the samples of the last minute, and the one before.
type History []Sample

// Add adds a sample, and reports what the server did since the oldest one, or at first since its
// start. The samples of another server are dropped.
func (h *History) Add(s Sample) Report {
	all := *h
	if len(all) > 0 && !all[0].health.Started.Equal(s.health.Started) {
		all = nil
	}
	for len(all) > 1 && s.at.Sub(all[1].at) >= window {
		all = all[1:]
	}
	before := Sample{at: s.health.Started}
	if len(all) > 0 {
		before = all[0]
	}
	*h = append(all, s)
	return s.since(before)
}

// Client asks a server.
type Client interface {
	Health(ctx context.Context) (inspect.Health, error)
	Producers(ctx context.Context) ([]inspect.ProducerState, error)
	Series(ctx context.Context, step string) ([]inspect.Point, error)
	Text(ctx context.Context, path string) (string, error)
}

// Take asks a server for its counts.
func Take(ctx context.Context, client Client) (s Sample, err error) {
	s = Sample{at: time.Now(), producers: map[string]counts{}, handlers: map[string]counts{}}
	if s.health, err = client.Health(ctx); err != nil {
		return s, err
	}
	if s.traffic, err = client.Producers(ctx); err != nil {
		return s, err
	}
	points, err := client.Series(ctx, "1h")
	if err != nil {
		return s, err
	}
	if len(points) > 0 {
		s.hour = &points[len(points)-1]
	}
	metrics, err := client.Text(ctx, "/metrics")
	if err != nil {
		return s, err
	}
	for _, one := range s.traffic {
		s.producers[one.Name] = counts{
			n:     [3]float64{float64(one.Accepted), float64(one.Duplicates), float64(one.Refused)},
			below: map[float64]float64{},
		}
	}
	for _, one := range s.health.Handlers {
		s.handlers[one.Handler] = counts{below: map[float64]float64{}}
	}
	s.count(metrics)
	return s, nil
}

// A sample in the text format of Prometheus, and a label of it.
var (
	metricLine  = regexp.MustCompile(`(?m)^eyelet_(\w+)\{(.*)\} (\S+)$`)
	metricLabel = regexp.MustCompile(`(\w+)=("(?:[^"\\]|\\.)*")`)
)

// count adds the metrics of producers and handlers that the sample has.
func (s *Sample) count(metrics string) {
	for _, line := range metricLine.FindAllStringSubmatch(metrics, -1) {
		value, _ := strconv.ParseFloat(line[3], 64)
		labels := map[string]string{}
		for _, label := range metricLabel.FindAllStringSubmatch(line[2], -1) {
			labels[label[1]], _ = strconv.Unquote(label[2])
		}
		bound, _ := strconv.ParseFloat(labels["le"], 64)
		handler, known := s.handlers[labels["handler"]]
		switch producer, ok := s.producers[labels["endpoint"]]; {
		case line[1] == "delivery_seconds_bucket" && ok:
			producer.below[bound] += value
		case line[1] == "attempt_seconds_bucket" && known:
			handler.below[bound] += value
		case line[1] == "attempts_total" && known:
			handler.n[0] += value
			if labels["state"] != "done" {
				handler.n[1] += value
			}
			s.handlers[labels["handler"]] = handler
		}
	}
}

// since returns the report of the time since an earlier sample, the busiest first.
func (s *Sample) since(before Sample) Report {
	h := s.health
	r := Report{Since: before.at, Time: s.at, Started: h.Started, Accepting: h.Accepting, Problem: h.Problem,
		Waiting: h.Pending, Running: h.Running, Dead: h.Dead, Oldest: h.Oldest, Hour: s.hour,
		Producers: []Producer{}, Handlers: []Handler{}}
	for _, one := range s.traffic {
		c := s.producers[one.Name].since(before.producers[one.Name])
		r.Producers = append(r.Producers, Producer{one.Name, c.n[0], c.n[1], c.n[2], c.quantile(.5), c.quantile(.95),
			one.Last})
	}
	for _, one := range h.Handlers {
		c := s.handlers[one.Handler].since(before.handlers[one.Handler])
		r.Handlers = append(r.Handlers, Handler{one.Handler, c.n[0], c.n[1], c.quantile(.5), c.quantile(.95),
			one.Paused})
	}
	slices.SortFunc(r.Producers, func(a, b Producer) int {
		return cmp.Or(cmp.Compare(b.Accepted+b.Duplicates+b.Refused, a.Accepted+a.Duplicates+a.Refused),
			cmp.Compare(a.Name, b.Name))
	})
	slices.SortFunc(r.Handlers, func(a, b Handler) int {
		return cmp.Or(cmp.Compare(b.Attempts, a.Attempts), cmp.Compare(a.Name, b.Name))
	})
	return r
}
