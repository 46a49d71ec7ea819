package forward

import (
	"context"
	"crypto/ed25519"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/eyelet-dev/eyelet/verify"
)

// signedEvent is an event whose producer signed these components under the label sig1.
func signedEvent(t *testing.T, private ed25519.PrivateKey, components []string) Event {
	t.Helper()
	ev := event("1")
	ev.Method, ev.Target, ev.Label = http.MethodPost, "/webhooks/shop?a=1", "sig1"
	ev.Header.Set("Idempotency-Key", ev.Key)
	ev.Header.Set("X-Kind", "paid")
	ev.Header.Set("X-Unsigned", "1")
	ev.Header.Set("Forwarded", "for=a")
	signDelivery(t, &ev, &verify.Signer{KeyID: "origin", Private: private, Components: components})
	for _, name := range components {
		if name, _, _ = strings.Cut(name, ";"); !strings.HasPrefix(name, "@") {
			ev.Signed = append(ev.Signed, name)
		}
	}
	return ev
}

// signDelivery signs the delivery of an event as it was received.
func signDelivery(t *testing.T, ev *Event, s *verify.Signer) {
	t.Helper()
	u := &url.URL{Scheme: "https", Host: "hooks.example", Path: "/webhooks/shop", RawQuery: "a=1"}
	check(t, s.Sign(&http.Request{Method: ev.Method, URL: u, Host: u.Host, Header: ev.Header}, ev.Body,
		time.Now()))
}

// TestAProducersSignatureIsForwardedWhereItIsValid: a target that knows the producer's key
// verifies it beside ours. A signature that would be invalid is not sent.
func TestAProducersSignatureIsForwardedWhereItIsValid(t *testing.T) {
	t.Parallel()
	public, private, err := ed25519.GenerateKey(nil)
	check(t, err)
	key, err := verify.NewPublicKey("origin", verify.Ed25519, public)
	check(t, err)
	all := []string{"@method", "content-digest", "content-type", "idempotency-key", "x-kind"}
	second := func(keyID string) func(*Event) { // adds a signature that does not cover our URL
		return func(ev *Event) {
			signDelivery(t, ev, &verify.Signer{KeyID: keyID, Private: private, Label: "end", Components: all})
		}
	}
	for name, tt := range map[string]struct {
		components []string
		path       string // of the target
		change     func(*Event)
		holds      bool
	}{
		"fields and content": {all, "/deploy", nil, true},
		"the same path and query": {append(slices.Clone(all), "@path", "@query"), "/webhooks/shop?a=1", nil,
			true},
		"another path":  {append(slices.Clone(all), "@path"), "/deploy", nil, false},
		"another query": {append(slices.Clone(all), "@query"), "/webhooks/shop?a=2", nil, false},
		"one parameter of the query": {append(slices.Clone(all), `@query-param;name="a"`), "/deploy", nil,
			false},
		"the URL": {append(slices.Clone(all), "@target-uri"), "/webhooks/shop?a=1", nil,
			false},
		"the host": {append(slices.Clone(all), "@authority"), "/webhooks/shop?a=1", nil,
			false},
		"a field that is not forwarded": {append(slices.Clone(all), "forwarded"), "/deploy", nil, false},
		"another method":                {all, "/deploy", func(ev *Event) { ev.Method = http.MethodPut }, false},
		"another body":                  {all, "/deploy", func(ev *Event) { ev.Body = []byte("{}") }, false},
		"another key":                   {all, "/deploy", func(ev *Event) { ev.Key = `"2"` }, false},
		"a field that was added to": {all, "/deploy", func(ev *Event) {
			ev.Header.Set("Connection", "x-kind")
		}, false},
		"a signature that was not verified": {all, "/deploy", func(ev *Event) { ev.Label = "" }, false},
		"another of the same key": {append(slices.Clone(all), "@target-uri"), "/deploy", second("origin"),
			true},
		"another of another key": {append(slices.Clone(all), "@target-uri"), "/deploy", second("other"),
			false},
		"a label that is not there": {all, "/deploy", func(ev *Event) { ev.Label = "other" }, false},
	} {
		for _, own := range []string{"", "sig1", "origin", "hop"} {
			f := plain(t, says(200))
			target := to(t, f.URL+tt.path, func(c *Config) {
				c.Credentials = func(context.Context, bool) (Credentials, error) {
					if own == "" {
						return Credentials{}, nil
					}
					return Credentials{Signer: &verify.Signer{KeyID: "hop", Secret: []byte("0123456789abcdef"),
						Label: own}}, nil
				}
			})
			ev := signedEvent(t, private, tt.components)
			if tt.change != nil {
				tt.change(&ev)
			}
			want(t, target.Deliver(context.Background(), ev), Accepted, 200)
			got := f.requests()[0]
			if n := strings.Count(got.header.Get("Signature-Input"),
				"created="); n != count(tt.holds)+count(own != "") {
				t.Errorf("%s, signed as %q: %d signatures were forwarded: %s", name, own, n,
					got.header.Get("Signature-Input"))
			}
			if own != "" && !strings.Contains(got.header.Get("Signature-Input"), own+"=(") {
				t.Errorf("%s: our label %q is missing: %s", name, own, got.header.Get("Signature-Input"))
			}
			if tt.holds {
				covered := tt.components
				if strings.HasPrefix(name, "another of") {
					covered = all
				}
				verifies(t, name, f.URL, key, got, covered)
			}
		}
	}
}

func count(b bool) int {
	if b {
		return 1
	}
	return 0
}

// verifies checks the request with the producer's key.
func verifies(t *testing.T, name, base string, key verify.Key, got request, components []string) {
	t.Helper()
	u, err := url.Parse(base + got.path)
	check(t, err)
	r := &http.Request{Method: got.method, URL: u, Host: u.Host, Header: got.header, RequestURI: got.path}
	scheme := &verify.RFC9421{Keys: verify.StaticKeys(key), Coverage: verify.Coverage{
		Pinned:   verify.Pinned{Method: got.method, Query: true, URL: true, MediaType: "application/json"},
		Required: components}}
	id, err := scheme.Verify(r, func() ([]byte, error) { return []byte(got.body), nil })
	if err != nil || id.KeyID != "origin" {
		t.Errorf("%s: the producer's signature does not verify at the target: %v, %s", name, err,
			got.header.Get("Signature-Input"))
	}
}
