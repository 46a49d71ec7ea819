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

	"github.com/prometheus/client_golang/prometheus"

	"github.com/eyelet-dev/eyelet/dedup"
	"github.com/eyelet-dev/eyelet/producer"
	"github.com/eyelet-dev/eyelet/receiver"
)

// Collector counts the observations of a receiver. It is a prometheus.Collector.
type Collector struct {
	all                  []prometheus.Collector
	deliveries, attempts *prometheus.CounterVec
	stale, sameBytes     *prometheus.CounterVec
	missed, unverified   *prometheus.CounterVec
	compared             *prometheus.GaugeVec
	answering, running   *prometheus.HistogramVec
	hanging              *prometheus.GaugeVec
	senders              *senders
	hang                 sync.Map // the attempts that hang
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
	c.deliveries = counter("deliveries_total", "Deliveries answered, by result: accepted, answered, replayed "+
		"(a duplicate), quarantined, empty_batch, handshake, or the code of the problem.",
		"endpoint", "code")
	c.answering = seconds("delivery_seconds", "Time from the head of a delivery to its response.", "endpoint")
	c.attempts = counter("attempts_total", "Attempts of handlers, by the state of the task after them: "+
		"done, pending (to be retried) or dead.",
		"endpoint", "handler", "state")
	c.stale = counter("stale_total", "Attempts that are done without a run, because a newer event of their lane "+
		"was handled.", "endpoint", "handler")
	c.running = seconds("attempt_seconds", "Duration of attempts.", "endpoint", "handler")
	c.hanging = prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "eyelet_handlers_hanging",
		Help: "Handlers that run beyond their timeout, each of which keeps a worker.",
	}, []string{"endpoint", "handler"})
	c.all = append(c.all, c.hanging)
	c.sameBytes = counter("same_bytes_total", "Deliveries whose signed content was accepted before, where no signed "+
		"identifier names the event: known, again (it runs), quarantined or refused.", "endpoint", "outcome")
	c.unverified = counter("unverified_total", "Deliveries that did not verify and were accepted all the same, "+
		"because their producer is monitored.", "endpoint")
	c.missed = counter("missed_total", "Events that did not arrive and are in the vendor's list, by result: fetched, "+
		"asked (the vendor was asked to send it again) or given_up (it did not).", "endpoint", "result")
	c.compared = prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "eyelet_reconcile_last_success_timestamp_seconds",
		Help: "When a comparison with the vendor's list reached its end, in seconds of Unix time.",
	}, []string{"endpoint"})
	c.all = append(c.all, c.compared)
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
		c.deliveries.WithLabelValues(o.Endpoint, string(o.Code)).Inc()
		c.answering.WithLabelValues(o.Endpoint).Observe(o.Took.Seconds())
		switch {
		case !o.Unverified:
			c.senders.observe(&o)
		case o.New:
			c.unverified.WithLabelValues(o.Endpoint).Inc()
		}
		if o.SameBytes != "" {
			c.sameBytes.WithLabelValues(o.Endpoint, string(o.SameBytes)).Inc()
		}
	case receiver.KindAttempt:
		c.attempts.WithLabelValues(o.Endpoint, o.Handler, o.State.String()).Inc()
		if o.Reason == dedup.ReasonStale {
			c.stale.WithLabelValues(o.Endpoint, o.Handler).Inc()
		}
		c.running.WithLabelValues(o.Endpoint, o.Handler).Observe(o.Took.Seconds())
		if _, hung := c.hang.LoadAndDelete(attempt{o.Event, o.Handler, o.Attempt}); hung {
			c.hanging.WithLabelValues(o.Endpoint, o.Handler).Dec()
		}
	case receiver.KindMissed:
		c.missed.WithLabelValues(o.Endpoint, string(o.Code)).Inc()
	case receiver.KindCompared:
		if last := c.compared.WithLabelValues(o.Endpoint); o.Err == nil { // else 0, unless there was one
			last.SetToCurrentTime()
		}
	case receiver.KindHanging:
		if _, twice := c.hang.LoadOrStore(attempt{o.Event, o.Handler, o.Attempt}, true); !twice {
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
