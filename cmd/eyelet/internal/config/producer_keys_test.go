package config

import (
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/eyelet-dev/eyelet/verify"
)

// No setting lets published keys be fetched from within the network, over http or by a redirect.
func TestConfiguredAgentsAreFetchedFromPublicAddressesOnly(t *testing.T) {
	t.Parallel()
	var connections atomic.Int32
	server := httptest.NewUnstartedServer(http.NotFoundHandler())
	server.Config.ConnState = func(net.Conn, http.ConnState) { connections.Add(1) }
	server.StartTLS()
	t.Cleanup(server.Close)
	for setting, c := range map[string]struct{ field, value, component string }{
		fmt.Sprintf("directories: [%q]", server.URL): {
			"Signature-Agent", fmt.Sprintf("sig1=%q", server.URL), `signature-agent;key="sig1"`},
		fmt.Sprintf("agent: {header: UCP-Agent, member: profile, allow: [%q]}", server.URL+"/ucp"): {
			"UCP-Agent", fmt.Sprintf("profile=%q", server.URL+"/ucp"), "ucp-agent"},
	} {
		s, err := Source{}.Parse("e.yaml", fmt.Appendf(nil,
			"url: https://hooks.example\nproducers:\n  bots: {scheme: rfc9421, %s}\n", setting))
		check(t, err)
		p, err := s.Build(t.Context(), BuildOptions{Stdout: io.Discard})
		check(t, err)
		t.Cleanup(func() { p.Close() }) //nolint:errcheck // no fetch is in flight
		private, err := verify.GenerateKey(verify.Ed25519)
		check(t, err)
		id := sha256.Sum256([]byte("any key"))
		signer := verify.Signer{
			KeyID: base64.RawURLEncoding.EncodeToString(id[:]), Private: private, Tag: "web-bot-auth",
			Components: []string{"@method", "@target-uri", c.component},
		}
		r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "https://hooks.example/webhooks/bots", nil)
		r.Header.Set(c.field, c.value)
		check(t, signer.Sign(r, nil, time.Now()))
		_, err = p.Producers[0].Scheme.Verify(r, func() ([]byte, error) { return nil, nil })
		if verify.CodeOf(err) != verify.KeysUnavailable || !strings.Contains(err.Error(), "inside a network") {
			t.Errorf("%s: got %v", setting, err)
		}
	}
	if n := connections.Load(); n != 0 {
		t.Errorf("%d connections", n)
	}
}

// TestTheOnlyKeyNeedsNoKeyID: of two keys, the signature must name one.
func TestTheOnlyKeyNeedsNoKeyID(t *testing.T) {
	t.Parallel()
	key := func(id, secret string) string {
		return fmt.Sprintf("{id: %s, alg: hmac-sha256, secret: %s}", id, secret)
	}
	one, other := key("k1", "a-secret-of-our-own-17"), key("k2", "another-secret-of-ours")
	for keys, want := range map[string]verify.Code{one: "", one + ", " + other: verify.InsufficientCoverage} {
		s, err := Source{}.Parse("e.yaml", fmt.Appendf(nil,
			"url: https://hooks.example\nproducers: {shop: {scheme: rfc9421, keys: [%s]}}\n", keys))
		check(t, err)
		p, err := s.Build(t.Context(), BuildOptions{Stdout: io.Discard})
		check(t, err)
		t.Cleanup(func() { p.Close() }) //nolint:errcheck // no fetch is in flight
		r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "https://hooks.example/webhooks/shop", nil)
		signer := verify.Signer{Secret: []byte("a-secret-of-our-own-17")}
		check(t, signer.Sign(r, nil, time.Now()))
		_, err = p.Producers[0].Scheme.Verify(r, func() ([]byte, error) { return nil, nil })
		if verify.CodeOf(err) != want {
			t.Errorf("%s: got %v", keys, err)
		}
	}
}

