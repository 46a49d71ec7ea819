package verify

import (
	"bytes"
	"cmp"
	"context"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"math/big"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"
)

// keyServer serves a key set that a test changes.
type keyServer struct {
	*httptest.Server
	mu      sync.Mutex
	handler http.HandlerFunc
	fetches atomic.Int32
}

func newKeyServer(t *testing.T) *keyServer {
	t.Helper()
	s := &keyServer{}
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.fetches.Add(1)
		s.mu.Lock()
		h := s.handler
		s.mu.Unlock()
		h(w, r)
	}))
	t.Cleanup(s.Close)
	return s
}

func (s *keyServer) answer(h http.HandlerFunc) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.handler = h
}

// serve makes the server return these keys.
func (s *keyServer) serve(cacheControl string, keys ...string) {
	s.answer(func(w http.ResponseWriter, _ *http.Request) {
		if cacheControl != "" {
			w.Header().Set("Cache-Control", cacheControl)
		}
		fmt.Fprintf(w, `{"keys":[%s]}`, strings.Join(keys, ","))
	})
}

func (s *keyServer) fail() {
	s.answer(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusBadGateway) })
}

func (s *keyServer) open(t *testing.T, clock *fakeClock) *JWKS {
	t.Helper()
	j, err := NewJWKS(JWKSConfig{URL: s.URL + "/jwks", Principal: "shop", Now: clock.Now})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { j.Close() }) //nolint:errcheck // always nil
	return j
}

func (s *keyServer) wantFetches(t *testing.T, want int32) {
	t.Helper()
	if got := s.fetches.Load(); got != want {
		t.Errorf("%d fetches, want %d", got, want)
	}
}

func edJWK(t *testing.T, kid string) string {
	t.Helper()
	return string(jwkOf(t, kid, "EdDSA", newPair(t, kid, Ed25519).key.Public()))
}

func TestJWKSFollowsTheServer(t *testing.T) {
	t.Parallel()
	s, clock := newKeyServer(t), newFakeClock()
	j := s.open(t, clock)
	a, b := edJWK(t, "a"), edJWK(t, "b")
	s.serve("max-age=300", a)
	s.wantFetches(t, 0)
	if got := idsOf(t, j, "a"); got != "a" {
		t.Fatal(got)
	}
	if keys, err := j.Key(t.Context(), "a"); err != nil || keys[0].Principal != "shop" || keys[0].Public() == nil {
		t.Errorf("%v, %v", keys, err)
	}
	s.wantFetches(t, 1)
	if got := idsOf(t, j, "b"); got != "keys_unavailable" { // just fetched
		t.Error(got)
	}
	s.wantFetches(t, 1)
	s.serve("max-age=300", b)
	clock.Add(30 * time.Second)
	if got := idsOf(t, j, "c"); got != "key_unknown" { // unknown, so it is fetched
		t.Error(got)
	}
	s.wantFetches(t, 2)
	if got := idsOf(t, j, "a"); got != "keys_unavailable" { // dropped by the fetch
		t.Error(got)
	}
	if got := idsOf(t, j, ""); got != "b" {
		t.Error(got)
	}
	s.serve("max-age=300", a, b)
	clock.Add(301 * time.Second)
	if got := idsOf(t, j, "b"); got != "b" { // the set had expired
		t.Error(got)
	}
	s.wantFetches(t, 3)
	if got := idsOf(t, j, ""); got != "a b" {
		t.Error(got)
	}
	s.wantFetches(t, 3)
}

