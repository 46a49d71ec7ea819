package verify

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// agentWeb is the web of a test: every https origin is served by one server with TLS, which
// answers by host and path.
type agentWeb struct {
	client  *http.Client
	fetches atomic.Int32

	mu    sync.Mutex
	pages map[string]http.HandlerFunc // by host and path
}

func newAgentWeb(t *testing.T) *agentWeb {
	t.Helper()
	w := &agentWeb{pages: map[string]http.HandlerFunc{}}
	server := httptest.NewTLSServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		w.fetches.Add(1)
		w.mu.Lock()
		page := w.pages[r.Host+r.URL.Path]
		w.mu.Unlock()
		if page == nil {
			page = http.NotFound
		}
		page(rw, r)
	}))
	t.Cleanup(server.Close)
	roots := x509.NewCertPool()
	roots.AddCert(server.Certificate())
	dial := func(ctx context.Context, network, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, network, server.Listener.Addr().String())
	}
	transport := &http.Transport{DialContext: dial, DisableKeepAlives: true,
		TLSClientConfig: &tls.Config{RootCAs: roots, ServerName: "example.com"}}
	w.client = &http.Client{Transport: transport}
	return w
}

func (w *agentWeb) set(page string, h http.HandlerFunc) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.pages[page] = h
}

// publish makes a host publish these keys in its directory.
func (w *agentWeb) publish(host string, keys ...[]byte) {
	w.set(host+directoryPath, directoryOf(keys...))
}

func directoryOf(keys ...[]byte) http.HandlerFunc {
	texts := make([]string, len(keys))
	for i, k := range keys {
		texts[i] = string(k)
	}
	return func(rw http.ResponseWriter, _ *http.Request) {
		rw.Header().Set("Content-Type", directoryType)
		fmt.Fprintf(rw, `{"keys":[%s]}`, strings.Join(texts, ","))
	}
}

// open returns the scheme with the keys of these directories.
func (w *agentWeb) open(t *testing.T, cfg DirectoriesConfig) *RFC9421 {
	t.Helper()
	cfg.Client = w.client
	d, err := NewDirectories(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { d.Close() }) //nolint:errcheck // always nil
	return &RFC9421{Keys: d}
}

func (w *agentWeb) wantFetches(t *testing.T, want int32) {
	t.Helper()
	if got := w.fetches.Load(); got != want {
		t.Errorf("%d fetches, want %d", got, want)
	}
}

// newAgent returns a pair whose id is its thumbprint, and its JSON Web Key.
func newAgent(t *testing.T, alg Alg) (testPair, []byte) {
	t.Helper()
	p := newPair(t, "k", alg)
	id, err := thumbprint(p.key.Public())
	if err != nil {
		t.Fatal(err)
	}
	p.signer.KeyID, p.signer.Tag = id, agentTag
	return p, jwkWith(t, p.key.Public(), fmt.Sprintf(`"kid":%q,"use":"sig"`, id))
}

// agentRequest returns a delivery with this Signature-Agent, signed with its member sig1.
func agentRequest(t *testing.T, p testPair, agent string, components ...string) *http.Request {
	t.Helper()
	r := newDelivery(t, testBody)
	if agent != "" {
		r.Header.Set("Signature-Agent", agent)
	}
	if components == nil {
		components = []string{`signature-agent;key="sig1"`}
	}
	p.signer.Components = append(append([]string{}, allComponents...), components...)
	p.sign(t, r, testBody)
	return r
}

