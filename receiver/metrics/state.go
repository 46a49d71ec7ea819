package metrics

import (
	"context"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/eyelet-dev/eyelet/dedup"
	"github.com/eyelet-dev/eyelet/receiver"
)

// statsTime bounds the time that a scrape waits for the store.
const statsTime = 2 * time.Second

// What the numbers are of. Several receivers may share a store (dedup.Guarantees.Shared).
const (
	ofStore   = " Of the store: of receivers that share it take the maximum, not the sum."
	ofProcess = " Of this process."
)

// Store returns a collector of the counts of a store (eyelet_store_* and eyelet_quarantined). A
// store that does not respond within 2 seconds has no counts in that scrape. Store panics if s is
// nil: a store must be open, as it is in receiver.Config.Opening.
func Store(s dedup.Store) prometheus.Collector {
	if s == nil {
		panic("metrics: Store(nil): the store is not open yet; eyelet.Metrics registers it once it is")
	}
	return storeState{s}
}

type storeState struct{ store dedup.Store }

var quarantined = prometheus.NewDesc("eyelet_quarantined",
	"Deliveries that are quarantined and wait for a decision."+ofStore, []string{"endpoint", "reason"}, nil)

// Describe implements prometheus.Collector.
func (storeState) Describe(out chan<- *prometheus.Desc) {
	for _, count := range storeCounts(dedup.Stats{}) {
		out <- count.Desc()
	}
	out <- quarantined
}

// Collect implements prometheus.Collector.
func (s storeState) Collect(out chan<- prometheus.Metric) {
	ctx, cancel := context.WithTimeout(context.Background(), statsTime)
	defer cancel()
	stats, err := s.store.Stats(ctx)
	if err != nil {
		return
	}
	for _, count := range storeCounts(stats) {
		out <- count
	}
	for q, n := range stats.Quarantined {
		out <- prometheus.MustNewConstMetric(quarantined, prometheus.GaugeValue, float64(n), q.Endpoint, q.Reason)
	}
}

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
		metric(counter, "commits_total", "Durable steps since the start."+ofProcess, float64(s.Commits)),
		metric(counter, "accepted_total", "Events accepted since the start."+ofProcess, float64(s.Accepted)),
		metric(gauge, "records", "Records in the store."+ofStore, float64(s.Records)),
		metric(gauge, "tasks_pending", "Tasks that are waiting, also for a later attempt."+ofStore, float64(s.Pending)),
		metric(gauge, "tasks_running", "Tasks that are running."+ofStore, float64(s.Running)),
		metric(gauge, "tasks_dead", "Dead letters."+ofStore, float64(s.Dead)),
		metric(gauge, "backlog_bytes", "Payload of events with open tasks."+ofStore, float64(s.Backlog)),
		metric(gauge, "bytes", "Bytes on disk."+ofStore, float64(s.Bytes)),
		metric(gauge, "free_bytes", "Bytes free on the disk; -1 where unknown."+ofStore, float64(s.Free)),
		metric(gauge, "oldest_seconds", "Age of the oldest event with an open task; 0 without one."+ofStore, oldest),
	}
}

// Connections returns a collector of the connections of listeners (eyelet_connections*), by the
// name of their port. It panics if a listener is nil.
func Connections(ports map[string]*receiver.Listener) prometheus.Collector {
	for port, ln := range ports {
		if ln == nil {
			panic("metrics: Connections: the listener of port " + port + " is nil")
		}
	}
	return connections(ports)
}

type connections map[string]*receiver.Listener

var (
	openConnections   = prometheus.NewDesc("eyelet_connections", "Open connections.", []string{"port"}, nil)
	closedConnections = prometheus.NewDesc("eyelet_connections_closed_total",
		"Connections closed at a limit: connections, connections_per_address, head_budget or descriptors.",
		[]string{"port", "limit"}, nil)
)

// Describe implements prometheus.Collector.
func (connections) Describe(out chan<- *prometheus.Desc) {
	out <- openConnections
	out <- closedConnections
}

// Collect implements prometheus.Collector.
func (c connections) Collect(out chan<- prometheus.Metric) {
	for port, ln := range c {
		stats := ln.Stats()
		out <- prometheus.MustNewConstMetric(openConnections, prometheus.GaugeValue, float64(stats.Open), port)
		for limit, n := range map[string]uint64{
			"connections": stats.Closed.Connections, "connections_per_address": stats.Closed.PerAddress,
			"head_budget": stats.Closed.HeadBytes, "descriptors": stats.Closed.Descriptors,
		} {
			out <- prometheus.MustNewConstMetric(closedConnections, prometheus.CounterValue, float64(n), port, limit)
		}
	}
}