// A client that sends unknown kids, one about to be published among them, uses up every
// permitted fetch. The sender with a newly published key is asked to retry and never finally
// refused.
func TestUnknownKidsCannotBlockARotation(t *testing.T) {
	t.Parallel()
	s, clock := newKeyServer(t), newFakeClock()
	j := s.open(t, clock)
	old, next := edJWK(t, "old"), edJWK(t, "next")
	s.serve("max-age=3600", old)
	idsOf(t, j, "old")
	clock.Add(jwksPause)
	if got := idsOf(t, j, "next"); got != "key_unknown" { // guessed before it is published
		t.Fatal(got)
	}
	s.serve("max-age=3600", old, next)
	for wait := jwksPause; wait > 0; wait -= 10 * time.Second {
		for _, kid := range []string{"guess", "next"} {
			var e *Error
			if _, err := j.Key(t.Context(), kid); !errors.As(err, &e) ||
				e.Code != KeysUnavailable || e.RetryAfter != wait {
				t.Fatalf("%s: %v, want keys_unavailable for %s", kid, err, wait)
			}
		}
		clock.Add(10 * time.Second)
	}
	if got := idsOf(t, j, "guess"); got != "key_unknown" { // this fetch began after the lookup
		t.Error(got)
	}
	if got := idsOf(t, j, "next"); got != "next" { // and returned the new key
		t.Error(got)
	}
	s.wantFetches(t, 3)
}

// A fetch that began before a delivery arrived may have missed its key.
func TestEarlierFetchDoesNotProveAKeyUnknown(t *testing.T) {
	t.Parallel()
	s, clock := newKeyServer(t), newFakeClock()
	j := s.open(t, clock)
	old := edJWK(t, "old")
	s.serve("", old)
	idsOf(t, j, "old")
	clock.Add(jwksPause)
	began, release := make(chan struct{}), make(chan struct{})
	s.answer(func(w http.ResponseWriter, _ *http.Request) {
		close(began)
		<-release
		fmt.Fprintf(w, `{"keys":[%s]}`, old)
	})
	first, second := make(chan string, 1), make(chan string, 1)
	go func() { first <- idsOf(t, j, "guess") }()
	<-began
	go func() { second <- idsOf(t, j, "next") }()
	go close(release)
	if got := <-first; got != "key_unknown" {
		t.Errorf("asked before the fetch: %s", got)
	}
	if got := <-second; got != "keys_unavailable" {
		t.Errorf("asked during the fetch or after it: %s", got)
	}
	s.wantFetches(t, 2)
}

func TestJWKSKeepsKeysWhileTheServerIsDown(t *testing.T) {
	t.Parallel()
	s, clock := newKeyServer(t), newFakeClock()
	j := s.open(t, clock)
	s.fail()
	var e *Error
	if _, err := j.Key(t.Context(), "a"); !errors.As(err, &e) || e.Code != KeysUnavailable || e.RetryAfter <= 0 {
		t.Errorf("got %v", err)
	}
	s.serve("", edJWK(t, "a"))
	if got := idsOf(t, j, "a"); got != "keys_unavailable" { // not fetched again at once
		t.Error(got)
	}
	s.wantFetches(t, 1)
	clock.Add(30 * time.Second)
	if got := idsOf(t, j, "a"); got != "a" {
		t.Error(got)
	}
	s.fail()
	clock.Add(23 * time.Hour)
	if got := idsOf(t, j, "a"); got != "a" {
		t.Error(got)
	}
	if got := idsOf(t, j, "new"); got != "keys_unavailable" { // it may be published by now
		t.Error(got)
	}
	clock.Add(time.Hour + time.Second)
	if got := idsOf(t, j, "a"); got != "keys_unavailable" {
		t.Error(got)
	}
	s.serve("", edJWK(t, "b"))
	clock.Add(time.Minute)
	if got := idsOf(t, j, ""); got != "b" {
		t.Error(got)
	}
}

func TestJWKSRefreshesInTheBackground(t *testing.T) {
	t.Parallel()
	s, clock := newKeyServer(t), newFakeClock()
	j := s.open(t, clock)
	s.serve("max-age=400", edJWK(t, "a"))
	idsOf(t, j, "a")
	release := make(chan struct{})
	s.answer(func(w http.ResponseWriter, _ *http.Request) {
		<-release
		fmt.Fprintf(w, `{"keys":[%s]}`, edJWK(t, "b"))
	})
	clock.Add(301 * time.Second)
	if got := idsOf(t, j, "a"); got != "a" { // does not wait
		t.Error(got)
	}
	close(release)
	j.fetches.Wait()
	if got := idsOf(t, j, ""); got != "b" {
		t.Error(got)
	}
}

