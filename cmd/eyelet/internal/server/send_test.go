package server

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/eyelet-dev/eyelet/dedup"
	"github.com/eyelet-dev/eyelet/dedup/memstore"
	"github.com/eyelet-dev/eyelet/inspect"
	"github.com/eyelet-dev/eyelet/producer"
	"github.com/eyelet-dev/eyelet/receiver"
	"github.com/eyelet-dev/eyelet/replay"
	"github.com/eyelet-dev/eyelet/verify"
)

// sendServer is a server with the producer shop, and an event of it.
func sendServer(t *testing.T, scheme *verify.HMAC) (*Server, dedup.Record) {
	t.Helper()
	store := memstore.New(memstore.Options{})
	s := &Server{Options: Options{Receiver: receiver.Config{
		Store: store, URL: "https://hooks.example/in",
		Producers: []producer.Producer{{Name: "shop", Scheme: scheme, Key: producer.Header("X-Id")}},
	}}}
	rx, err := receiver.Open(s.Receiver)
	check(t, err)
	t.Cleanup(func() {
		if err := rx.Shutdown(t.Context()); err != nil {
			t.Log(err) // the context may have ended
		}
	})
	s.current.Store(&generation{Options: s.Options, rx: rx})
	r := httptest.NewRequest(http.MethodPost, "https://hooks.example/in/webhooks/shop", http.NoBody)
	r.Header.Set("X-Id", "order-17")
	r.Header.Set("Content-Type", "application/json")
	const body = `{"total":5}`
	check(t, scheme.Sign(r, []byte(body), time.Now()))
	first := httptest.NewRequest(http.MethodPost, "http://hooks.example/webhooks/shop", strings.NewReader(body))
	first.Header = r.Header
	w := httptest.NewRecorder()
	Handler(rx).ServeHTTP(w, first)
	if w.Code >= 300 {
		t.Fatalf("the first delivery: %d, %s", w.Code, w.Body)
	}
	return s, newest(t, store)
}

// newest returns the newest event.
func newest(t *testing.T, store dedup.Store) dedup.Record {
	t.Helper()
	for rec, err := range store.List(t.Context(), dedup.Filter{Limit: 1}) {
		check(t, err)
		if rec, err = store.Get(t.Context(), rec.Event); err != nil {
			t.Fatal(err)
		}
		return rec
	}
	t.Fatal("no event")
	return dedup.Record{}
}

func TestAnEditedDeliveryIsSignedAndVerified(t *testing.T) {
	t.Parallel()
	scheme := func(secret string) *verify.HMAC {
		return &verify.HMAC{Headers: []string{"X-Sig"}, Encoding: verify.Hex, Secrets: verify.Secrets(secret)}
	}
	s, rec := sendServer(t, scheme("0123456789abcdef"))
	sent, err := sender{s}.send(t.Context(), rec, []byte(`{"total":6}`))
	if err != nil || sent.Status >= 300 || sent.Status < 200 {
		t.Fatalf("%+v, %v", sent, err)
	}
	made := newest(t, s.Receiver.Store)
	h := made.Payload.Header
	if made.Event == rec.Event || string(made.Payload.Body) != `{"total":6}` || made.Key.ID == rec.Key.ID ||
		h.Get(replay.FieldOriginalEvent) != rec.Event || h.Get(inspect.FieldEdited) == "" ||
		h.Get("X-Sig") == rec.Payload.Header.Get("X-Sig") {
		t.Errorf("the event is %s, %s, %v", made.Event, made.Payload.Body, h)
	}
	if rec.Payload.Header.Get("X-Id") != "order-17" {
		t.Error("the event that was edited is changed")
	}

	// The receiver verifies it, whoever sends: with another secret it is refused.
	g := s.current.Load()
	g.Receiver.Producers = []producer.Producer{{Name: "shop", Scheme: scheme("fedcba9876543210")}}
	if sent, err := (sender{s}).send(t.Context(), rec, []byte("{}")); err != nil || sent.Status != 401 {
		t.Errorf("with another secret: %+v, %v", sent, err)
	}
	g.Receiver.Producers = []producer.Producer{{Name: "shop", Scheme: &verify.RFC9421{}}}
	_, err = sender{s}.send(t.Context(), rec, []byte("{}"))
	if err == nil || !strings.Contains(err.Error(), "only it or a tenant has") {
		t.Errorf("a producer with a private key: %v", err)
	}
	g.Receiver.Producers = nil
	_, err = sender{s}.send(t.Context(), rec, []byte("{}"))
	if err == nil || !strings.Contains(err.Error(), "no producer") {
		t.Errorf("a producer that is gone: %v", err)
	}
}