func TestDirectoriesVerifyTheirAgents(t *testing.T) {
	t.Parallel()
	const bot, set = "https://bot.example", "https://bot.example/team/jwks.json"
	for name, c := range map[string]struct {
		listed, sent, principal string
	}{
		"an origin":                  {bot, bot, bot},
		"an origin with a slash":     {bot + "/", bot, bot},
		"the well-known path":        {bot, bot + directoryPath, bot},
		"the well-known path listed": {bot + directoryPath, bot, bot},
		"another spelling":           {"https://BOT.example:443", "HTTPS://Bot.Example:443/", bot},
		"another port":               {bot + ":8443", bot + ":8443", bot + ":8443"},
		"a key set":                  {set, "https://bot.example/x/../team/jwks.json", set},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newAgentWeb(t)
			p, key := newAgent(t, Ed25519)
			w.publish("bot.example", key)
			w.publish("bot.example:8443", key)
			w.set("bot.example/team/jwks.json", func(rw http.ResponseWriter, _ *http.Request) {
				fmt.Fprintf(rw, `{"keys":[%s]}`, key)
			})
			scheme := w.open(t, DirectoriesConfig{URLs: []string{c.listed}})
			id, err := scheme.Verify(agentRequest(t, p, `sig1="`+c.sent+`"`), bodyOf(testBody))
			if err != nil {
				t.Fatal(err)
			}
			if id.Principal != c.principal || id.KeyID != p.signer.KeyID || id.Label != "sig1" {
				t.Errorf("principal %q, key %q, label %q", id.Principal, id.KeyID, id.Label)
			}
			w.wantFetches(t, 1)
		})
	}
}

// The names of algorithms are those of HTTP signatures in the draft, and of JOSE in deployed
// directories. The kid of a key is not used.
func TestKeysOfADirectoryAreReadByTheirThumbprint(t *testing.T) {
	t.Parallel()
	ed, _ := newAgent(t, Ed25519)
	ec, _ := newAgent(t, ECDSAP256SHA256)
	for members, found := range map[string]bool{
		`"kid":"any"`: true, `"alg":"ed25519"`: true, `"alg":"EdDSA"`: true, `"alg":"Ed25519"`: true,
		`"alg":"ES256"`: false, `"alg":"hmac-sha256"`: false, `"alg":"future"`: false, `"alg":1`: false,
		`"use":"enc"`: false, `"key_ops":["encrypt"]`: false, `"key_ops":["sign"]`: false, `"key_ops":[]`: false,
		`"key_ops":["verify"]`: true, `"key_ops":["sign","verify"]`: true, `"nbf":1712793600,"exp":1715385600`: true,
	} {
		_, keys, err := parseDirectory([]byte(`{"keys":[1,{},` + string(jwkWith(t, ed.key.Public(), members)) + `]}`))
		if err != nil || len(keys) > 0 != found || found && keys[0].ID != ed.signer.KeyID {
			t.Errorf("%s: %v, %v", members, keys, err)
		}
	}
	_, keys, err := parseDirectory([]byte(`{"keys":[{"kty":"oct","k":"c2VjcmV0IHNlY3JldCBzZWNyZXQ"},` +
		string(jwkWith(t, ec.key.Public(), `"alg":"ecdsa-p256-sha256"`)) + `]}`))
	if err != nil || len(keys) != 1 || keys[0].ID != ec.signer.KeyID || keys[0].Alg != ECDSAP256SHA256 {
		t.Errorf("%v, %v", keys, err)
	}
}

