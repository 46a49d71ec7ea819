package server

import (
	"context"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"

	"github.com/eyelet-dev/eyelet/cmd/eyelet/internal/forward"
	"github.com/eyelet-dev/eyelet/dedup"
	"github.com/eyelet-dev/eyelet/receiver"
)

// metrics counts observations of the receiver, and reads the counts of the store when it is
// scraped. Labels are configured names and closed sets of codes, never what a client sends.
type metrics struct {
	registry   *prometheus.Registry
	deliveries *prometheus.CounterVec
	answering  *prometheus.HistogramVec
	attempts   *prometheus.CounterVec
	running    *prometheus.HistogramVec
	hanging    *prometheus.GaugeVec
	sameBytes  *prometheus.CounterVec
	idReused   *prometheus.CounterVec
	hang       sync.Map // the attempts that hang
}

// attempt is one start of a task.
type attempt struct {
	event, handler string
	number         int
}

func newMetrics(store dedup.Store, targets *forward.State, listeners []*receiver.Listener) *metrics {
	buckets := []float64{.0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30}
	m := &metrics{
		registry: prometheus.NewRegistry(),
		deliveries: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "eyelet_deliveries_total", Help: "Deliveries answered, by endpoint and outcome.",
		}, []string{"endpoint", "code"}),
		answering: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "eyelet_delivery_seconds", Help: "Time from the head of a delivery to its response.",
			Buckets: buckets,
		}, []string{"endpoint"}),
		attempts: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "eyelet_attempts_total", Help: "Attempts of handlers, by the state of the task after them.",
		}, []string{"endpoint", "handler", "state"}),
		running: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "eyelet_attempt_seconds", Help: "Duration of attempts.", Buckets: buckets,
		}, []string{"endpoint", "handler"}),
		hanging: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "eyelet_handlers_hanging", Help: "Handlers that run beyond their timeout, each of which occupies " +
				"a worker.",
		}, []string{"endpoint", "handler"}),
		sameBytes: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "eyelet_same_bytes_total", Help: "Deliveries whose signed content was accepted before, where no " +
				"signed identifier names the event.",
		}, []string{"endpoint", "outcome"}),
		idReused: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "eyelet_id_reused_total", Help: "Events accepted under an unsigned identifier that was used " +
				"before with other content.",
		}, []string{"endpoint"}),
	}
	m.registry.MustRegister(m.deliveries, m.answering, m.attempts, m.running, m.hanging, m.sameBytes, m.idReused,
		storeMetrics{store}, targetMetrics{targets}, connectionMetrics{listeners},
		collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return m
}

// observe counts one observation.
func (m *metrics) observe(_ context.Context, o receiver.Observation) {
	switch o.Kind {
	case "delivery":
		m.deliveries.WithLabelValues(o.Endpoint, o.Code).Inc()
		m.answering.WithLabelValues(o.Endpoint).Observe(o.Took.Seconds())
		if o.SameBytes != "" {
			m.sameBytes.WithLabelValues(o.Endpoint, o.SameBytes).Inc()
		}
		if o.IDReused {
			m.idReused.WithLabelValues(o.Endpoint).Inc()
		}
	case "attempt":
		m.attempts.WithLabelValues(o.Endpoint, o.Handler, o.State.String()).Inc()
		m.running.WithLabelValues(o.Endpoint, o.Handler).Observe(o.Took.Seconds())
		if _, hung := m.hang.LoadAndDelete(attempt{o.Event, o.Handler, o.Attempt}); hung {
			m.hanging.WithLabelValues(o.Endpoint, o.Handler).Dec()
		}
	case "hanging":
		if _, twice := m.hang.LoadOrStore(attempt{o.Event, o.Handler, o.Attempt}, true); !twice {
			m.hanging.WithLabelValues(o.Endpoint, o.Handler).Inc()
		}
	}
}

// storeMetrics collects the counts of the store.
type storeMetrics struct{ store dedup.Store }

// storeGauge is one count of the store.
type storeGauge struct {
	desc *prometheus.Desc
	kind prometheus.ValueType
	read func(dedup.Stats) float64
}

func gauge(name, help string, read func(dedup.Stats) float64) storeGauge {
	return storeGauge{prometheus.NewDesc("eyelet_store_"+name, help, nil, nil), prometheus.GaugeValue, read}
}

