package metrics

import (
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/eyelet-dev/eyelet/producer"
	"github.com/eyelet-dev/eyelet/receiver"
)

// senders are the senders of the endpoints: which secrets they use, how old their signatures are,
// and when each last sent a new event.
type senders struct {
	matches *prometheus.CounterVec
	age     *prometheus.HistogramVec

	mu  sync.Mutex
	all map[string]*sender // by endpoint
}

type sender struct {
	secrets  int           // that verified a delivery, or are before one that did
	accepted time.Time     // of its last new event; zero without one
	every    time.Duration // between new events; 0 without an expectation
	since    time.Time     // when the expectation began
}

var (
	lastAccepted = prometheus.NewDesc("eyelet_last_accepted_timestamp_seconds",
		"When the last new event was accepted, in seconds since 1970; absent before the first."+ofProcess,
		[]string{"endpoint"}, nil)
	silent = prometheus.NewDesc("eyelet_silent",
		"1 for an endpoint that got no new event for longer than its expect_every, else 0."+ofProcess,
		[]string{"endpoint"}, nil)
)

func newSenders() *senders {
	return &senders{
		matches: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "eyelet_secret_matches_total",
			Help: "Verified deliveries, by the position of the secret or key that verified them, from 1.",
		}, []string{"endpoint", "secret"}),
		age: prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: "eyelet_signed_age_seconds",
			Help:    "Age of the signed time of verified and stale deliveries; negative if it is in the future.",
			Buckets: []float64{-60, -5, 0, 1, 5, 15, 60, 150, 300, 900, 3600, 21600, 86400},
		}, []string{"endpoint"}),
		all: map[string]*sender{},
	}
}

// of returns the sender of an endpoint. The lock is held.
func (s *senders) of(endpoint string) *sender {
	one := s.all[endpoint]
	if one == nil {
		one = &sender{}
		s.all[endpoint] = one
	}
	return one
}

// observe counts a delivery.
func (s *senders) observe(o *receiver.Observation) {
	if o.Secret == 0 && !o.Signed && !o.New {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	one := s.of(o.Endpoint)
	for ; one.secrets < o.Secret; one.secrets++ {
		s.matches.WithLabelValues(o.Endpoint, strconv.Itoa(one.secrets+1))
	}
	if o.Secret > 0 {
		s.matches.WithLabelValues(o.Endpoint, strconv.Itoa(o.Secret)).Inc()
	}
	if o.Signed {
		s.age.WithLabelValues(o.Endpoint).Observe(o.SignedAge.Seconds())
	}
	if o.New {
		one.accepted = time.Now()
	}
}

// expect replaces the expectations by those of the producers.
func (s *senders) expect(producers []producer.Producer) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for name, one := range s.all {
		if !slices.ContainsFunc(producers, func(p producer.Producer) bool { return p.Name == name }) {
			one.every = 0
		}
	}
	for i := range producers {
		one := s.of(producers[i].Name)
		if one.every == 0 {
			one.since = time.Now()
		}
		one.every = producers[i].ExpectEvery
	}
}

// forget deletes the series of an endpoint.
func (s *senders) forget(endpoint string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.all, endpoint)
	s.matches.DeletePartialMatch(prometheus.Labels{"endpoint": endpoint})
	s.age.DeletePartialMatch(prometheus.Labels{"endpoint": endpoint})
}

// Describe implements prometheus.Collector.
func (s *senders) Describe(out chan<- *prometheus.Desc) {
	s.matches.Describe(out)
	s.age.Describe(out)
	out <- lastAccepted
	out <- silent
}

// Collect implements prometheus.Collector.
func (s *senders) Collect(out chan<- prometheus.Metric) {
	s.matches.Collect(out)
	s.age.Collect(out)
	s.mu.Lock()
	defer s.mu.Unlock()
	for endpoint, one := range s.all {
		heard := one.since
		if !one.accepted.IsZero() {
			at := float64(one.accepted.UnixMilli()) / 1e3
			out <- prometheus.MustNewConstMetric(lastAccepted, prometheus.GaugeValue, at, endpoint)
		}
		if one.accepted.After(heard) {
			heard = one.accepted
		}
		if one.every > 0 {
			is := 0.0
			if time.Since(heard) > one.every {
				is = 1
			}
			out <- prometheus.MustNewConstMetric(silent, prometheus.GaugeValue, is, endpoint)
		}
	}
}