// What a directory must not be, and how much of it is read (sections 5.5 and 6.7).
func TestBadDirectoriesAreFailures(t *testing.T) {
	t.Parallel()
	p, key := newAgent(t, Ed25519)
	good := directoryOf(key)
	for name, c := range map[string]struct {
		page http.HandlerFunc
		want string
	}{
		"missing": {http.NotFound, "status 404"},
		"redirect": {func(rw http.ResponseWriter, r *http.Request) {
			http.Redirect(rw, r, "https://bot.example/elsewhere", http.StatusFound)
		}, "status 302"},
		"another 2xx": {func(rw http.ResponseWriter, r *http.Request) {
			rw.Header().Set("Content-Type", directoryType)
			rw.WriteHeader(http.StatusNonAuthoritativeInfo)
			good(rw, r)
		}, "status 203"},
		"html": {func(rw http.ResponseWriter, _ *http.Request) {
			rw.Header().Set("Content-Type", "text/html")
			fmt.Fprintf(rw, `{"keys":[%s]}`, key)
		}, "media type"},
		"without a media type": {func(rw http.ResponseWriter, _ *http.Request) {
			rw.Header()["Content-Type"] = nil
			fmt.Fprintf(rw, `{"keys":[%s]}`, key)
		}, "media type"},
		"not JSON": {directoryOf([]byte(`{`)), "not a JSON Web Key Set"},
		"a list":   {func(rw http.ResponseWriter, _ *http.Request) { typed(rw, `[]`) }, "not a JSON Web Key Set"},
		"too many keys": {func(rw http.ResponseWriter, _ *http.Request) {
			typed(rw, `{"keys":[`+strings.Repeat("{},", maxDirectoryKeys)+string(key)+`]}`)
		}, "more than 100 keys"},
		"a gigabyte": {func(rw http.ResponseWriter, _ *http.Request) {
			typed(rw, `{"keys":[`)
			for range 1 << 10 {
				if _, err := rw.Write(make([]byte, 1<<20)); err != nil {
					return
				}
			}
			t.Error("the whole answer was read")
		}, "larger than 1 MiB"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newAgentWeb(t)
			w.set("bot.example"+directoryPath, c.page)
			w.set("bot.example/elsewhere", good)
			scheme := w.open(t, DirectoriesConfig{URLs: []string{"https://bot.example"}})
			for range 2 { // the second time without a fetch
				_, err := scheme.Verify(agentRequest(t, p, `sig1="https://bot.example"`), bodyOf(testBody))
				wantCode(t, err, KeysUnavailable)
				text := fmt.Sprint(err)
				if !strings.Contains(text, c.want) || !strings.Contains(text, "https://bot.example:") {
					t.Errorf("%v, want %q and the directory", err, c.want)
				}
			}
			w.wantFetches(t, 1)
		})
	}
}

func typed(rw http.ResponseWriter, text string) {
	rw.Header().Set("Content-Type", directoryType)
	_, _ = rw.Write([]byte(text))
}

// roundTrip is a transport.
type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

func TestASlowDirectoryIsAbandoned(t *testing.T) {
	t.Parallel()
	p, _ := newAgent(t, Ed25519)
	r := agentRequest(t, p, `sig1="https://bot.example"`)
	synctest.Test(t, func(t *testing.T) {
		d, err := NewDirectories(DirectoriesConfig{URLs: []string{"https://bot.example"}, Client: &http.Client{
			Transport: roundTrip(func(r *http.Request) (*http.Response, error) {
				<-r.Context().Done()
				return nil, r.Context().Err()
			}),
		}})
		if err != nil {
			t.Fatal(err)
		}
		defer d.Close() //nolint:errcheck // always nil
		began := time.Now()
		_, err = (&RFC9421{Keys: d}).Verify(r, bodyOf(testBody))
		wantCode(t, err, KeysUnavailable)
		if took := time.Since(began); took != jwksTimeout {
			t.Errorf("abandoned after %s, want %s", took, jwksTimeout)
		}
	})
}