func TestJWKSHasOneFetchAtATime(t *testing.T) {
	t.Parallel()
	s, clock := newKeyServer(t), newFakeClock()
	j := s.open(t, clock)
	a := edJWK(t, "a")
	var wg, calling sync.WaitGroup
	calling.Add(16)
	s.answer(func(w http.ResponseWriter, _ *http.Request) {
		calling.Wait()
		fmt.Fprintf(w, `{"keys":[%s]}`, a)
	})
	for range 16 {
		wg.Go(func() {
			calling.Done()
			if got := idsOf(t, j, "a"); got != "a" {
				t.Error(got)
			}
		})
	}
	wg.Wait()
	s.wantFetches(t, 1)
}

func TestJWKSIgnoresBadResponses(t *testing.T) {
	t.Parallel()
	other := newKeyServer(t)
	other.serve("", edJWK(t, "a"))
	for name, answer := range map[string]http.HandlerFunc{
		"no JSON":     func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "<html>") },
		"not a set":   func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, `{}`) },
		"a key alone": func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, edJWK(t, "a")) },
		"status 404": func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusNotFound)
			fmt.Fprintf(w, `{"keys":[%s]}`, edJWK(t, "a"))
		},
		"status 204": func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) },
		"too large": func(w http.ResponseWriter, _ *http.Request) {
			fmt.Fprintf(w, `{"keys":[%s]}`+strings.Repeat(" ", 1<<20), edJWK(t, "a"))
		},
		"another host": func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, other.URL, http.StatusFound)
		},
		"a redirect loop": func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "/again", http.StatusFound)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newKeyServer(t)
			s.answer(answer)
			if got := idsOf(t, s.open(t, newFakeClock()), "a"); got != "keys_unavailable" {
				t.Error(got)
			}
		})
	}
	s := newKeyServer(t)
	s.answer(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/jwks" {
			http.Redirect(w, r, "/moved", http.StatusFound)
			return
		}
		fmt.Fprintf(w, `{"keys":[%s]}`, edJWK(t, "a"))
	})
	if got := idsOf(t, s.open(t, newFakeClock()), "a"); got != "a" {
		t.Errorf("a redirect to the same origin: %s", got)
	}
}

func TestJWKSTakesOnlySignatureKeys(t *testing.T) {
	t.Parallel()
	s := newKeyServer(t)
	rsaKey, ec := newPair(t, "r", RSAPSSSHA512).key.Public(), newPair(t, "e", ECDSAP384SHA384).key.Public()
	s.serve("",
		`{"kty":"oct","kid":"secret","k":"c2VjcmV0LXNlY3JldC1zZWNyZXQ","alg":"HS256"}`,
		`{"kty":"AKP","kid":"unknown","alg":"ML-DSA-44","pub":"AAAA"}`,
		`{"kty":"OKP","crv":"Ed25519","kid":"short","x":"AAAA"}`,
		string(jwkWith(t, ec, `"kid":"enc","use":"enc"`)), string(jwkWith(t, ec, `"kid":"wrap","key_ops":["wrapKey"]`)),
		string(jwkWith(t, rsaKey, `"kid":"plain"`)), string(jwkOf(t, "rs256", "RS256", rsaKey)),
		string(jwkOf(t, "ps256", "PS256", rsaKey)), string(jwkOf(t, "es384", "ES384", ec)),
		string(jwkWith(t, ec, `"use":"sig"`)),
	)
	clock := newFakeClock()
	j := s.open(t, clock)
	if got := idsOf(t, j, ""); got != "plain rs256 es384 " {
		t.Errorf("keys for HTTP signatures: %q", got)
	}
	for id, want := range map[string]Alg{"plain": RSAPSSSHA512, "rs256": RSAv15SHA256, "es384": ECDSAP384SHA384} {
		if keys, err := j.Key(t.Context(), id); err != nil || keys[0].Alg != want {
			t.Errorf("%s: %v, %v", id, keys, err)
		}
	}
	raw, err := j.PublicKeys(t.Context(), "")
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, k := range raw {
		got = append(got, k.ID+":"+k.Alg)
	}
	if want := "plain: rs256:RS256 ps256:PS256 es384:ES384 :"; strings.Join(got, " ") != want {
		t.Errorf("public keys: %q", got)
	}
	clock.Add(jwksPause)
	if _, err := j.PublicKeys(t.Context(), "secret"); CodeOf(err) != KeyUnknown {
		t.Errorf("the symmetric key: %v", err)
	}
}

