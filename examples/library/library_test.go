package library

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/labstack/echo/v4"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/eyelet-dev/eyelet/dedup"
	"github.com/eyelet-dev/eyelet/dedup/memstore"
	"github.com/eyelet-dev/eyelet/producer"
	"github.com/eyelet-dev/eyelet/producer/preset"
	"github.com/eyelet-dev/eyelet/receiver"
	"github.com/eyelet-dev/eyelet/receiver/receivertest"
	"github.com/eyelet-dev/eyelet/verify"
)

type push struct{ Ref string }

func TestAFailingHandlerIsTriedThreeTimes(t *testing.T) {
	rx := receivertest.New(t, receiver.Config{
		Attempts:  3,
		Producers: []producer.Producer{preset.GitHub("a long secret")},
		Handlers: []receiver.Handler{receiver.On("github", "push",
			func(context.Context, receiver.Event[push]) error { return errors.New("the printer is off") })},
	})
	rx.Deliver("github", "push", push{Ref: "refs/heads/main"})
	rx.Step(time.Minute) // the backoff before the second attempt is at most a second
	rx.Step(time.Minute)
	if dead := rx.Dead(); len(dead) != 1 || dead[0].Attempts != 3 || dead[0].Reason != "exhausted" {
		t.Errorf("dead letters: %v", dead)
	}
}

func TestTheTypeComesFromTwoFields(t *testing.T) {
	var types []string
	rx := receivertest.New(t, receiver.Config{
		Producers: []producer.Producer{warehouse([]byte("a long secret"))},
		Handlers: []receiver.Handler{receiver.Answer("warehouse", "order.*",
			func(_ context.Context, ev receiver.Event[[]byte]) (receiver.Response, error) {
				types = append(types, ev.Type)
				return receiver.Response{}, nil
			})},
	})
	r := rx.Request("warehouse", "", `{"number":"17"}`)
	r.Header.Set("X-Object", "order") // not signed, so they may be set afterwards
	r.Header.Set("X-Action", "paid")
	if d := rx.Send("warehouse", r); d.Status != http.StatusOK || !slices.Equal(types, []string{"order.paid"}) {
		t.Errorf("%d %s: %v", d.Status, d.Code, types)
	}
}

func TestTheSchemeRefusesAnotherBody(t *testing.T) {
	rx := receivertest.New(t, receiver.Config{Producers: []producer.Producer{warehouse([]byte("a long secret"))}})
	for seal, code := range map[string]string{
		"": "signature_missing", "x": "signature_malformed", "00": "signature_mismatch",
	} {
		r := rx.Request("warehouse", "", `{"id":"1"}`)
		r.Header.Set("X-Seal", seal)
		if d := rx.Send("warehouse", r); d.Status != http.StatusUnauthorized && code != "signature_malformed" ||
			string(d.Code) != code {
			t.Errorf("seal %q: %d %s, want %s", seal, d.Status, d.Code, code)
		}
	}
}

func TestAProtectedRouteWantsAKeyToo(t *testing.T) {
	rx := receivertest.New(t, receiver.Config{
		Producers: []producer.Producer{warehouse([]byte("a long secret"))},
		Handlers:  []receiver.Handler{receiver.Inline("warehouse", "*")},
	})
	e, runs := echo.New(), 0
	mountProtected(e, rx.Receiver, func(c echo.Context) error {
		runs++
		return c.NoContent(http.StatusCreated)
	}, func(key string, _ echo.Context) (bool, error) { return key == "of the warehouse", nil })
	for key, want := range map[string]int{"of another": 0, "of the warehouse": 1} {
		r := rx.Request("warehouse", "", `{"number":"17"}`)
		r.URL.Path = "/orders"
		r.Header.Set("Authorization", "Bearer "+key)
		if e.ServeHTTP(httptest.NewRecorder(), r); runs != want {
			t.Errorf("%s: %d runs, want %d", key, runs, want)
		}
		runs = 0
	}
}

// github returns a receiver of GitHub's events, with middleware around its handler.
func github(t *testing.T, with ...func(receiver.Next) receiver.Next) *receivertest.Receiver {
	t.Helper()
	return receivertest.New(t, config(with...))
}

func config(with ...func(receiver.Next) receiver.Next) receiver.Config {
	return receiver.Config{
		Producers: []producer.Producer{preset.GitHub("a long secret")},
		Handlers: []receiver.Handler{receiver.On("github", "*",
			func(context.Context, receiver.Event[[]byte]) error { return nil }).With(with...)},
	}
}

