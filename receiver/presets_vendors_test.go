package receiver_test

import (
	"context"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/eyelet-dev/eyelet/dedup/memstore"
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
		p := preset.With("woocommerce", secret17)
		rx := opened(t, receiver.Config{
			Store: memstore.New(memstore.Options{}), Producers: []producer.Producer{p}, Workers: 1,
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
	p := preset.With("xero", secret17)
	rx := opened(t, receiver.Config{
		Store: memstore.New(memstore.Options{}), Producers: []producer.Producer{p},
	})
	const intent = `{"events":[],"lastEventSequence":0,"firstEventSequence":0,"entropy":"S0m3r4Nd0mt3xt"}`
	for key, want := range map[string]int{secret17: 200, "another-" + secret17: 401} {
		r := post(p.Name, intent)
		if err := preset.With("xero", key).Scheme.(signer).Sign(r, []byte(intent), time.Time{}); err != nil {
			t.Fatal(err)
		}
		if w := answer(rx, r); w.Code != want || want == 200 && w.Body.Len() > 0 {
			t.Errorf("%d %q, want %d", w.Code, w.Body, want)
		}
	}
}

// bodySigner puts a signature or a credential in a body.
type bodySigner interface {
	SignBody(r *http.Request, body []byte, now time.Time) ([]byte, error)
}

// Vendors check an endpoint without a signature. That is answered, and is not an event.
func TestChecksOfEndpointsByVendorsAreAnswered(t *testing.T) {
	t.Parallel()
	store := memstore.New(memstore.Options{})
	lark := preset.Open("lark", preset.Settings{Token: "lark-token-17", Secrets: []string{secret17}})
	rx := opened(t, receiver.Config{Store: store, URL: publicBase, Producers: []producer.Producer{
		lark, preset.With("trello", secret17), preset.With("mandrill", secret17), preset.With("graph", secret17),
		preset.Open("strava", preset.Settings{Query: "key", Secrets: []string{secret17}, Token: "strava-token-17"}),
	}})
	encrypted := func(text string) string {
		body, err := lark.Scheme.(bodySigner).SignBody(post("lark", ""), []byte(text), time.Now())
		if err != nil {
			t.Fatal(err)
		}
		return string(body)
	}
	const challenge = `{"challenge":"tea","token":"lark-token-17","type":"url_verification"}`
	const hub = "&hub.mode=subscribe&hub.challenge=tea&hub.verify_token=strava-token-17"
	for i, row := range []struct {
		method, target, body string
		want                 int
		response             string
	}{
		{"HEAD", "trello", "", 200, ""}, {"HEAD", "mandrill", "", 200, ""}, {"GET", "trello", "", 405, ""},
		{"POST", "graph?validationToken=tea%3A+17", "", 200, "tea: 17"},
		{"POST", "graph", `{"value":[{"changeType":"created","clientState":"tea"}]}`, 401, ""},
		{"POST", "graph", `{"value":[{"changeType":"created"}]}`, 401, ""},
		{"POST", "lark", encrypted(challenge), 200, `{"challenge":"tea"}`},
		{"POST", "lark", encrypted(strings.Replace(challenge, "token-17", "token-18", 1)), 401, ""},
		{"POST", "lark", encrypted(strings.Replace(challenge, "url_verification", "event_callback", 1)), 401, ""},
		{"POST", "lark", challenge, 401, ""},
		{"GET", "strava?key=" + secret17 + hub, "", 200, `{"hub.challenge":"tea"}`},
		{"GET", "strava?key=tea" + hub, "", 401, ""},
		{"GET", "strava?" + hub[1:], "", 401, ""},
		{"GET", "strava?key=" + secret17 + strings.Replace(hub, "token-17", "token-18", 1), "", 403, ""},
	} {
		r := post(row.target, row.body)
		if r.Method = row.method; row.method != http.MethodPost {
			r.Body, r.ContentLength = http.NoBody, 0
		}
		w := answer(rx, r)
		if w.Code != row.want || row.want == 200 && w.Body.String() != row.response {
			t.Errorf("row %d, %s %s: %d %s", i, row.method, row.target, w.Code, w.Body)
		}
	}
	if records := recordsOf(t, store); len(records) > 0 {
		t.Errorf("%d events", len(records))
	}
}

// Handlers get neither the credential of a notification of Graph nor an encrypted event of Lark.
func TestHandlersGetWhatIsInsideADelivery(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var handled []string
		producers := []producer.Producer{preset.With("graph", secret17), preset.With("lark", secret17)}
		keep := func(_ context.Context, ev receiver.Event[[]byte]) error {
			handled = append(handled, string(ev.Data))
			return nil
		}
		rx := opened(t, receiver.Config{
			Store: memstore.New(memstore.Options{}), Producers: producers, Workers: 1,
			Clock:    func() time.Time { return time.Unix(1_795_000_000, 0) },
			Handlers: []receiver.Handler{receiver.On("graph", "*", keep), receiver.On("lark", "*", keep)},
		})
		for i, text := range []string{
			`{"value":[{"changeType":"created","clientState":"","resource":"me"}]}`,
			`{"header":{"event_id":"e17","event_type":"tea"},"event":{"cups":2}}`,
		} {
			r := post(producers[i].Name, text)
			body, err := producers[i].Scheme.(bodySigner).SignBody(r, []byte(text), time.Unix(1_795_000_000, 0))
			if err != nil {
				t.Fatal(err)
			}
			m := message{method: r.Method, target: r.URL.RequestURI(), header: r.Header, body: body}
			if w := answer(rx, m.request()); w.Code != 200 {
				t.Errorf("%s: %d %s", producers[i].Name, w.Code, w.Body)
			}
			synctest.Wait()
		}
		want := []string{
			`{"changeType":"created","resource":"me"}`,
			`{"header":{"event_id":"e17","event_type":"tea"},"event":{"cups":2}}`,
		}
		if !slices.Equal(handled, want) {
			t.Errorf("got %q, want %q", handled, want)
		}
	})
}
