package receiver_test

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/eyelet-dev/eyelet/dedup"
	"github.com/eyelet-dev/eyelet/producer"
	"github.com/eyelet-dev/eyelet/producer/preset"
	"github.com/eyelet-dev/eyelet/receiver"
)

// WooCommerce makes a body when it sends it, so two topics often have one, and an identifier from
// the webhook and the second, so two events may have one.
func TestEventsOfWooCommerceShareBodiesAndIdentifiers(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var handled []string
		p := preset.WooCommerce(secret17)
		rx := opened(t, receiver.Config{
			Store: dedup.NewMemory(dedup.MemoryOptions{}), Producers: []producer.Producer{p}, Workers: 1,
			Handlers: []receiver.Handler{
				receiver.On(p.Name, "order.*", func(_ context.Context, ev receiver.Event[[]byte]) error {
					handled = append(handled, ev.Type+" "+string(ev.Data))
					return nil
				}),
			},
		})
		const order, deleted = `{"id":17,"date_created":"2026-06-28T08:30:00"}`, `{"id":17}`
		for i, d := range []struct{ topic, id, body string }{
			{"order.created", "d1", order}, {"order.updated", "d1", order}, {"order.updated", "d2", order},
			{"order.deleted", "d2", deleted}, {"order.deleted", "d3", deleted}, {"order.deleted", "d3", deleted},
		} {
			r := post(p.Name, d.body, "X-WC-Webhook-Topic", d.topic, "X-WC-Webhook-Delivery-ID", d.id)
			if err := p.Scheme.(signer).Sign(r, []byte(d.body), time.Time{}); err != nil {
				t.Fatal(err)
			}
			if w := answer(rx, r); w.Code != 200 {
				t.Errorf("delivery %d gets %d: %s", i, w.Code, w.Body)
			}
			synctest.Wait()
		}
		want := []string{
			"order.created " + order, "order.updated " + order, "order.deleted " + deleted,
			"order.deleted " + deleted,
		}
		if !slices.Equal(handled, want) {
			t.Errorf("got %q, want %q", handled, want)
		}
	})
}

// Xero first sends deliveries without events, some of them signed wrongly. It wants no body in the
// response.
func TestTheIntentToReceiveOfXeroIsAnswered(t *testing.T) {
	t.Parallel()
	p := preset.Xero(secret17)
	rx := opened(t, receiver.Config{
		Store: dedup.NewMemory(dedup.MemoryOptions{}), Producers: []producer.Producer{p},
	})
	const intent = `{"events":[],"lastEventSequence":0,"firstEventSequence":0,"entropy":"S0m3r4Nd0mt3xt"}`
	for key, want := range map[string]int{secret17: 200, "another-" + secret17: 401} {
		r := post(p.Name, intent)
		if err := preset.Xero(key).Scheme.(signer).Sign(r, []byte(intent), time.Time{}); err != nil {
			t.Fatal(err)
		}
		if w := answer(rx, r); w.Code != want || want == 200 && w.Body.Len() > 0 {
			t.Errorf("%d %q, want %d", w.Code, w.Body, want)
		}
	}
}