// RFC 9421 has no algorithm for P-521, and RFC 7518 has ES512.
func TestKeysOfP521AreForTokensOnly(t *testing.T) {
	t.Parallel()
	private, err := ecdsa.GenerateKey(elliptic.P521(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	named, plain := jwkOf(t, "named", "ES512", private.Public()), jwkWith(t, private.Public(), `"kid":"plain"`)
	x := base64.RawURLEncoding.EncodeToString(bytes.Repeat([]byte{1}, 66))
	outside := `{"kty":"EC","crv":"P-521","kid":"outside","x":"` + x + `","y":"` + x + `"}` // not on the curve
	text := []byte(`{"keys":[` + string(named) + "," + string(plain) + "," + outside + `]}`)
	public, keys, err := parseJWKS(text, nil)
	if err != nil || len(public) != 2 || len(keys) != 0 {
		t.Errorf("%d keys for tokens and %d for HTTP signatures, %v", len(public), len(keys), err)
	}
	one := big.NewInt(1)
	invalid := &ecdsa.PublicKey{Curve: elliptic.P521(), X: one, Y: one} //nolint:staticcheck // not on the curve
	if checkTokenKey(invalid) == nil {
		t.Error("a point that is not on the curve")
	}
	set, err := ParseTokenKeys(text)
	if err != nil {
		t.Fatal(err)
	}
	for _, kid := range []string{"named", "plain"} {
		scheme := bearerScheme()
		scheme.Keys, scheme.Algorithms = set, []string{"ES512"}
		token := signWith(t, private, "ES512", kid, nil, goodClaims())
		if _, err := scheme.Verify(bearer(token), noBody); err != nil {
			t.Errorf("a token under key %q: %v", kid, err)
		}
	}
	for _, key := range [][]byte{named, plain} {
		if _, err := parseJWKText("k", "", key); err == nil {
			t.Errorf("a key for HTTP signatures: %s", key)
		}
	}
}

func TestJWKSURLsMustBeSafe(t *testing.T) {
	t.Parallel()
	for url, ok := range map[string]bool{
		"https://keys.example/jwks": true, "http://127.0.0.1:9/jwks": true,
		"http://[::1]/jwks": true, "http://localhost/jwks": true,
		"http://keys.example/jwks": false, "http://127.0.0.1.evil.example/": false,
		"http://10.0.0.1/": false, "ftp://keys.example/": false,
		"https://user:pw@keys.example/": false, "/jwks": false, "": false, "https://": false,
		"http://localhost.evil.example/": false,
	} {
		j, err := NewJWKS(JWKSConfig{URL: url})
		if (err == nil) != ok {
			t.Errorf("%q: %v", url, err)
		}
		if err != nil && strings.Contains(err.Error(), "pw") {
			t.Errorf("%v reveals the password", err)
		}
		if j != nil {
			j.Close() //nolint:errcheck // always nil
		}
	}
}

func TestCacheAgeIsBounded(t *testing.T) {
	t.Parallel()
	for header, want := range map[string]time.Duration{
		"": 10 * time.Minute, "max-age=300": 5 * time.Minute, "public, max-age=300, must-revalidate": 5 * time.Minute,
		"max-age=1": time.Minute, "max-age=86400": time.Hour, "no-store": time.Minute,
		"max-age=300, no-cache": time.Minute,
		"max-age=x":             10 * time.Minute, "Max-Age=\"120\"": 2 * time.Minute, "max-age=-5": time.Minute,
	} {
		if got := cacheAge(http.Header{"Cache-Control": {header}}); got != want {
			t.Errorf("%q: %s, want %s", header, got, want)
		}
	}
}

func TestCloseCancelsTheFetch(t *testing.T) {
	defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
	hang := make(chan struct{})
	s := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		select {
		case <-hang:
		case <-r.Context().Done():
		}
	}))
	defer s.Close()
	defer close(hang)
	j, err := NewJWKS(JWKSConfig{URL: s.URL})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := j.Key(ctx, "a"); CodeOf(err) != KeysUnavailable { // the lookup ends with its context
		t.Errorf("got %v", err)
	}
	if err := j.Close(); err != nil {
		t.Error(err)
	}
	if _, err := j.Key(t.Context(), "a"); CodeOf(err) != KeysUnavailable {
		t.Errorf("after Close: %v", err)
	}
	s.CloseClientConnections()
}

