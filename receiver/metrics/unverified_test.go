package metrics

import (
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/eyelet-dev/eyelet/producer"
	"github.com/eyelet-dev/eyelet/receiver"
)

func TestUnverifiedEventsDoNotHideASilentSender(t *testing.T) {
	t.Parallel()
	c := New()
	c.Expect([]producer.Producer{{Name: "shop", ExpectEvery: 1}})
	for range 2 {
		c.Observe(t.Context(), receiver.Observation{Kind: receiver.KindDelivery, Endpoint: "shop", Unverified: true,
			New: true})
	}
	c.Observe(t.Context(), receiver.Observation{Kind: receiver.KindDelivery, Endpoint: "shop", Unverified: true})
	counters := prometheus.NewRegistry()
	counters.MustRegister(c.unverified)
	if all, err := counters.Gather(); err != nil || all[0].GetMetric()[0].GetCounter().GetValue() != 2 {
		t.Errorf("%v, %v", all, err)
	}
	if !c.senders.of("shop").accepted.IsZero() {
		t.Error("an unverified event counts as one of the sender")
	}
}
