package receiver

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"fmt"
	"io"
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

func TestSpoiledSignedDeliveryIsRefused(t *testing.T) {
	t.Parallel()
	s := serveSigned(t, nil,
		On("shop", "*", func(context.Context, Event[[]byte]) error { t.Error("a handler ran"); return nil }))
	now := time.Now()
	set := func(name, value string) func(*http.Request) {
		return func(r *http.Request) { r.Header.Set(name, value) }
	}
	uncovered, unknown := s.ed, s.ed
	uncovered.Components = []string{"@method", "@target-uri", "content-digest", "content-type"}
	unknown.KeyID = "nobody"
	expired := s.ed
	expired.Expires = time.Second
	rows := []struct {
		name   string
		with   verify.Signer
		key    string
		at     time.Time
		spoil  func(*http.Request)
		status int
		code   string
	}{
		{"no key", s.ed, "", now, nil, 400, "idempotency_key_missing"},
		{"empty key", s.ed, `""`, now, nil, 400, "idempotency_key_missing"},
		{"two keys", s.ed, `"a"`, now, func(r *http.Request) { r.Header.Add("Idempotency-Key", `"b"`) }, 400,
			"ambiguous_field"},
		{"unsigned", s.ed, `"k"`, now,
			func(r *http.Request) { r.Header.Del("Signature"); r.Header.Del("Signature-Input") }, 401,
			"signature_missing"},
		{"another body", s.ed, `"k"`, now, func(r *http.Request) {
			r.Body = io.NopCloser(bytes.NewReader([]byte("xxxxxxx")))
		}, 401, "digest_mismatch"},
		{"another key", s.ed, `"k"`, now, set("Idempotency-Key", `"x"`), 401, "signature_invalid"},
		{"another media type", s.ed, `"k"`, now, set("Content-Type", "text/plain"), 401, "signature_invalid"},
		{"another query", s.ed, `"k"`, now, func(r *http.Request) { r.URL.RawQuery = "x=1" }, 401, "signature_invalid"},
		{"unknown keyid", unknown, `"k"`, now, nil, 401, "signature_invalid"},
		{"key not covered", uncovered, `"k"`, now, nil, 401, "insufficient_coverage"},
		{"stale", s.ed, `"k"`, now.Add(-6 * time.Minute), nil, 401, "timestamp_too_old"},
		{"from the future", s.ed, `"k"`, now.Add(2 * time.Minute), nil, 401, "timestamp_too_new"},
		{"expired", expired, `"k"`, now.Add(-10 * time.Second), nil, 401, "token_expired"},
		{"malformed", s.ed, `"k"`, now, set("Signature", "sig1=:x"), 400, "signature_malformed"},
		{"1,500 components", s.ed, `"k"`, now, func(r *http.Request) {
			var b strings.Builder
			for i := range 1500 {
				fmt.Fprintf(&b, `"x-%d" `, i)
			}
			r.Header.Set("Signature-Input", "sig1=("+strings.TrimSpace(b.String())+`);created=1;keyid="k1"`)
		}, 400, "signature_malformed"},
	}
	for _, row := range rows {
		g := s.deliver(row.with, row.key, "/webhooks/shop", "{\"n\":1}", row.at, row.spoil)
		t.Log(row.name)
		wantProblem(t, g, row.status, row.code)
		if g.status == 401 && (g.header.Get("WWW-Authenticate") == "" ||
			!strings.Contains(g.header.Get("Accept-Signature"), `"@method"`)) {
			t.Errorf("%s: %v", row.name, g.header)
		}
	}
	if n := len(s.records()); n != 0 {
		t.Errorf("%d records", n)
	}
}

func TestNonceThatCameWithAnotherSignedEvent(t *testing.T) {
	t.Parallel()
	s := serveSigned(t, func(p *producer.Producer) { p.Nonce = producer.NonceUnique })
	with := s.ed
	with.Nonce = "n1"
	now := time.Now()
	for i := range 2 {
		if g := s.deliver(with, `"k1"`, "/webhooks/shop", "{}", now, nil); g.status != 202 || g.replayed() != (i == 1) {
			t.Errorf("%+v", g)
		}
	}
	wantProblem(t, s.deliver(with, `"k2"`, "/webhooks/shop", "{}", now, nil), 401, "nonce_reused")
	s.runs.await(t)
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
