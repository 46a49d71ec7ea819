package server

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"github.com/eyelet-dev/eyelet/cmd/eyelet/internal/forward"
	"github.com/eyelet-dev/eyelet/dedup"
	"github.com/eyelet-dev/eyelet/receiver"
	"github.com/eyelet-dev/eyelet/verify"
)

// metrics counts observations of the receiver, and reads the counts of the store when it is
// scraped. Labels are configured names and closed sets of codes, never what a client sends.
type metrics struct {
	registry   *prometheus.Registry
	deliveries series[deliveryLabels]
	attempts   series[attemptLabels]
	hanging    *prometheus.GaugeVec
	sameBytes  *prometheus.CounterVec
	idReused   *prometheus.CounterVec
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

// attempt is one start of a task.
type attempt struct {
	event, handler string
	number         int
}

func newMetrics(store dedup.Store, targets *forward.State, listeners []*receiver.Listener) *metrics {
	buckets := []float64{.0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30}
	r := prometheus.NewRegistry()
	with := promauto.With(r)
	r.MustRegister(stateMetrics{store, targets, listeners},
		collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	counter := func(name, help string, labels ...string) *prometheus.CounterVec {
		return with.NewCounterVec(prometheus.CounterOpts{Name: "eyelet_" + name, Help: help}, labels)
	}
	seconds := func(name, help string, labels ...string) *prometheus.HistogramVec {
		o := prometheus.HistogramOpts{Name: "eyelet_" + name, Help: help, Buckets: buckets}
		return with.NewHistogramVec(o, labels)
	}
	deliveries := counter("deliveries_total", "Deliveries answered, by endpoint and outcome.", "endpoint", "code")
	answering := seconds("delivery_seconds", "Time from the head of a delivery to its response.", "endpoint")
	attempts := counter("attempts_total", "Attempts of handlers, by the state of the task after them.",
		"endpoint", "handler", "state")
	running := seconds("attempt_seconds", "Duration of attempts.", "endpoint", "handler")
	return &metrics{
		registry: r,
		deliveries: series[deliveryLabels]{find: func(l deliveryLabels) timed {
			return timed{deliveries.WithLabelValues(l.endpoint, string(l.code)), answering.WithLabelValues(l.endpoint)}
		}},
		attempts: series[attemptLabels]{find: func(l attemptLabels) timed {
			return timed{attempts.WithLabelValues(l.endpoint, l.handler, l.state.String()),
				running.WithLabelValues(l.endpoint, l.handler)}
		}},
		hanging: with.NewGaugeVec(prometheus.GaugeOpts{Name: "eyelet_handlers_hanging",
			Help: "Handlers that run beyond their timeout, each of which occupies a worker.",
		}, []string{"endpoint", "handler"}),
		sameBytes: counter("same_bytes_total", "Deliveries whose signed content was accepted before, "+
			"where no signed identifier names the event.", "endpoint", "outcome"),
		idReused: counter("id_reused_total", "Events accepted under an unsigned identifier that was used before "+
			"with other content.", "endpoint"),
	}
}

// observe counts one observation.
func (m *metrics) observe(_ context.Context, o receiver.Observation) {
	switch o.Kind {
	case "delivery":
		m.deliveries.add(deliveryLabels{o.Endpoint, o.Code}, o.Took)
		if o.SameBytes != "" {
			m.sameBytes.WithLabelValues(o.Endpoint, string(o.SameBytes)).Inc()
		}
		if o.IDReused {
			m.idReused.WithLabelValues(o.Endpoint).Inc()
		}
	case "attempt":
		m.attempts.add(attemptLabels{o.Endpoint, o.Handler, o.State}, o.Took)
		if m.hangs.Load() == 0 {
			return
		}
		if _, hung := m.hang.LoadAndDelete(attempt{o.Event, o.Handler, o.Attempt}); hung {
			m.hangs.Add(-1)
			m.hanging.WithLabelValues(o.Endpoint, o.Handler).Dec()
		}
	case "hanging":
		if _, twice := m.hang.LoadOrStore(attempt{o.Event, o.Handler, o.Attempt}, true); !twice {
			m.hangs.Add(1)
			m.hanging.WithLabelValues(o.Endpoint, o.Handler).Inc()
		}
	}
}

// stateMetrics reads the state of the store, the targets and the two listeners.
type stateMetrics struct {
	store     dedup.Store
	targets   *forward.State
	listeners []*receiver.Listener
}

var (
	quarantined = prometheus.NewDesc("eyelet_quarantined",
		"Deliveries that are quarantined and wait for a decision.", []string{"endpoint", "reason"}, nil)
	targetOff = prometheus.NewDesc("eyelet_target_off",
		"1 for a target that is switched off, and whose events wait; else 0.", []string{"target"}, nil)
	openConnections   = prometheus.NewDesc("eyelet_connections", "Open connections.", []string{"port"}, nil)
	closedConnections = prometheus.NewDesc("eyelet_connections_closed_total",
		"Connections closed because of a limit.", []string{"port", "limit"}, nil)
)

// storeCounts returns the counts of the store.
func storeCounts(s dedup.Stats) []prometheus.Metric {
	const counter, gauge = prometheus.CounterValue, prometheus.GaugeValue
	metric := func(kind prometheus.ValueType, name, help string, value float64) prometheus.Metric {
		return prometheus.MustNewConstMetric(prometheus.NewDesc("eyelet_store_"+name, help, nil, nil), kind, value)
	}
	oldest := 0.0
	if !s.Oldest.IsZero() {
		oldest = time.Since(s.Oldest).Seconds()
	}
	return []prometheus.Metric{
		metric(counter, "commits_total", "Durable steps since the start.", float64(s.Commits)),
		metric(counter, "accepted_total", "Events accepted since the start.", float64(s.Accepted)),
		metric(gauge, "records", "Records in the store.", float64(s.Records)),
		metric(gauge, "tasks_pending", "Tasks that are waiting.", float64(s.Pending)),
		metric(gauge, "tasks_running", "Tasks that are running.", float64(s.Running)),
		metric(gauge, "tasks_dead", "Tasks that failed for good.", float64(s.Dead)),
		metric(gauge, "backlog_bytes", "Payload of events with open tasks.", float64(s.Backlog)),
		metric(gauge, "bytes", "Bytes on disk.", float64(s.Bytes)),
		metric(gauge, "free_bytes", "Bytes free on the disk; -1 where unknown.", float64(s.Free)),
		metric(gauge, "oldest_seconds", "Age of the oldest open task; 0 without one.", oldest),
	}
}

// Describe implements prometheus.Collector.
func (stateMetrics) Describe(out chan<- *prometheus.Desc) {
	for _, count := range storeCounts(dedup.Stats{}) {
		out <- count.Desc()
	}
	for _, desc := range []*prometheus.Desc{quarantined, targetOff, openConnections, closedConnections} {
		out <- desc
	}
}

// Collect implements prometheus.Collector. A store that does not respond has no counts.
func (m stateMetrics) Collect(out chan<- prometheus.Metric) {
	send := func(desc *prometheus.Desc, kind prometheus.ValueType, value float64, labels ...string) {
		out <- prometheus.MustNewConstMetric(desc, kind, value, labels...)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
	defer cancel()
	if stats, err := m.store.Stats(ctx); err == nil {
		for _, count := range storeCounts(stats) {
			out <- count
		}
		for q, n := range stats.Quarantined {
			send(quarantined, prometheus.GaugeValue, float64(n), q.Endpoint, q.Reason)
		}
	}
	for _, t := range m.targets.List() {
		off := 0.0
		if t.Off {
			off = 1
		}
		send(targetOff, prometheus.GaugeValue, off, t.Name)
	}
	for i, ln := range m.listeners {
		port, stats := []string{"deliveries", "operations"}[i], ln.Stats()
		send(openConnections, prometheus.GaugeValue, float64(stats.Open), port)
		for limit, n := range map[string]uint64{
			"connections": stats.Closed.Connections, "connections_per_address": stats.Closed.PerAddress,
			"head_budget": stats.Closed.HeadBytes, "descriptors": stats.Closed.Descriptors,
		} {
			send(closedConnections, prometheus.CounterValue, float64(n), port, limit)
		}
	}
}
