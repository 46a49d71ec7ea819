package verify

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"
)

func TestSignerKeepsOtherSignatures(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	proxy := newPair(t, "proxy", Ed25519)
	proxy.signer.Label = "proxy"
	s.pair.sign(t, s.r, s.body)
	proxy.signer.Components = []string{"@method", "@target-uri", "content-digest", "content-type", "idempotency-key",
		`signature;key="sig1"`, `signature-input;key="sig1"`}
	proxy.sign(t, s.r, s.body)
	for label, keys := range map[string]KeySet{"sig1": StaticKeys(s.pair.key), "proxy": StaticKeys(proxy.key)} {
		id, err := (&RFC9421{Keys: keys}).Verify(s.r, bodyOf(s.body))
		if err != nil || id.Label != label {
			t.Errorf("%s: %+v, %v", label, id, err)
		}
	}
	s.r.Header.Set("Signature", strings.Replace(s.r.Header.Get("Signature"), "sig1=:", "sig1=:AAAA", 1))
	_, err := (&RFC9421{Keys: StaticKeys(proxy.key)}).Verify(s.r, bodyOf(s.body))
	wantCode(t, err, SignatureMismatch)
}

func TestSignerRefusesWhatCannotBeSigned(t *testing.T) {
	t.Parallel()
	p, e := newPair(t, "k", HMACSHA256).signer, newPair(t, "k", Ed25519).signer
	for name, change := range map[string]func(r *http.Request, s *Signer){
		"no key":                      func(_ *http.Request, s *Signer) { s.Secret = nil },
		"two keys":                    func(_ *http.Request, s *Signer) { s.Private = e.Private },
		"another algorithm":           func(_ *http.Request, s *Signer) { s.Alg = Ed25519 },
		"an algorithm of another key": func(_ *http.Request, s *Signer) { *s = e; s.Alg = RSAPSSSHA512 },
		"an invalid name": func(_ *http.Request, s *Signer) {
			*s = e
			s.Alg, s.NameAlg = RSAPSSSHA512, true
		},
		"an invalid label":       func(_ *http.Request, s *Signer) { s.Label = "Sig 1" },
		"an invalid nonce":       func(_ *http.Request, s *Signer) { s.Nonce = "\n" },
		"an invalid component":   func(_ *http.Request, s *Signer) { s.Components = []string{"@status"} },
		"no component":           func(_ *http.Request, s *Signer) { s.Components = []string{} },
		"a field that is absent": func(_ *http.Request, s *Signer) { s.Components = []string{"x-gone"} },
		"an invalid digest":      func(_ *http.Request, s *Signer) { s.Digests = []string{"md5"} },
		"a relative URL":         func(r *http.Request, _ *Signer) { r.URL.Host, r.RequestURI = "", "" },
		"a server without Host":  func(r *http.Request, _ *Signer) { r.URL.Host, r.Host = "", "" },
	} {
		r, s := newDelivery(t, testBody), p
		change(r, &s)
		if err := s.Sign(r, []byte(testBody), testNow); err == nil || r.Header.Get("Signature") != "" {
			t.Errorf("%s: %v, %v", name, err, r.Header)
		}
	}
}

func TestDefaultComponentsMeetTheDefaultProfile(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	s.r.Header.Set("Content-Encoding", "identity")
	s.r.Header.Set("Ce-Type", "t")
	s.r.Header.Set("Ce-Id", "1")
	s.pair.sign(t, s.r, s.body)
	if _, err := s.verify(); err != nil {
		t.Error(err)
	}
}

// TestSignerTakesTheRequestsOfServers verifies over the URL that a receiver would know.
func TestSignerTakesTheRequestsOfServers(t *testing.T) {
	t.Parallel()
	p := newPair(t, "k", Ed25519)
	for target, called := range map[string]string{
		"/webhooks/shop?a=%7e":                      "http://example.com/webhooks/shop?a=%7e",
		"https://hooks.example/webhooks/shop?a=%7e": "https://hooks.example/webhooks/shop?a=%7e",
		"http://hooks.example:8080/":                "http://hooks.example:8080/",
	} {
		r := httptest.NewRequest(http.MethodPost, target, strings.NewReader(testBody))
		r.Header.Set("Content-Type", "application/json")
		p.sign(t, r, testBody)
		if !strings.HasPrefix(r.RequestURI, "/") {
			t.Errorf("%s: the request target is %q", target, r.RequestURI)
		}
		u, err := url.Parse(called)
		if err != nil {
			t.Fatal(err)
		}
		r.URL = u
		if _, err := (&RFC9421{Keys: StaticKeys(p.key)}).Verify(r, bodyOf(testBody)); err != nil {
			t.Errorf("%s: %v", target, err)
		}
		u.Host = "other.example"
		_, err = (&RFC9421{Keys: StaticKeys(p.key)}).Verify(r, bodyOf(testBody))
		wantCode(t, err, SignatureMismatch)
	}
}

