package receiver

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/eyelet-dev/eyelet/producer"
	"github.com/eyelet-dev/eyelet/verify"
)

// agent is a producer that publishes its key in a directory.
type agent struct {
	origin, jwk string
	signer      verify.Signer
}

func newAgent(t *testing.T, origin string) agent {
	t.Helper()
	public, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	jwk := fmt.Sprintf(`{"crv":"Ed25519","kty":"OKP","x":%q}`, base64.RawURLEncoding.EncodeToString(public))
	thumbprint := sha256.Sum256([]byte(jwk)) // the members in the order of RFC 7638
	return agent{origin, jwk, verify.Signer{
		KeyID: base64.RawURLEncoding.EncodeToString(thumbprint[:]), Private: private, Tag: "web-bot-auth",
		Components: []string{
			"@method", "@target-uri", "content-digest", "content-type", "idempotency-key", `signature-agent;key="sig1"`,
		},
	}}
}

// deliver sends an event that the agent signed under the name of an agent.
func (a agent) deliver(s *site, name, body string) got {
	s.t.Helper()
	r, err := http.NewRequestWithContext(s.t.Context(), http.MethodPost, "https://hooks.example/webhooks/bots",
		strings.NewReader(body))
	if err != nil {
		s.t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Idempotency-Key", `"k1"`)
	r.Header.Set("Signature-Agent", fmt.Sprintf(`sig1=%q`, name))
	if err := a.signer.Sign(r, []byte(body), time.Now()); err != nil {
		s.t.Fatal(err)
	}
	return s.sendRequest(r)
}

// publish serves the directories of the agents over TLS, and returns a client that finds every
// host there, and the number of fetches.
func publish(t *testing.T, agents ...agent) (*http.Client, *atomic.Int32) {
	t.Helper()
	var fetches atomic.Int32
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fetches.Add(1)
		for _, a := range agents {
			if "https://"+r.Host == a.origin && r.URL.Path == "/.well-known/http-message-signatures-directory" {
				w.Header().Set("Content-Type", "application/http-message-signatures-directory+json")
				_, _ = fmt.Fprintf(w, `{"keys":[%s]}`, a.jwk)
				return
			}
		}
		http.NotFound(w, r)
	}))
	t.Cleanup(server.Close)
	roots := x509.NewCertPool()
	roots.AddCert(server.Certificate())
	dial := func(ctx context.Context, network, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, network, server.Listener.Addr().String())
	}
	return &http.Client{Transport: &http.Transport{DialContext: dial, DisableKeepAlives: true,
		TLSClientConfig: &tls.Config{RootCAs: roots, ServerName: "example.com"}}}, &fetches
}

func TestAgentsAreKnownByTheirDirectories(t *testing.T) {
	t.Parallel()
	a, b := newAgent(t, "https://a.example"), newAgent(t, "https://b.example")
	web, fetches := publish(t, a, b)
	keys, err := verify.NewDirectories(verify.DirectoriesConfig{
		URLs: []string{a.origin, b.origin, "https://down.example"}, Client: web,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = keys.Close() })
	s := serve(t, producer.Signed("bots", keys), nil,
		On("bots", "*", func(context.Context, Event[[]byte]) error { return nil }))

	// One identifier of two agents is two events.
	principals := map[string]bool{}
	for _, one := range []agent{a, b} {
		if g := one.deliver(s, one.origin, `{"n":1}`); g.status != 202 || g.replayed() {
			t.Errorf("%s: %+v", one.origin, g)
		}
	}
	for _, rec := range s.records() {
		principals[rec.Key.Principal] = true
	}
	if len(principals) != 2 || !principals[a.origin] || !principals[b.origin] {
		t.Errorf("the principals are %v", principals)
	}
	// A delivery that names the same directory by its whole URL is a duplicate.
	whole := a.origin + "/.well-known/http-message-signatures-directory"
	if g := a.deliver(s, whole, `{"n":1}`); g.status != 202 || !g.replayed() {
		t.Errorf("by its whole URL: %+v", g)
	}
	before := fetches.Load()
	wantProblem(t, a.deliver(s, "https://evil.example", `{"n":1}`), 401, "signature_invalid")
	unsigned := s.send(req{path: "/webhooks/bots", body: `{"n":1}`})
	wantProblem(t, unsigned, 401, "signature_missing")
	const accepts = `"signature-agent";key="sig1");created;tag="web-bot-auth"`
	if g := unsigned.header.Get("Accept-Signature"); !strings.HasSuffix(g, accepts) {
		t.Errorf("Accept-Signature %q", g)
	}
	if n := fetches.Load(); n != before {
		t.Errorf("%d fetches for an unlisted agent and an unsigned delivery", n-before)
	}
	down := a.deliver(s, "https://down.example", `{"n":1}`)
	wantProblem(t, down, 503, "keys_unavailable")
	if down.header.Get("Retry-After") == "" {
		t.Error("no Retry-After")
	}
	if log := s.log.String(); !strings.Contains(log, "status 404") || !strings.Contains(log, "evil.example") {
		t.Errorf("the log says neither why nor who:\n%s", log)
	}
}
