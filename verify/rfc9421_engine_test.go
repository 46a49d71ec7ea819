package verify

import (
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/rsa"
	"errors"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/lestrrat-go/jwx/v3/jwa"
	"github.com/lestrrat-go/jwx/v3/jws"
	"github.com/yaronf/httpsign"
)

// brokenEngine fails on every request.
type brokenEngine struct{}

func (brokenEngine) agrees(string, *http.Request, []byte, []byte) error { return errBroken }

func TestEngineFailureIsMalformed(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	s.pair.sign(t, s.r, s.body)
	s.scheme = &RFC9421{engine: brokenEngine{}, Keys: StaticKeys(s.pair.key)}
	_, err := s.verify()
	wantCode(t, err, SignatureMalformed)
	e, err := newHTTPSignEngine()
	if err != nil {
		t.Fatal(err)
	}
	panics := &http.Request{Method: http.MethodPost, Header: http.Header{}, Body: io.NopCloser(nil)} // reads nil
	if err := e.agrees("x", panics, nil, nil); !errors.Is(err, errBroken) {
		t.Errorf("got %v", err)
	}
}

// TestEngineComparesBaseAndSignature changes each thing that the engine reads for itself.
func TestEngineComparesBaseAndSignature(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	s.pair.sign(t, s.r, s.body)
	e, err := newHTTPSignEngine()
	if err != nil {
		t.Fatal(err)
	}
	in := mustInput(t, s.r)
	base, signature := mustBase(t, s.r), in.octets(nil)
	agree := func(change func(r *http.Request), base, signature []byte) bool {
		m, err := newMessage(s.r)
		if err != nil {
			t.Fatal(err)
		}
		r := new(coveredRequest).set(&m, in, in.octets(nil))
		covered := r.Header
		r.Header = http.Header{}
		for name, lines := range covered { // the engine accepts names in any case
			r.Header[http.CanonicalHeaderKey(name)] = slices.Clone(lines)
		}
		change(r)
		return e.agrees(in.label, r, base, signature) == nil
	}
	same := func(*http.Request) {}
	if !agree(same, base, signature) {
		t.Fatal("the engine does not agree")
	}
	other := append([]byte("x"), signature[1:]...)
	for name, change := range map[string]func(r *http.Request){
		"another method":          func(r *http.Request) { r.Method = "PUT" },
		"another covered field":   func(r *http.Request) { r.Header["Content-Type"][0] += "x" },
		"an absent covered field": func(r *http.Request) { delete(r.Header, "Content-Type") },
		"another host":            func(r *http.Request) { r.URL.Opaque = "//other" + r.URL.Opaque },
		"another order":           reorder,
		"an absent input":         func(r *http.Request) { delete(r.Header, "Signature-Input") },
		"not a byte sequence":     func(r *http.Request) { r.Header.Set("Signature", "sig1=1") },
	} {
		if agree(change, base, signature) {
			t.Errorf("%s: the engine agrees", name)
		}
	}
	if agree(same, append([]byte{' '}, base...), signature) || agree(same, nil, signature) {
		t.Error("the engine agrees with another base")
	}
	if agree(same, base, other) || agree(same, base, nil) {
		t.Error("the engine agrees with another signature")
	}
	if !agree(same, base, signature) {
		t.Error("the engine does not agree any more")
	}
}

// reorder swaps two covered components.
func reorder(r *http.Request) {
	input := strings.Replace(r.Header.Get("Signature-Input"), `"@method" "@target-uri"`, `"@target-uri" "@method"`, 1)
	r.Header.Set("Signature-Input", input)
}

// TestComparisonIsNotAnAlgorithmOfTokens looks for a token that the registered comparison accepts.
func TestComparisonIsNotAnAlgorithmOfTokens(t *testing.T) {
	t.Parallel()
	alg, err := registerComparison()
	if err != nil {
		t.Fatal(err)
	}
	if _, ok := publicAlgorithm(alg.String()); ok {
		t.Error("tokens may name the comparison")
	}
	if found, ok := jwa.LookupSignatureAlgorithm(alg.String()); !ok || found.IsSymmetric() {
		t.Errorf("registered as %v", found)
	}
	token := []byte("eyJhbGciOiJleWVsZXQtY29tcGFyaXNvbiJ9.e30.") // {"alg":"eyelet-comparison"}
	for _, key := range []any{nil, []byte{}, []byte("secret"), &struct{}{}, newPair(t, "k", Ed25519).key.Public()} {
		if _, err := jws.Verify(token, jws.WithKey(alg, key)); err == nil {
			t.Errorf("%T verifies a token", key)
		}
		if (comparer{}).Verify(key, nil, nil) == nil {
			t.Errorf("%T is a comparison", key)
		}
	}
}

// httpsignVerifier returns httpsign's own verifier for a key, with its own cryptography.
func httpsignVerifier(p testPair) (*httpsign.Verifier, error) {
	none := httpsign.Headers()
	switch k := p.key.Public().(type) {
	case ed25519.PublicKey:
		return httpsign.NewEd25519Verifier(k, engineConfig(), none)
	case *ecdsa.PublicKey:
		if p.key.Alg == ECDSAP384SHA384 {
			return httpsign.NewP384Verifier(*k, engineConfig(), none)
		}
		return httpsign.NewP256Verifier(*k, engineConfig(), none)
	case *rsa.PublicKey:
		if p.key.Alg == RSAv15SHA256 {
			return httpsign.NewRSAVerifier(*k, engineConfig(), none)
		}
		return httpsign.NewRSAPSSVerifier(*k, engineConfig(), none)
	}
	secret := append(p.signer.Secret, make([]byte, 64)...) // zeros do not change a MAC with a short key
	return httpsign.NewHMACSHA256Verifier(secret[:64], engineConfig(), none)
}

// TestHTTPSignVerifiesTheSame lets httpsign verify with its own cryptography what we sign.
func TestHTTPSignVerifiesTheSame(t *testing.T) {
	t.Parallel()
	for _, alg := range []Alg{HMACSHA256, Ed25519, ECDSAP256SHA256, ECDSAP384SHA384, RSAPSSSHA512, RSAv15SHA256} {
		p := newPair(t, "k", alg)
		v, err := httpsignVerifier(p)
		if err != nil {
			t.Fatal(err)
		}
		r := newDelivery(t, testBody)
		p.sign(t, r, testBody)
		m, err := newMessage(r)
		if err != nil {
			t.Fatal(err)
		}
		in := mustInput(t, r)
		if err := httpsign.VerifyRequest(in.label, *v, new(coveredRequest).set(&m, in, in.octets(nil))); err != nil {
			t.Errorf("%s: %v", alg, err)
		}
	}
}