// TestForwardedFieldsMustBeSigned: those of the one handler, not of another producer's.
func TestForwardedFieldsMustBeSigned(t *testing.T) {
	t.Parallel()
	s, err := Source{}.Parse("e.yaml", []byte("url: https://hooks.example\nproducers:\n"+
		"  shop: {scheme: rfc9421, jwks_url: 'https://a.example'}\n"+
		"  till: {scheme: rfc9421, jwks_url: 'https://a.example'}\nhandlers:\n"+
		"  - {producer: shop, type: a, forward: 'https://b.example', forward_headers: [X-Region, X-Shop-*]}\n"+
		"  - {producer: till, type: a, forward: 'https://b.example'}\n"))
	check(t, err)
	p, err := s.Build(t.Context(), BuildOptions{Stdout: io.Discard})
	check(t, err)
	t.Cleanup(func() { p.Close() }) //nolint:errcheck // no fetch is in flight
	for i, want := range []bool{true, false} {
		scheme, ok := p.Producers[i].WithDefaults().Scheme.(*verify.RFC9421)
		read := scheme.Coverage.Consumed
		got := slices.Contains(read, "x-region") && slices.Contains(read, "x-shop-*")
		if !ok || got != want {
			t.Errorf("%s: %q", p.Producers[i].Name, read)
		}
	}
}

// TestAnAudienceStandsForHostAndPath: a URL is then not needed; a warning says where it does not.
func TestAnAudienceStandsForHostAndPath(t *testing.T) {
	t.Parallel()
	const them = "  them: {scheme: rfc9421, jwks_url: 'https://a.example', audience: {from: 'json:at', is: m_1}}\n"
	for more, warned := range map[string]bool{"": false, them: true} {
		s, err := Source{}.Parse("e.yaml", []byte("url: https://hooks.example\nproducers:\n"+
			"  shop: {scheme: rfc9421, jwks_url: 'https://a.example', audience: {from: 'json:to', is: m_1}}\n"+more))
		check(t, err)
		p, err := s.Build(t.Context(), BuildOptions{Stdout: io.Discard})
		check(t, err)
		t.Cleanup(func() { p.Close() }) //nolint:errcheck // no fetch is in flight
		made := p.Producers[0].WithDefaults()
		if a := made.Audience; a == nil || a.From.String() != "json:to" || a.Is != "m_1" || made.SignsURL != warned {
			t.Errorf("%+v, signs the URL: %t", made.Audience, made.SignsURL)
		}
		if found := fmt.Sprint(p.Warnings()); strings.Contains(found, "has an audience") != warned {
			t.Error(found)
		}
	}
}

// TestTheAgeOfSignaturesIsTheTolerance: and a tolerance beside it may be shorter.
func TestTheAgeOfSignaturesIsTheTolerance(t *testing.T) {
	t.Parallel()
	for settings, want := range map[string]time.Duration{
		"": 5 * time.Minute, ", max_age: 1h": time.Hour, ", max_age: 1m": time.Minute,
		", max_age: 1h, tolerance: 2m": 2 * time.Minute,
	} {
		s, err := Source{}.Parse("e.yaml", fmt.Appendf(nil,
			"url: https://hooks.example\nproducers:\n  shop: {scheme: rfc9421, jwks_url: 'https://a.example'%s}\n",
			settings))
		check(t, err)
		p, err := s.Build(t.Context(), BuildOptions{Stdout: io.Discard})
		check(t, err)
		t.Cleanup(func() { p.Close() }) //nolint:errcheck // no fetch is in flight
		made := p.Producers[0].WithDefaults()
		scheme, ok := made.Scheme.(*verify.RFC9421)
		limited := strings.Contains(settings, "max_age")
		if !ok || made.Tolerance.Past != want || (scheme.MaxAge != 0) != limited {
			t.Errorf("%q: a tolerance of %v, want %v", settings, made.Tolerance.Past, want)
		}
	}
}

// TestFetchedKeysSurviveAReload: the next plan has the keys of the one before, whose end does not
// end them.
func TestFetchedKeysSurviveAReload(t *testing.T) {
	t.Parallel()
	keys := httptest.NewServer(http.NotFoundHandler())
	t.Cleanup(keys.Close)
	s, err := Source{}.Parse("e.yaml", fmt.Appendf(nil,
		"url: https://hooks.example\nproducers:\n  shop: {scheme: rfc9421, jwks_url: %q}\n", keys.URL))
	check(t, err)
	var plans [2]*Plan
	for i := range plans {
		if plans[i], err = s.Build(t.Context(), BuildOptions{Stdout: io.Discard, Previous: plans[0]}); err != nil {
			t.Fatal(err)
		}
	}
	from := "jwks " + keys.URL
	next := plans[1].fetched[from]
	if next == nil || next != plans[0].fetched[from] {
		t.Fatal("the keys are not those of the plan before")
	}
	for i, users := range []int32{1, 0} {
		if err := plans[i].Close(); err != nil {
			t.Error(err)
		}
		if n := next.users.Load(); n != users {
			t.Errorf("%d users after the end of plan %d", n, i)
		}
	}
}
