package metrics_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/eyelet-dev/eyelet"
	"github.com/eyelet-dev/eyelet/dedup/memstore"
	"github.com/eyelet-dev/eyelet/inspect"
	"github.com/eyelet-dev/eyelet/once"
	"github.com/eyelet-dev/eyelet/once/oncepgx"
	"github.com/eyelet-dev/eyelet/producer"
	"github.com/eyelet-dev/eyelet/receiver"
	"github.com/eyelet-dev/eyelet/receiver/metrics"
	"github.com/eyelet-dev/eyelet/receiver/receivertest"
)

// TestWhatIsNotOpenYetPanicsAtOnce names what is missing where the mistake is made, and not at
// the first scrape or request.
func TestWhatIsNotOpenYetPanicsAtOnce(t *testing.T) {
	t.Parallel()
	for name, wire := range map[string]func(){
		"metrics.Store":       func() { metrics.Store(nil) },
		"metrics.Connections": func() { metrics.Connections(map[string]*receiver.Listener{"deliveries": nil}) },
		"metrics.Register":    func() { _ = metrics.Register(prometheus.NewRegistry(), &receiver.Config{}) },
		"eyelet.Metrics":      func() { eyelet.Metrics(nil) },
		"inspect.API":         func() { inspect.API(nil) },
		"inspect.Page":        func() { inspect.Page(inspect.Options{}) },
		"once.SQL":            func() { once.SQL(nil) },
		"oncepgx.Pool":        func() { oncepgx.Pool(nil) },
	} {
		func() {
			defer func() {
				if v := recover(); v == nil {
					t.Errorf("%s panics later", name)
				} else if _, ok := v.(string); !ok {
					t.Errorf("%s: %v does not say what is missing", name, v)
				}
			}()
			wire()
		}()
	}
}

// TestMetricsOfSeveralReceivers registers two of one registry with labels of their own, each with
// an Observe of its own, before or after the metrics.
func TestMetricsOfSeveralReceivers(t *testing.T) {
	t.Parallel()
	pages, observed := prometheus.NewPedanticRegistry(), 0
	observe := eyelet.Part(func(c *receiver.Config) {
		c.Observe = func(context.Context, receiver.Observation) { observed++ }
	})
	quiet := producer.Producer{}
	for i, first := range []bool{true, false} {
		name := fmt.Sprint("n", i)
		measured := eyelet.Metrics(prometheus.WrapRegistererWith(prometheus.Labels{"of": name}, pages))
		parts := []eyelet.Part{observe, measured, eyelet.GitHub("a long secret")}
		if first {
			parts[0], parts[1] = measured, observe
		}
		parts = append(parts, func(c *receiver.Config) { quiet = c.Producers[0]; c.Producers[0].ExpectEvery = 1 })
		rx := receivertest.New(t, eyelet.Config(parts...))
		rx.Deliver(quiet.Name, "push", nil).Wait()
		scraped{pages: pages}.has(t,
			`eyelet_deliveries_total{code="accepted",endpoint="github",of="`+name+`"} 1`,
			`eyelet_store_records{of="`+name+`"} 1`, `eyelet_silent{endpoint="github",of="`+name+`"} 1`)
	}
	if observed != 2 {
		t.Errorf("Config.Observe was called %d times", observed)
	}
	c := eyelet.Config(eyelet.GitHub("a long secret"),
		eyelet.Metrics(prometheus.WrapRegistererWith(prometheus.Labels{"of": "n1"}, pages)))
	c.Store = memstore.New(memstore.Options{})
	if rx, err := receiver.Open(c); err == nil {
		t.Errorf("two receivers have one name of metrics: %v", rx.Close())
	}
}
