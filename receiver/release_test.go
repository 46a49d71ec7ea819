package receiver

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/eyelet-dev/eyelet/dedup"
	"github.com/eyelet-dev/eyelet/producer"
	"github.com/eyelet-dev/eyelet/receiver/internal/admission"
)

// answering calls back when the status of a response is written: for the sender the delivery is
// over then.
type answering struct {
	*httptest.ResponseRecorder
	now func()
}

func (w answering) WriteHeader(status int) {
	w.ResponseRecorder.WriteHeader(status)
	w.now()
}

// After the response to one delivery the next is accepted, even if only one is allowed at once.
func TestAnsweredDeliveryHoldsNoSlot(t *testing.T) {
	t.Parallel()
	contracts(t, func(t *testing.T, p producer.Producer) {
		p.Concurrency = 1
		for name, h := range map[string]Handler{
			"on": On("shop", "*", func(context.Context, Event[[]byte]) error { return nil }),
			"answer": Answer("shop", "*",
				func(context.Context, Event[[]byte]) (Response, error) { return Response{}, nil }),
		} {
			s := serve(t, p, nil, h)
			next := httptest.NewRecorder()
			w := answering{httptest.NewRecorder(),
				func() { s.rx.HTTP("shop").ServeHTTP(next, s.request(req{id: "k2"})) }}
			s.rx.HTTP("shop").ServeHTTP(w, s.request(req{id: "k1"}))
			if w.Code/100 != 2 || next.Code/100 != 2 {
				t.Errorf("%s: %d, and the next one %d", name, w.Code, next.Code)
			}
		}
	})
}

// Nothing stays in use after any panic, even one that aborts the request.
func TestPanicReleasesEverything(t *testing.T) {
	t.Parallel()
	p := apiProducer()
	p.Concurrency = 1
	boom := producer.FingerprintFunc(func(d *producer.Delivery, it producer.Item) [32]byte {
		if d.Request.Header.Get("Boom") != "" {
			panic("boom")
		}
		return producer.FingerprintBody(d, it)
	})
	p.Fingerprint = boom
	s := serve(t, p, nil)
	for name, r := range map[string]*http.Request{
		"in the body":   s.request(req{id: "k1"}),
		"in the scheme": s.request(req{id: "k1", header: http.Header{"Sig": {"panic"}}}),
		"after spend":   s.request(req{id: "k1", header: http.Header{"Boom": {"1"}}}),
	} {
		if name == "in the body" {
			r.Body, r.ContentLength = aborting{}, 100
		}
		func() {
			defer func() { _ = recover() }()
			s.rx.HTTP("shop").ServeHTTP(httptest.NewRecorder(), r)
		}()
		if used := s.rx.limiter.Usage(); used != (admission.Usage{}) {
			t.Errorf("%s: %+v in use", name, used)
		}
		if running := s.rx.endpoints["shop"].quota.Running(); running != 0 {
			t.Errorf("%s: %d slots of the quota are in use", name, running)
		}
	}
	if err := s.rx.Close(); err != nil { // waits for requests in flight
		t.Error(err)
	}
}

// aborting is a body whose Read panics, like that of a reverse proxy.
type aborting struct{}

func (aborting) Read([]byte) (int, error) { panic(http.ErrAbortHandler) }
func (aborting) Close() error             { return nil }

// Neither the response nor the record changes.
func TestAPanicOfTheObserverChangesNothing(t *testing.T) {
	t.Parallel()
	runs := newCounter()
	s := serve(t, apiProducer(), func(c *Config) {
		c.Observe = func(context.Context, Observation) { panic("secret-payload") }
	}, Answer("shop", "*", func(context.Context, Event[[]byte]) (Response, error) {
		runs.add()
		return Response{Body: []byte(`{"n":1}`)}, nil
	}))
	for i := range 2 {
		g := s.send(req{id: "k1"})
		if g.status != 200 || g.body != `{"n":1}` || g.replayed() != (i == 1) {
			t.Errorf("delivery %d: %+v", i, g)
		}
	}
	if g := s.send(req{path: "/nowhere"}); g.status != 404 {
		t.Errorf("%+v", g)
	}
	if runs.count() != 1 {
		t.Errorf("the handler ran %d times", runs.count())
	}
	if log := s.log.String(); strings.Contains(log, "secret-payload") || !strings.Contains(log, "Observe panicked") {
		t.Error(log)
	}
}

// lending is a store whose decisions share the response with the claim, as stores may.
type lending struct{ dedup.Store }

func (l lending) Claim(ctx context.Context, claims ...dedup.Claim) ([]dedup.Decision, error) {
	decisions, err := l.Store.Claim(ctx, claims...)
	for i := range decisions {
		if decisions[i].Verdict == dedup.New {
			decisions[i].Record.Response = claims[i].Response
		}
	}
	return decisions, err
}

// All events of an endpoint share a response.
func TestAnnouncementDoesNotChangeTheSharedResponse(t *testing.T) {
	t.Parallel()
	p := apiProducer()
	p.Deprecated = time.Unix(1_700_000_000, 0)
	s := serve(t, p, func(c *Config) { c.Store = lending{c.Store} })
	if g := s.send(req{id: "k1"}); g.status != 202 || g.header.Get("Deprecation") == "" {
		t.Fatalf("%+v", g)
	}
	if h := s.rx.endpoints["shop"].accepted.Header; h.Get("Deprecation") != "" {
		t.Errorf("the response to every later event is %v", h)
	}
}

// See RFC 9112 section 6.1; the same goes for unknown paths.
func TestBothLengthsEndTheConnectionEverywhere(t *testing.T) {
	t.Parallel()
	s := serve(t, apiProducer(), nil)
	for _, path := range []string{"/webhooks/shop", "/webhooks/nobody", "/policy"} {
		answer := s.wire(head(path, "Transfer-Encoding: chunked", "Content-Length: 4", "", "2", "{}", "0", "", ""),
			false)
		if resp := parseAnswer(t, answer); !resp.Close {
			t.Errorf("%s: the connection stays open: %q", path, answer)
		}
	}
}

// A captured batch that is empty, or whose items are all known, neither makes its sender known
// nor uses up the quota.
func TestDeliveriesWithoutNewEventsEarnNoCredit(t *testing.T) {
	t.Parallel()
	p := apiProducer()
	p.Key, p.KeyRequired, p.Rate = nil, false, producer.Rate{Events: 5, Per: time.Hour}
	p.Split = func(d *producer.Delivery) ([]producer.Item, error) {
		var items []producer.Item
		for word := range strings.FieldsSeq(string(d.Body)) {
			id, payload, _ := strings.Cut(word, "=")
			items = append(items, producer.Item{ID: id, Body: []byte(payload)})
		}
		return items, nil
	}
	s := serve(t, p, nil)
	for range 3 {
		if g := s.send(req{}); g.status != 202 {
			t.Fatalf("empty: %+v", g)
		}
	}
	if n := s.rx.limiter.Usage().Peers; n != 0 {
		t.Error("an empty batch makes its sender known")
	}
	if g := s.send(req{body: "a=1 a=2"}); g.status != 202 { // the second one is quarantined
		t.Fatalf("%+v", g)
	}
	credit := func() int {
		for _, peer := range s.rx.limiter.Known(time.Now()) {
			return peer.Credit
		}
		return 0
	}
	first := credit()
	for range 3 {
		if g := s.send(req{body: "a=1 a=2"}); g.status != 202 {
			t.Fatalf("again: %+v", g)
		}
	}
	if first != admission.CreditAccepted || credit() != first {
		t.Errorf("credit %d, later %d", first, credit())
	}
}
