package main

import (
	"context"
	"crypto/ed25519"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/eyelet-dev/eyelet/verify"
)

// TestALoopEndsAtOurOwnName: a target that forwards to us gets the event once, and the producer
// gets a final refusal.
func TestALoopEndsAtOurOwnName(t *testing.T) {
	t.Parallel()
	var back atomic.Pointer[url.URL]
	var rounds atomic.Int32
	proxy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		rounds.Add(1)
		// The endpoint and the identifier differ, so that only Via can end the loop.
		r.Header.Set("X-GitHub-Delivery", r.Header.Get("X-GitHub-Delivery")+"+")
		httputil.NewSingleHostReverseProxy(back.Load()).ServeHTTP(w, r)
	}))
	t.Cleanup(proxy.Close)
	file := configured(t, "handlers:\n"+
		"  - {producer: gh, type: push, mode: relay, forward: \""+proxy.URL+"/webhooks/gh\"}\n")
	r := launch(t, "serve", "--config", file)
	u, err := url.Parse(r.deliveries)
	check(t, err)
	back.Store(u)
	status, _, problem := fetch(t, pushRequest(t, r.deliveries, "g-1", `{"id":"g-1"}`))
	if status != 400 || !strings.Contains(problem, `#target_refused"`) || !strings.Contains(problem, "status 400") {
		t.Errorf("the producer was answered %d %s, want 400 with a typed problem", status, problem)
	}
	if n := rounds.Load(); n != 1 {
		t.Errorf("the event was forwarded %d times", n)
	}
}

// TestASignedDeliveryIsForwardedWithItsSignature: forwarded are signed fields, with a signature
// that is still valid, Via, and configured fields; unsigned fields are not.
func TestASignedDeliveryIsForwardedWithItsSignature(t *testing.T) {
	t.Parallel()
	public, private, err := ed25519.GenerateKey(nil)
	check(t, err)
	pem, err := verify.MarshalPublicKey(public)
	check(t, err)
	a := newAim(t, 200)
	dir := t.TempDir()
	file := filepath.Join(dir, "eyelet.yaml")
	text := "listen: 127.0.0.1:0\noperations: \"off\"\nstore: \"memory:\"\nurl: http://hooks.example\nvia: " +
		"edge-1\nlog: {level: error}\nproducers:\n" +
		"  shop:\n    scheme: rfc9421\n    key: header:X-Order\n" +
		"    keys: [{id: k1, alg: ed25519, public_key_file: k.pem}]\n" +
		"handlers:\n  - {producer: shop, type: \"*\", forward: \"" + a.url +
		"/in\", forward_headers: [X-Region, X-Trace-*], sign: {id: hop, secret: " + hopSecret + "}}\n"
	for name, content := range map[string]string{file: text, filepath.Join(dir, "k.pem"): string(pem)} {
		check(t, os.WriteFile(name, []byte(content), 0o600))
	}
	r := launch(t, "serve", "--config", file)
	body := `{"type":"order.paid"}`
	req, err := http.NewRequest(http.MethodPost, r.deliveries+"/webhooks/shop", strings.NewReader(body))
	check(t, err)
	for name, value := range map[string]string{
		"Content-Type": "application/json", "X-Order": "7", "X-Kind": "paid", "X-Region": "eu", "X-Trace-Id": "1",
		"X-Original-URL": "/admin", "X-User": "root", "Via": "1.1 lb",
	} {
		req.Header.Set(name, value)
	}
	components := []string{"@method", "content-digest", "content-type", "x-order", "x-kind", "x-region", "x-trace-id"}
	for _, s := range []*verify.Signer{{Label: "end", Components: components},
		{Label: "sig1", Components: append([]string{"@target-uri"}, components...)}} {
		s.KeyID, s.Private = "k1", private
		signed := req.Clone(context.Background())
		signed.URL, signed.Host = &url.URL{Scheme: "http", Host: "hooks.example", Path: "/webhooks/shop"},
			"hooks.example"
		check(t, s.Sign(signed, []byte(body), time.Now()))
		req.Header = signed.Header
	}
	if status, _, text := fetch(t, req); status != 200 {
		t.Fatalf("%d %s", status, text)
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	for name, want := range map[string]string{
		"X-Order": "7", "X-Kind": "paid", "X-Region": "eu", "X-Trace-Id": "1", "Via": "1.1 lb, 1.1 edge-1",
		"X-Original-URL": "", "X-User": "",
	} {
		if got := a.last.Header.Get(name); got != want {
			t.Errorf("%s was forwarded as %q, want %q", name, got, want)
		}
	}
	key, err := verify.NewPublicKey("k1", verify.Ed25519, public)
	check(t, err)
	own, err := verify.NewHMACKey("hop", []byte(hopSecret))
	check(t, err)
	a.last.URL.Scheme, a.last.URL.Host = "http", a.last.Host
	for _, scheme := range []*verify.RFC9421{
		{Keys: verify.StaticKeys(key), Label: "end", Coverage: verify.Coverage{
			Required: components, Pinned: verify.Pinned{URL: true, Query: true}}},
		{Keys: verify.StaticKeys(own), Label: "sig1"},
	} {
		verified := a.last.Clone(t.Context())
		if scheme.Label == "end" {
			verified.Header.Del("Idempotency-Key") // of the hop
		}
		if _, err := scheme.Verify(verified, func() ([]byte, error) { return []byte(body), nil }); err != nil {
			t.Errorf("%s: %v, %v", scheme.Label, err, a.last.Header)
		}
	}
}
