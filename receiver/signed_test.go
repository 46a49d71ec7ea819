package receiver

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/eyelet-dev/eyelet/producer"
	"github.com/eyelet-dev/eyelet/verify"
)

// signedSite is a receiver whose producer signs by RFC 9421, with two keys of one producer.
type signedSite struct {
	*site
	runs     *counter
	ed, hmac verify.Signer
}

func serveSigned(t *testing.T, change func(*producer.Producer), handlers ...Handler) signedSite {
	t.Helper()
	public, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	k1, err := verify.NewPublicKey("k1", verify.Ed25519, public)
	if err != nil {
		t.Fatal(err)
	}
	secret := []byte("a secret of thirty-two bytes, or more")
	k2, err := verify.NewHMACKey("k2", secret)
	if err != nil {
		t.Fatal(err)
	}
	p := producer.Signed("shop", verify.StaticKeys(k1, k2))
	if change != nil {
		change(&p)
	}
	runs := newCounter()
	if handlers == nil {
		handlers = []Handler{countingOn(runs)}
	}
	return signedSite{
		serve(t, p, nil, handlers...), runs,
		verify.Signer{KeyID: "k1", Private: private}, verify.Signer{KeyID: "k2", Secret: secret},
	}
}

// deliver signs a delivery for the public URL, lets spoil damage it, and sends it to the site.
func (s signedSite) deliver(with verify.Signer, key, target, body string, at time.Time, spoil func(*http.Request)) got {
	s.t.Helper()
	r, err := http.NewRequestWithContext(s.t.Context(), http.MethodPost, "https://hooks.example"+target,
		strings.NewReader(body))
	if err != nil {
		s.t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/json")
	if key != "" {
		r.Header.Set("Idempotency-Key", key)
	}
	if err := with.Sign(r, []byte(body), at); err != nil {
		s.t.Fatal(err)
	}
	if spoil != nil {
		spoil(r)
	}
	return s.sendRequest(r)
}

func TestSignedDeliveryIsAcceptedOnceWithEverySigner(t *testing.T) {
	t.Parallel()
	s := serveSigned(t, nil)
	now := time.Now()
	const body = `{"type":"order.paid","n":1}`
	first := s.deliver(s.ed, `"k1"`, "/webhooks/shop", body, now, nil)
	if first.status != 202 || first.replayed() {
		t.Fatalf("%+v", first)
	}
	s.runs.await(t)
	for name, again := range map[string]got{
		"signed afresh": s.deliver(s.ed, `"k1"`, "/webhooks/shop", body, now.Add(time.Second), nil),
		"the other key": s.deliver(s.hmac, `"k1"`, "/webhooks/shop", body, now, nil),
		"a bare key":    s.deliver(s.ed, "k1", "/webhooks/shop", body, now, nil),
		"a parameter":   s.deliver(s.ed, `"k1";a=b`, "/webhooks/shop", body, now, nil),
	} {
		if again.status != 202 || !again.replayed() || again.body != first.body {
			t.Errorf("%s: %+v", name, again)
		}
	}
	wantProblem(t, s.deliver(s.ed, `"k1"`, "/webhooks/shop", `{"n":2}`, now, nil), 422, "idempotency_key_reused")
	if again := s.deliver(s.ed, `"k1"`, "/webhooks/shop", body, now, nil); !again.replayed() {
		t.Error("the record changed")
	}
	if rec := s.records()[0]; rec.Payload.Type != "order.paid" || rec.Key.Endpoint != "shop" ||
		rec.Key.Principal != "shop" {
		t.Errorf("%+v", rec)
	}
	for _, query := range []string{"?t=a", "?t=b"} {
		if g := s.deliver(s.ed, `"k1"`, "/webhooks/shop"+query, body, now, nil); g.status != 202 || g.replayed() {
			t.Errorf("%s is another scope: %+v", query, g)
		}
		s.runs.await(t)
	}
	if s.runs.count() != 3 {
		t.Errorf("%d runs", s.runs.count())
	}
}

func TestTheFieldOfALaneMustBeSigned(t *testing.T) {
	t.Parallel()
	s := serveSigned(t, nil,
		On("shop", "*", func(context.Context, Event[[]byte]) error { return nil }).Lane(producer.Header("X-Account")))
	now := time.Now()
	add := func(r *http.Request) { r.Header.Set("X-Account", "mine") }
	wantProblem(t, s.deliver(s.ed, `"a"`, "/webhooks/shop", "{}", now, add), 401, "insufficient_coverage")
	signed := s.ed
	signed.Components = []string{"@method", "@target-uri", "content-digest", "content-type", "idempotency-key",
		"x-account"}
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "https://hooks.example/webhooks/shop",
		strings.NewReader("{}"))
	if err != nil {
		t.Fatal(err)
	}
	r.Header = http.Header{"Content-Type": {"application/json"}, "Idempotency-Key": {`"b"`}, "X-Account": {"mine"}}
	if err := signed.Sign(r, []byte("{}"), now); err != nil {
		t.Fatal(err)
	}
	r.URL.Scheme, r.URL.Host = "http", s.srv.Listener.Addr().String()
	resp, err := client.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	if resp.StatusCode != 202 {
		t.Errorf("status %d with a signed lane", resp.StatusCode)
	}
}