// Without a Client only public addresses are reached, whatever the list says.
func TestDirectoriesAreFetchedFromPublicAddressesOnly(t *testing.T) {
	t.Parallel()
	var connections atomic.Int32
	server := httptest.NewUnstartedServer(http.NotFoundHandler())
	server.Config.ConnState = func(net.Conn, http.ConnState) { connections.Add(1) }
	server.StartTLS()
	t.Cleanup(server.Close)
	_, port, err := net.SplitHostPort(server.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	p, _ := newAgent(t, Ed25519)
	for _, origin := range []string{
		"https://127.0.0.1:" + port, "https://localhost:" + port, "https://169.254.169.254", "https://[::1]:" + port,
		"https://10.0.0.1", "https://[fd00::1]/jwks",
	} {
		d, err := NewDirectories(DirectoriesConfig{URLs: []string{origin}})
		if err != nil {
			t.Fatal(err)
		}
		_, err = (&RFC9421{Keys: d}).Verify(agentRequest(t, p, `sig1="`+origin+`"`), bodyOf(testBody))
		wantCode(t, err, KeysUnavailable)
		if !strings.Contains(fmt.Sprint(err), "inside a network") {
			t.Errorf("%s: %v", origin, err)
		}
		d.Close() //nolint:errcheck // always nil
	}
	if n := connections.Load(); n != 0 {
		t.Errorf("%d connections", n)
	}
}

// Two agents publish keys; each may sign for itself only (section 5.4).
func TestAnAgentCannotSignForAnother(t *testing.T) {
	t.Parallel()
	w := newAgentWeb(t)
	a, keyA := newAgent(t, Ed25519)
	b, keyB := newAgent(t, Ed25519)
	w.publish("a.example", keyA)
	w.publish("b.example", keyB)
	clock := newFakeClock()
	scheme := w.open(t, DirectoriesConfig{URLs: []string{"https://a.example", "https://b.example"}, Now: clock.Now})
	verify := func(p testPair, agent string) (string, error) {
		id, err := scheme.Verify(agentRequest(t, p, `sig1="`+agent+`"`), bodyOf(testBody))
		return id.Principal, err
	}
	for agent, p := range map[string]testPair{"https://a.example": a, "https://b.example": b} {
		if got, err := verify(p, agent); err != nil || got != agent {
			t.Errorf("%s: %q, %v", agent, got, err)
		}
	}
	clock.Add(jwksPause)
	for agent, p := range map[string]testPair{"https://a.example": b, "https://b.example": a} {
		_, err := verify(p, agent)
		wantCode(t, err, KeyUnknown)
	}
	// Joined with other sets, the keys are found by neither id nor directory.
	scheme = &RFC9421{Keys: JoinKeys(scheme.Keys, StaticKeys(newPair(t, "k", HMACSHA256).key))}
	_, err := verify(a, "https://a.example")
	wantCode(t, err, KeyUnknown)
}

// Anyone can sign with the keys of RFC 9421 appendix B.1 (section 6.8).
func TestPublishedTestKeysAreNotTakenFromAURL(t *testing.T) {
	t.Parallel()
	key := loadVectorKeys(t, filepath.Join(rfcVectors, "rfc9421"))["test-key-ed25519"]
	_, own := newAgent(t, Ed25519)
	text := jwkWith(t, key.Public(), `"kid":"test"`)
	w := newAgentWeb(t)
	w.publish("bot.example", text, own)
	scheme := w.open(t, DirectoriesConfig{URLs: []string{"https://bot.example"}})
	keys, err := scheme.directories().sets["https://bot.example"].Key(t.Context(), "")
	if err != nil || len(keys) != 1 || IsTestKey(keys[0]) {
		t.Errorf("%v, %v", keys, err)
	}
	s := newKeyServer(t)
	s.serve("", string(text), edJWK(t, "own"))
	if got := idsOf(t, s.open(t, newFakeClock()), ""); got != "own" {
		t.Errorf("a JSON Web Key Set: %s", got)
	}
}

// A failed fetch is not evidence, a directory without the key is (section 6.10).
func TestOnlyASuccessfulFetchDropsKeys(t *testing.T) {
	t.Parallel()
	w, clock := newAgentWeb(t), newFakeClock()
	p, key := newAgent(t, Ed25519)
	_, next := newAgent(t, Ed25519)
	w.publish("bot.example", key)
	scheme := w.open(t, DirectoriesConfig{URLs: []string{"https://bot.example"}, Now: clock.Now})
	r := agentRequest(t, p, `sig1="https://bot.example"`)
	try := func() error {
		_, err := scheme.Verify(r, bodyOf(testBody))
		return err
	}
	if err := try(); err != nil {
		t.Fatal(err)
	}
	w.set("bot.example"+directoryPath, http.NotFound)
	clock.Add(23 * time.Hour)
	if err := try(); err != nil {
		t.Errorf("while the directory is down: %v", err)
	}
	w.wantFetches(t, 2)
	w.publish("bot.example", next)
	clock.Add(time.Minute)
	wantCode(t, try(), KeyUnknown)
	clock.Add(2 * time.Hour)
	wantCode(t, try(), KeyUnknown)
	w.publish("bot.example", key)
	clock.Add(2 * time.Hour)
	if err := try(); err != nil {
		t.Errorf("published again: %v", err)
	}
	w.set("bot.example"+directoryPath, http.NotFound)
	clock.Add(jwksStale + time.Second)
	wantCode(t, try(), KeysUnavailable)
}

// The examples of the draft are signed with keys of RFC 9421 appendix B.1, which are published
// with their private halves.
func runAgentCases(t *testing.T, text []byte, keys vectorKeys) int {
	t.Helper()
	var f struct {
		Note      string `json:"note"`
		Directory string `json:"directory"` // of E.2.3
		Cases     []struct {
			Name, Key, KeyID string
			Legacy           bool
			Agent            string `json:"signature_agent"`
			Input            string `json:"signature_input"`
			Signature        string `json:"signature"`
		} `json:"agent_cases"`
	}
	decodeStrict(t, text, &f)
	for _, c := range f.Cases {
		t.Run(c.Name, func(t *testing.T) {
			d, err := NewDirectories(DirectoriesConfig{
				URLs: []string{"https://signature-agent.test"}, LegacyAgent: c.Legacy,
				Client: &http.Client{Transport: roundTrip(func(*http.Request) (*http.Response, error) {
					rw := httptest.NewRecorder()
					directoryOf(jwkWith(t, keys[c.Key].Public(), `"use":"sig"`))(rw, nil)
					return rw.Result(), nil
				})},
			})
			if err != nil {
				t.Fatal(err)
			}
			defer d.Close() //nolint:errcheck // always nil
			r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "https://example.com/", nil)
			r.RequestURI = "/"
			for name, value := range map[string]string{
				"Signature-Agent": c.Agent, "Signature-Input": c.Input, "Signature": c.Signature,
			} {
				r.Header.Set(name, value)
			}
			scheme := withoutProfile(&RFC9421{Keys: d, Coverage: Coverage{Required: []string{"@authority"}}})
			_, err = scheme.Verify(r, bodyOf(""))
			wantCode(t, err, KeyUnknown, KeysUnavailable) // as a published test key
			k := keys[c.Key]
			k.ID, k.Principal = c.KeyID, "https://signature-agent.test"
			if id, err := thumbprint(k.Public()); err != nil || id != c.KeyID {
				t.Errorf("the thumbprint is %s, %v, want %s", id, err, c.KeyID)
			}
			d.sets["https://signature-agent.test"].set.keys = newStaticSet([]Key{k})
			id, err := scheme.Verify(r, bodyOf(""))
			if err != nil || id.Principal != k.Principal {
				t.Errorf("%q, %v", id.Principal, err)
			}
		})
	}
	_, found, err := parseDirectory([]byte(f.Directory))
	if err != nil || len(found) != 1 || found[0].ID != f.Cases[len(f.Cases)-1].KeyID || !IsTestKey(found[0]) {
		t.Errorf("the directory of E.2.3: %v, %v", found, err)
	}
	return len(f.Cases)
}

func TestDirectoryListsAreChecked(t *testing.T) {
	t.Parallel()
	for _, text := range []string{
		"", "http://bot.example", "bot.example", "https://", "https:bot.example", "https://user:pw@bot.example",
		"https://bot.example?a", "https://bot.example/?", "https://bot.example/#a", "https://bot.example/%zz",
		"https://b\u00f6t.example", "data:application/json,{}", "//bot.example",
	} {
		_, err := NewDirectories(DirectoriesConfig{URLs: []string{text}})
		if err == nil || strings.Contains(err.Error(), "pw") {
			t.Errorf("%q: %v", text, err)
		}
	}
	if _, err := NewDirectories(DirectoriesConfig{}); err == nil {
		t.Error("an empty list")
	}
	urls := []string{"https://a.example", "https://A.example" + directoryPath, "x"}
	_, err := NewDirectories(DirectoriesConfig{URLs: urls})
	if err == nil || !strings.Contains(err.Error(), "listed twice") || !strings.Contains(err.Error(), "directory 3") {
		t.Errorf("%v, want both errors", err)
	}
}