func storeGauges() []storeGauge {
	commits := gauge("commits_total", "Durable steps since the start.", func(s dedup.Stats) float64 {
		return float64(s.Commits)
	})
	accepted := gauge("accepted_total", "Events accepted since the start.", func(s dedup.Stats) float64 {
		return float64(s.Accepted)
	})
	commits.kind, accepted.kind = prometheus.CounterValue, prometheus.CounterValue
	return []storeGauge{
		commits, accepted,
		gauge("records", "Records in the store.", func(s dedup.Stats) float64 { return float64(s.Records) }),
		gauge("tasks_pending", "Tasks that are waiting.", func(s dedup.Stats) float64 { return float64(s.Pending) }),
		gauge("tasks_running", "Tasks that are running.", func(s dedup.Stats) float64 { return float64(s.Running) }),
		gauge("tasks_dead", "Tasks that failed for good.", func(s dedup.Stats) float64 { return float64(s.Dead) }),
		gauge("backlog_bytes", "Payload of events with open tasks.", func(s dedup.Stats) float64 {
			return float64(s.Backlog)
		}),
		gauge("bytes", "Bytes on disk.", func(s dedup.Stats) float64 { return float64(s.Bytes) }),
		gauge("free_bytes", "Bytes free on the disk; -1 where unknown.", func(s dedup.Stats) float64 {
			return float64(s.Free)
		}),
		gauge("oldest_seconds", "Age of the oldest open task; 0 without one.", func(s dedup.Stats) float64 {
			if s.Oldest.IsZero() {
				return 0
			}
			return time.Since(s.Oldest).Seconds()
		}),
	}
}

func quarantined() *prometheus.Desc {
	return prometheus.NewDesc("eyelet_quarantined", "Deliveries that are quarantined and wait for a decision.",
		[]string{"endpoint", "reason"}, nil)
}

// Describe implements prometheus.Collector.
func (storeMetrics) Describe(out chan<- *prometheus.Desc) {
	for _, g := range storeGauges() {
		out <- g.desc
	}
	out <- quarantined()
}

// Collect implements prometheus.Collector. A store that does not respond has no counts.
func (m storeMetrics) Collect(out chan<- prometheus.Metric) {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
	defer cancel()
	stats, err := m.store.Stats(ctx)
	if err != nil {
		return
	}
	for _, g := range storeGauges() {
		out <- prometheus.MustNewConstMetric(g.desc, g.kind, g.read(stats))
	}
	for q, n := range stats.Quarantined {
		out <- prometheus.MustNewConstMetric(quarantined(), prometheus.GaugeValue, float64(n), q.Endpoint, q.Reason)
	}
}

// targetMetrics collects the state of the targets of forward handlers.
type targetMetrics struct{ targets *forward.State }

func targetOff() *prometheus.Desc {
	return prometheus.NewDesc("eyelet_target_off",
		"1 for a target that is switched off, and whose events wait; else 0.", []string{"target"}, nil)
}

// Describe implements prometheus.Collector.
func (targetMetrics) Describe(out chan<- *prometheus.Desc) { out <- targetOff() }

// Collect implements prometheus.Collector.
func (m targetMetrics) Collect(out chan<- prometheus.Metric) {
	for _, t := range m.targets.List() {
		off := 0.0
		if t.Off {
			off = 1
		}
		out <- prometheus.MustNewConstMetric(targetOff(), prometheus.GaugeValue, off, t.Name)
	}
}

// connectionMetrics collects the counts of the two listeners.
type connectionMetrics struct{ listeners []*receiver.Listener }

func openConnections() *prometheus.Desc {
	return prometheus.NewDesc("eyelet_connections", "Open connections.", []string{"port"}, nil)
}

func closedConnections() *prometheus.Desc {
	return prometheus.NewDesc("eyelet_connections_closed_total", "Connections closed because of a limit.",
		[]string{"port", "limit"}, nil)
}

// Describe implements prometheus.Collector.
func (connectionMetrics) Describe(out chan<- *prometheus.Desc) {
	out <- openConnections()
	out <- closedConnections()
}

// Collect implements prometheus.Collector.
func (m connectionMetrics) Collect(out chan<- prometheus.Metric) {
	for i, ln := range m.listeners {
		port, stats := []string{"deliveries", "operations"}[i], ln.Stats()
		out <- prometheus.MustNewConstMetric(openConnections(), prometheus.GaugeValue, float64(stats.Open), port)
		for limit, n := range map[string]uint64{
			"connections": stats.Closed.Connections, "connections_per_address": stats.Closed.PerAddress,
			"head_budget": stats.Closed.HeadBytes, "descriptors": stats.Closed.Descriptors,
		} {
			out <- prometheus.MustNewConstMetric(closedConnections(), prometheus.CounterValue, float64(n), port, limit)
		}
	}
}