func TestFetchErrorsDoNotRevealTheURL(t *testing.T) {
	t.Parallel()
	s := httptest.NewServer(http.NotFoundHandler())
	s.Close() // the port is closed
	j, err := NewJWKS(JWKSConfig{URL: s.URL + "/jwks?token=s3cret"})
	if err != nil {
		t.Fatal(err)
	}
	defer j.Close()
	if _, err := j.Key(t.Context(), "k"); err == nil || strings.Contains(err.Error(), "s3cret") {
		t.Errorf("error is %v", err)
	}
}

// TestKeysMayNeedAPurpose: for HTTP signatures. Tokens keep theirs.
func TestKeysMayNeedAPurpose(t *testing.T) {
	t.Parallel()
	p := newPair(t, "k", Ed25519)
	purposes := map[string][]string{"use": {"sig"}, "key_ops": {"verify"}, "own_use": {"a", "b"}}
	const use, ops = `"use":"sig"`, `"key_ops":["verify"]`
	for members, found := range map[string]bool{
		use + `,` + ops + `,"own_use":"a"`: true, use + `,"key_ops":["x","verify"],"own_use":"b"`: true,
		use + `,` + ops + `,"own_use":["c","b"]`: true, use + `,"key_ops":"verify","own_use":"b"`: false,
		use + `,` + ops: false, use + `,` + ops + `,"own_use":"c"`: false, use + `,` + ops + `,"own_use":["c"]`: false,
		use + `,` + ops + `,"own_use":null`: false, use + `,` + ops + `,"own_use":{"a":"a"}`: false,
		use + `,"own_use":"a"`: false, ops + `,"own_use":"a"`: false, use + `,` + ops + `,"own_use":1`: false,
	} {
		set := `{"keys":[1,` + string(jwkWith(t, p.key.Public(), members)) + `]}`
		_, keys, err := parseJWKS([]byte(set), purposes)
		if err != nil || len(keys) > 0 != found {
			t.Errorf("%s: %v, %v", members, keys, err)
		}
	}
	public, _, err := parseJWKS([]byte(`{"keys":[`+string(jwkWith(t, p.key.Public(), use))+`]}`), purposes)
	if err != nil || len(public) != 1 {
		t.Errorf("%v, %v", public, err)
	}
}

// revokedCase is a list of revoked keys with the key "b".
type revokedCase struct {
	issuer, head, next string
	by                 ed25519.PrivateKey
	after              time.Duration // of a look-up, after updated
	code               Code          // of a key that is not listed; "" finds it
}

