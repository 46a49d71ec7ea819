package server

import (
	"runtime"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"

	"github.com/eyelet-dev/eyelet/cmd/eyelet/internal/forward"
	"github.com/eyelet-dev/eyelet/cmd/eyelet/internal/refused"
	"github.com/eyelet-dev/eyelet/dedup"
	"github.com/eyelet-dev/eyelet/inspect"
	"github.com/eyelet-dev/eyelet/receiver"
	"github.com/eyelet-dev/eyelet/receiver/metrics"
)

// newRegistry returns the metrics of the operations port: those of the library, of the targets,
// of Go and of the process.
func newRegistry(
	c *metrics.Collector, store dedup.Store, targets *forward.State, ring *refused.Ring,
	listeners []*receiver.Listener, version string,
) *prometheus.Registry {
	ports := map[string]*receiver.Listener{}
	for i, ln := range listeners {
		ports[[]string{"deliveries", "operations"}[i]] = ln
	}
	r := prometheus.NewRegistry()
	r.MustRegister(buildInfo(version), c, metrics.Store(store), metrics.Connections(ports), targetMetrics{targets},
		collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	if ring != nil {
		r.MustRegister(refusedMetrics{ring})
	}
	return r
}

// buildInfo is 1, with the version of the program as a label.
func buildInfo(version string) prometheus.Collector {
	return prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "eyelet_build_info", Help: "1, with the versions of the program and of Go.",
		ConstLabels: prometheus.Labels{"version": version, "goversion": runtime.Version()},
	}, func() float64 { return 1 })
}

// refusedMetrics counts the refused deliveries that are kept, and those that are not.
type refusedMetrics struct{ ring *refused.Ring }

var (
	refusedKept = prometheus.NewDesc("eyelet_refused_kept",
		"Refused deliveries that are kept for the operator.", nil, nil)
	refusedDropped = prometheus.NewDesc("eyelet_refused_dropped_total",
		"Refused deliveries that are not kept, or no longer, by reason: rate, full or disk.", []string{"reason"}, nil)
)

// Describe implements prometheus.Collector.
func (refusedMetrics) Describe(out chan<- *prometheus.Desc) {
	out <- refusedKept
	out <- refusedDropped
}

// Collect implements prometheus.Collector.
func (m refusedMetrics) Collect(out chan<- prometheus.Metric) {
	kept, dropped := m.ring.Counts()
	out <- prometheus.MustNewConstMetric(refusedKept, prometheus.GaugeValue, float64(kept))
	for reason, n := range dropped {
		out <- prometheus.MustNewConstMetric(refusedDropped, prometheus.CounterValue, float64(n), reason)
	}
}

// targetMetrics reads the state of the targets of forward handlers.
type targetMetrics struct{ targets *forward.State }

var targetOff = prometheus.NewDesc("eyelet_target_off", "1 for a target that is switched off, and whose "+
	"events wait; else 0. Receivers that share a store agree.", []string{"target"}, nil)

// Describe implements prometheus.Collector.
func (targetMetrics) Describe(out chan<- *prometheus.Desc) { out <- targetOff }

// Collect implements prometheus.Collector.
func (m targetMetrics) Collect(out chan<- prometheus.Metric) {
	for _, t := range m.targets.List() {
		off := 0.0
		if t.Off {
			off = 1
		}
		out <- prometheus.MustNewConstMetric(targetOff, prometheus.GaugeValue, off, t.Name)
	}
}

// handlerMetrics says which handlers are paused.
type handlerMetrics struct{ handlers inspect.Handlers }

var handlerPaused = prometheus.NewDesc("eyelet_handler_paused", "1 for a handler that is paused, by an operator or "+
	"its breaker, and whose tasks wait; else 0. Receivers that share a store agree.", []string{"handler"}, nil)

// Describe implements prometheus.Collector.
func (handlerMetrics) Describe(out chan<- *prometheus.Desc) { out <- handlerPaused }

// Collect implements prometheus.Collector.
func (m handlerMetrics) Collect(out chan<- prometheus.Metric) {
	for _, h := range m.handlers.Controls() {
		paused := 0.0
		if h.Paused {
			paused = 1
		}
		out <- prometheus.MustNewConstMetric(handlerPaused, prometheus.GaugeValue, paused, h.Handler)
	}
}