// receive returns a server that verifies requests and responds with the code of the refusal.
func receive(t *testing.T, scheme *RFC9421) *httptest.Server {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		r.URL.Scheme, r.URL.Host = "http", r.Host
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		if _, err := scheme.Verify(r, func() ([]byte, error) { return body, nil }); err != nil {
			fmt.Fprint(w, CodeOf(err))
		}
	}))
	t.Cleanup(server.Close)
	return server
}

// TestOverTheWire signs in a client and verifies in a server: net/http in between changes
// nothing.
func TestOverTheWire(t *testing.T) {
	t.Parallel()
	p := newPair(t, "k", ECDSAP256SHA256)
	server := receive(t, &RFC9421{Keys: StaticKeys(p.key)})
	p.signer.Components = []string{"@method", "@authority", "@path",
		"@query", "@scheme", "content-digest", "content-type",
		"content-length", "host", "x-two"}
	for _, target := range []string{"/h", "/h?", "/h?a=%7e",
		"/a%2Fb/%7Euser?x=1;y", "//double", "/a/../b", "/%c3%a4?%7a"} {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost,
			server.URL+target, strings.NewReader(testBody))
		if err != nil {
			t.Fatal(err)
		}
		r.Header["X-Two"] = []string{" a ", "b"}
		r.Header.Set("Content-Type", "text/plain")
		p.sign(t, r, testBody)
		resp, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		code, err := io.ReadAll(resp.Body)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close() //nolint:errcheck // read to its end
		if len(code) != 0 {
			t.Errorf("%s: %s", target, code)
		}
	}
}

// TestSignaturesInTrailersDoNotCount sends the signature after a chunked body.
func TestSignaturesInTrailersDoNotCount(t *testing.T) {
	t.Parallel()
	p := newPair(t, "k", HMACSHA256)
	server := receive(t, &RFC9421{Keys: StaticKeys(p.key)})
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, server.URL+"/h", strings.NewReader(testBody))
	if err != nil {
		t.Fatal(err)
	}
	p.sign(t, r, testBody)
	var wire bytes.Buffer
	fmt.Fprintf(&wire, "POST /h HTTP/1.1\r\nHost: %s\r\nConnection: close\r\nContent-Digest: %s\r\n",
		r.URL.Host, r.Header.Get("Content-Digest"))
	fmt.Fprintf(&wire, "Transfer-Encoding: chunked\r\nTrailer: Signature, Signature-Input\r\n\r\n%x\r\n%s\r\n0\r\n",
		len(testBody), testBody)
	fmt.Fprintf(&wire, "Signature: %s\r\nSignature-Input: %s\r\n\r\n",
		r.Header.Get("Signature"), r.Header.Get("Signature-Input"))
	var dialer net.Dialer
	conn, err := dialer.DialContext(t.Context(), "tcp", r.URL.Host)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close() //nolint:errcheck // read to its end
	if _, err := conn.Write(wire.Bytes()); err != nil {
		t.Fatal(err)
	}
	answer, err := io.ReadAll(conn)
	if err != nil || !strings.HasSuffix(string(answer), string(SignatureMissing)) {
		t.Errorf("%s, %v", answer, err)
	}
}

func Example() {
	secret := []byte("a secret of at least sixteen bytes")
	body := []byte(`{"type":"order.created"}`)
	now := time.Unix(1_700_000_000, 0)

	// The producer signs.
	r, err := http.NewRequestWithContext(context.Background(), http.MethodPost,
		"https://hooks.example/webhooks/shop", bytes.NewReader(body))
	if err != nil {
		panic(err)
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Idempotency-Key", `"8e03978e-40d5-43dd-bc93-6894a57f9324"`)
	if err := (&Signer{KeyID: "k1", Secret: secret}).Sign(r, body, now); err != nil {
		panic(err)
	}

	// The receiver checks who signed it, over which bytes, and when.
	key, err := NewHMACKey("k1", secret)
	if err != nil {
		panic(err)
	}
	scheme := &RFC9421{Keys: StaticKeys(key)}
	id, err := scheme.Verify(r, func() ([]byte, error) { return body, nil })
	if err != nil {
		panic(err)
	}
	fmt.Println(id.KeyID, id.SignedAt.Unix(), id.Covers("idempotency-key"), id.Covers("@body"))
	fmt.Println(Tolerance{}.Check(id, now.Add(time.Minute)))
	fmt.Println(Tolerance{}.Check(id, now.Add(time.Hour)))

	r.Header.Set("Idempotency-Key", `"another"`)
	_, err = scheme.Verify(r, func() ([]byte, error) { return body, nil })
	fmt.Println(CodeOf(err))
	// Output:
	// k1 1700000000 true true
	// <nil>
	// timestamp too old (key "k1"): signed 1 h ago, at most 5 min are allowed
	// signature_mismatch
}
