package main

import (
	"cmp"
	"context"
	"maps"
	"math"
	"regexp"
	"slices"
	"strconv"
	"time"

	"github.com/eyelet-dev/eyelet/cmd/eyelet/internal/opsclient"
	"github.com/eyelet-dev/eyelet/inspect"
)

// topReport is what a server did between two times, and its present state.
type topReport struct {
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
	Producers []producerLoad `json:"producers"`
	Handlers  []handlerLoad  `json:"handlers"`
}

// producerLoad counts the deliveries of a producer.
type producerLoad struct {
	Name       string    `json:"name"`
	Accepted   float64   `json:"accepted"`
	Duplicates float64   `json:"duplicates"`
	Refused    float64   `json:"refused"`
	P50        float64   `json:"p50,omitempty"` // of all responses, in seconds, as P95
	P95        float64   `json:"p95,omitempty"`
	Last       time.Time `json:"last,omitzero"` // verified delivery
}

// handlerLoad counts the attempts of a handler.
type handlerLoad struct {
	Name     string  `json:"name"`
	Attempts float64 `json:"attempts"`
	Failed   float64 `json:"failed"`
	P50      float64 `json:"p50,omitempty"` // of attempts, in seconds, as P95
	P95      float64 `json:"p95,omitempty"`
	Paused   bool    `json:"paused"`
}

// topSample has the counts of a server since its start.
type topSample struct {
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

// takeSample asks a server for its counts.
func takeSample(ctx context.Context, client *opsclient.Client) (s topSample, err error) {
	s = topSample{at: time.Now(), producers: map[string]counts{}, handlers: map[string]counts{}}
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
func (s *topSample) count(metrics string) {
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
func (s *topSample) since(before topSample) topReport {
	h := s.health
	r := topReport{Since: before.at, Time: s.at, Started: h.Started, Accepting: h.Accepting, Problem: h.Problem,
		Waiting: h.Pending, Running: h.Running, Dead: h.Dead, Oldest: h.Oldest, Hour: s.hour,
		Producers: []producerLoad{}, Handlers: []handlerLoad{}}
	for _, one := range s.traffic {
		c := s.producers[one.Name].since(before.producers[one.Name])
		r.Producers = append(r.Producers, producerLoad{one.Name, c.n[0], c.n[1], c.n[2], c.quantile(.5), c.quantile(.95),
			one.Last})
	}
	for _, one := range h.Handlers {
		c := s.handlers[one.Handler].since(before.handlers[one.Handler])
		r.Handlers = append(r.Handlers, handlerLoad{one.Handler, c.n[0], c.n[1], c.quantile(.5), c.quantile(.95),
			one.Paused})
	}
	slices.SortFunc(r.Producers, func(a, b producerLoad) int {
		return cmp.Or(cmp.Compare(b.Accepted+b.Duplicates+b.Refused, a.Accepted+a.Duplicates+a.Refused),
			cmp.Compare(a.Name, b.Name))
	})
	slices.SortFunc(r.Handlers, func(a, b handlerLoad) int {
		return cmp.Or(cmp.Compare(b.Attempts, a.Attempts), cmp.Compare(a.Name, b.Name))
	})
	return r
}
