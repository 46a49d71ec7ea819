// Package metrics counts for Prometheus what a receiver does. The binary serves the same metrics;
// docs/operations.md lists them.
//
// [Register] is all that most programs need, as receiver.Config.Opening or by eyelet.Metrics. Its
// parts are a [Collector], whose Observe belongs in receiver.Config, and [Store]. [Connections]
// reads the state of listeners.
//
// Labels are configured names and closed sets of codes, never text that a client sends.
package metrics

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/eyelet-dev/eyelet/dedup"
	"github.com/eyelet-dev/eyelet/producer"
	"github.com/eyelet-dev/eyelet/receiver"
	"github.com/eyelet-dev/eyelet/verify"
)

// Collector counts the observations of a receiver. It is a prometheus.Collector.
type Collector struct {
	all        []prometheus.Collector
	deliveries series[deliveryLabels]
	attempts   series[attemptLabels]
	hanging    *prometheus.GaugeVec
	sameBytes  *prometheus.CounterVec
	idReused   *prometheus.CounterVec
	senders    *senders
	hang       sync.Map // the attempts that hang
	hangs      atomic.Int64
}

// series counts and times what has the same labels. Looking up the metrics of labels costs more
// than counting, so it is done once.
type series[L comparable] struct {
	find func(L) timed

	mu    sync.RWMutex
	found map[L]timed
}

type timed struct {
	count prometheus.Counter
	took  prometheus.Observer
}

type deliveryLabels struct {
	endpoint string
	code     verify.Code
}

type attemptLabels struct {
	endpoint, handler string
	state             dedup.State
}

func (s *series[L]) add(labels L, took time.Duration) {
	s.mu.RLock()
	t, ok := s.found[labels]
	s.mu.RUnlock()
	if !ok {
		t = s.find(labels)
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.found == nil {
			s.found = map[L]timed{}
		}
		s.found[labels] = t
	}
	t.count.Inc()
	t.took.Observe(took.Seconds())
}

// forget looks the metrics of all labels up again: they may have been deleted.
func (s *series[L]) forget() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.found = nil
}

// attempt is one start of a task.
type attempt struct {
	event, handler string
	number         int
}

// New returns a collector for one receiver.
func New() *Collector {
	c := &Collector{}
	counter := func(name, help string, labels ...string) *prometheus.CounterVec {
		v := prometheus.NewCounterVec(prometheus.CounterOpts{Name: "eyelet_" + name, Help: help}, labels)
		c.all = append(c.all, v)
		return v
	}
	seconds := func(name, help string, labels ...string) *prometheus.HistogramVec {
		buckets := []float64{.0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30}
		v := prometheus.NewHistogramVec(
			prometheus.HistogramOpts{Name: "eyelet_" + name, Help: help, Buckets: buckets}, labels)
		c.all = append(c.all, v)
		return v
	}
	deliveries := counter("deliveries_total", "Deliveries answered, by result: accepted, answered, replayed "+
		"(a duplicate), quarantined, empty_batch, handshake, or the code of the problem.",
		"endpoint", "code")
	answering := seconds("delivery_seconds", "Time from the head of a delivery to its response.", "endpoint")
	c.deliveries.find = func(l deliveryLabels) timed {
		return timed{deliveries.WithLabelValues(l.endpoint, string(l.code)), answering.WithLabelValues(l.endpoint)}
	}
	attempts := counter("attempts_total", "Attempts of handlers, by the state of the task after them: "+
		"done, pending (to be retried) or dead.",
		"endpoint", "handler", "state")
	running := seconds("attempt_seconds", "Duration of attempts.", "endpoint", "handler")
	c.attempts.find = func(l attemptLabels) timed {
		return timed{attempts.WithLabelValues(l.endpoint, l.handler, l.state.String()),
			running.WithLabelValues(l.endpoint, l.handler)}
	}
	c.hanging = prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "eyelet_handlers_hanging",
		Help: "Handlers that run beyond their timeout, each of which keeps a worker.",
	}, []string{"endpoint", "handler"})
	c.all = append(c.all, c.hanging)
	c.sameBytes = counter("same_bytes_total", "Deliveries whose signed content was accepted before, where no signed "+
		"identifier names the event: known, again (it runs), quarantined or refused.", "endpoint", "outcome")
	c.idReused = counter("id_reused_total", "Events accepted under an unsigned identifier that was used before "+
		"with other content.", "endpoint")
	c.senders = newSenders()
	c.all = append(c.all, c.senders)
	return c
}

// Expect sets the producers whose silence is reported: eyelet_silent is 1 for a producer that sent
// no new event for longer than its ExpectEvery. The time before the first call for a producer does
// not count. Each call replaces the producers of the previous one.
func (c *Collector) Expect(producers []producer.Producer) { c.senders.expect(producers) }

// Forget deletes the series that have these labels, such as those of a handler that is gone. With
// the label endpoint alone it also forgets when its last new event came.
func (c *Collector) Forget(labels prometheus.Labels) {
	c.deliveries.forget()
	c.attempts.forget()
	for _, one := range c.all {
		if v, ok := one.(interface{ DeletePartialMatch(prometheus.Labels) int }); ok {
			v.DeletePartialMatch(labels)
		}
	}
	if endpoint, ok := labels["endpoint"]; ok && len(labels) == 1 {
		c.senders.forget(endpoint)
	}
}

// Observe counts one observation. It is the function for receiver.Config.Observe, and does not
// block.
func (c *Collector) Observe(_ context.Context, o receiver.Observation) {
	switch o.Kind {
	case receiver.KindDelivery:
		c.deliveries.add(deliveryLabels{o.Endpoint, o.Code}, o.Took)
		c.senders.observe(&o)
		if o.SameBytes != "" {
			c.sameBytes.WithLabelValues(o.Endpoint, string(o.SameBytes)).Inc()
		}
		if o.IDReused {
			c.idReused.WithLabelValues(o.Endpoint).Inc()
		}
	case receiver.KindAttempt:
		c.attempts.add(attemptLabels{o.Endpoint, o.Handler, o.State}, o.Took)
		if c.hangs.Load() == 0 {
			return
		}
		if _, hung := c.hang.LoadAndDelete(attempt{o.Event, o.Handler, o.Attempt}); hung {
			c.hangs.Add(-1)
			c.hanging.WithLabelValues(o.Endpoint, o.Handler).Dec()
		}
	case receiver.KindHanging:
		if _, twice := c.hang.LoadOrStore(attempt{o.Event, o.Handler, o.Attempt}, true); !twice {
			c.hangs.Add(1)
			c.hanging.WithLabelValues(o.Endpoint, o.Handler).Inc()
		}
	}
}

// Describe implements prometheus.Collector.
func (c *Collector) Describe(out chan<- *prometheus.Desc) {
	for _, one := range c.all {
		one.Describe(out)
	}
}

// Collect implements prometheus.Collector.
func (c *Collector) Collect(out chan<- prometheus.Metric) {
	for _, one := range c.all {
		one.Collect(out)
	}
}