func TestTheEndpointsAreMounted(t *testing.T) {
	rx := github(t)
	mux, e := http.NewServeMux(), echo.New()
	mount(mux, rx.Receiver)
	mountEcho(e, rx.Receiver)
	for name, h := range map[string]http.Handler{
		"/webhooks/github": mux, "/in/github": mux, "/webhooks/github?echo": e,
	} {
		signed := rx.Request("github", "push", `{"ref":"`+name+strings.Repeat("x", 70_000)+`"}`)
		r := httptest.NewRequest(http.MethodPost, name, signed.Body)
		r.Header = signed.Header
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		if w.Code != http.StatusOK {
			t.Errorf("%s: %d %s", name, w.Code, w.Body)
		}
	}
}

func TestHandlersRunInASpan(t *testing.T) {
	rx := github(t, traced)
	rx.Deliver("github", "push", nil).Wait()
	if dead := rx.Dead(); len(dead) > 0 {
		t.Error(dead)
	}
}

// TestTheMetricsAreScraped opens the program of the page twice: as after a restart in one process.
func TestTheMetricsAreScraped(t *testing.T) {
	pages, dir := prometheus.NewPedanticRegistry(), t.TempDir()
	for _, accepted := range []string{"1", "2"} {
		rx, err := measured(dir, "a long secret", pages)
		if err != nil {
			t.Fatal(err)
		}
		unsigned := preset.Unsigned{
			URL: "http://127.0.0.1/webhooks/github", Type: "push", ID: accepted, Body: []byte(`{"ref":"` + accepted +
				`"}`),
		}
		r, _, err := unsigned.SignedBy(preset.GitHub("a long secret"), time.Now())
		if err != nil {
			t.Fatal(err)
		}
		rx.Handler().ServeHTTP(httptest.NewRecorder(), r)
		w := httptest.NewRecorder()
		promhttp.HandlerFor(pages, promhttp.HandlerOpts{}).ServeHTTP(w, httptest.NewRequest("GET", "/metrics", nil))
		for _, line := range []string{
			`eyelet_deliveries_total{code="accepted",endpoint="github"} ` + accepted,
			"eyelet_store_records " + accepted, "eyelet_store_accepted_total 1",
		} {
			if !strings.Contains(w.Body.String(), line+"\n") {
				t.Errorf("status %d, no line %s", w.Code, line)
			}
		}
		if err := rx.Close(); err != nil {
			t.Error(err)
		}
	}
}

func TestServeClosesEverything(t *testing.T) {
	c := config()
	store := memstore.New(memstore.Options{})
	c.Store = store
	rx, err := receiver.Open(c)
	if err != nil {
		t.Fatal(err)
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- serve(ctx, ln, rx.Handler(), rx, store) }()
	res, err := http.Get("http://" + ln.Addr().String() + "/policy")
	if err != nil {
		t.Fatal(err)
	}
	if _, err = io.Copy(io.Discard, res.Body); err != nil || res.StatusCode != http.StatusOK {
		t.Errorf("the policy: %s, %v", res.Status, err)
	}
	_ = res.Body.Close()
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	if err := rx.Ready(t.Context()); err == nil {
		t.Error("the receiver is still ready")
	}
	if err := store.Health(t.Context()); !errors.Is(err, dedup.ErrClosed) {
		t.Errorf("the store: %v", err)
	}
}

func TestASignedDeliveryIsAcceptedOnce(t *testing.T) {
	private, err := verify.GenerateKey(verify.Ed25519)
	if err != nil {
		t.Fatal(err)
	}
	key, err := verify.NewPublicKey("shop", verify.Ed25519, private.Public())
	if err != nil {
		t.Fatal(err)
	}
	var handler http.Handler
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		handler.ServeHTTP(w, r)
	}))
	defer srv.Close()
	rx, err := receiver.Open(receiver.Config{
		Store: memstore.New(memstore.Options{}), URL: srv.URL,
		Producers: []producer.Producer{producer.Signed("shop", verify.StaticKeys(key))},
	})
	if err != nil {
		t.Fatal(err)
	}
	defer rx.Close()
	handler = rx.Handler()
	for i, replayed := range []string{"", "true"} {
		r, err := deliver(t.Context(), srv.URL+"/webhooks/shop?region=eu", private, "order-17", []byte(`{"total":1}`))
		if err != nil {
			t.Fatal(err)
		}
		if _ = r.Body.Close(); r.StatusCode != http.StatusAccepted || r.Header.Get("Idempotency-Replayed") != replayed {
			t.Errorf("delivery %d: %d %v", i, r.StatusCode, r.Header)
		}
	}
}