// lists returns the list in each form of a JWS.
func (c revokedCase) lists(t *testing.T, origin string, updated time.Time) []string {
	t.Helper()
	next, err := time.ParseDuration(c.next)
	if err != nil {
		t.Fatal(err)
	}
	encode := base64.RawURLEncoding.EncodeToString
	protected, payload := encode([]byte(c.head)), encode(fmt.Appendf(nil,
		`{"issuer":%q,"updated":%q,"next_update":%q,"revoked_kids":["b"]}`,
		cmp.Or(c.issuer, origin), updated.Format(time.RFC3339), updated.Add(next).Format(time.RFC3339)))
	signature := encode(ed25519.Sign(c.by, []byte(protected+"."+payload)))
	return []string{
		protected + "." + payload + "." + signature,
		fmt.Sprintf(`{"payload":%q,"protected":%q,"signature":%q}`, payload, protected, signature),
		fmt.Sprintf(`{"payload":%q,"signatures":[{"protected":%q,"signature":%q}]}`, payload, protected, signature),
	}
}

// check looks up both keys of a set with this list.
func (c revokedCase) check(t *testing.T, name string, public ed25519.PublicKey) {
	t.Helper()
	clock := newFakeClock()
	var text atomic.Value
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/revoked" {
			fmt.Fprint(w, text.Load())
			return
		}
		fmt.Fprintf(w, `{"keys":[%s,%s]}`, jwkWith(t, public, `"kid":"a"`), jwkWith(t, public, `"kid":"b"`))
	}))
	defer server.Close()
	for _, list := range c.lists(t, server.URL, clock.Now()) {
		text.Store(list)
		set, err := NewJWKS(JWKSConfig{URL: server.URL, Revoked: server.URL + "/revoked", Now: clock.Now})
		if err != nil {
			t.Fatal(err)
		}
		if c.after > 0 { // it was up to date, and cannot be fetched again
			if _, err := set.Key(t.Context(), "a"); err != nil {
				t.Fatal(err)
			}
			text.Store("")
			clock.Add(c.after)
		}
		_, err = set.Key(t.Context(), "a")
		_, revoked := set.Key(t.Context(), "b")
		if CodeOf(err) != c.code || CodeOf(revoked) != cmp.Or(c.code, KeyUnknown) {
			t.Errorf("%s: %v, revoked: %v", name, err, revoked)
		}
		if name == "out of date" && !strings.Contains(err.Error(), name) {
			t.Errorf("%v does not say why", err)
		}
		if set.Close() != nil {
			t.Error("close")
		}
		clock.Add(-c.after)
	}
}

// TestListsOfRevokedKeysAreChecked: the list is that of the origin, up to date, and signed with a
// key of the set. Without one there are no keys.
func TestListsOfRevokedKeysAreChecked(t *testing.T) {
	t.Parallel()
	public, private, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	other := ed25519.NewKeyFromSeed(make([]byte, ed25519.SeedSize))
	const good = `{"alg":"EdDSA","kid":"a","typ":"adcp-gov-revocation+jws"}`
	for name, c := range map[string]revokedCase{
		"up to date":          {"", good, "15m", private, 0, ""},
		"in its grace":        {"", good, "15m", private, 75 * time.Minute, ""},
		"after its grace":     {"", good, "15m", private, 75*time.Minute + time.Second, KeysUnavailable},
		"for a year":          {"", good, "8760h", private, 150 * time.Minute, ""},
		"for a year, later":   {"", good, "8760h", private, 150*time.Minute + time.Second, KeysUnavailable},
		"out of date":         {"", good, "-2h", private, 0, KeysUnavailable},
		"of another issuer":   {"https://other.example", good, "15m", private, 0, KeysUnavailable},
		"by another key":      {"", good, "15m", other, 0, KeysUnavailable},
		"of an unknown key":   {"", strings.Replace(good, `"a"`, `"x"`, 1), "15m", private, 0, KeysUnavailable},
		"of another type":     {"", strings.Replace(good, "-gov", "", 1), "15m", private, 0, KeysUnavailable},
		"without a signature": {"", strings.Replace(good, "EdDSA", "none", 1), "15m", private, 0, KeysUnavailable},
	} {
		c.check(t, name, public)
	}
	for _, address := range []string{"http://a.example/revoked", "https://user@a.example", ":"} {
		if _, err := NewJWKS(JWKSConfig{URL: "https://a.example", Revoked: address}); err == nil {
			t.Errorf("%q was accepted", address)
		}
	}
}
