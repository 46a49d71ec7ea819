package verify

import (
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/rsa"
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/lestrrat-go/jwx/v3/jws"
	"github.com/yaronf/httpsign"
)

// brokenEngine fails on every request.
type brokenEngine struct{}

func (brokenEngine) agrees(string, *http.Request, []byte) error { return errBroken }

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
	panics := newDelivery(t, "")
	panics.Header["x"] = nil // reads the first line
	if err := e.agrees(`("x";bs)`, panics, nil); !errors.Is(err, errBroken) {
		t.Errorf("got %v", err)
	}
}

// TestEngineComparesTheBase changes each thing that the engine reads for itself.
func TestEngineComparesTheBase(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	s.pair.sign(t, s.r, s.body)
	e, err := newHTTPSignEngine()
	if err != nil {
		t.Fatal(err)
	}
	in := mustInput(t, s.r)
	base := in.withoutParams(mustBase(t, s.r))
	agree := func(list string, change func(r *http.Request), base []byte) bool {
		m, err := newMessage(s.r)
		if err != nil {
			t.Fatal(err)
		}
		r := new(coveredRequest).set(&m, in)
		covered := r.Header
		r.Header = http.Header{}
		for name, lines := range covered { // the engine accepts names in any case
			r.Header[http.CanonicalHeaderKey(name)] = slices.Clone(lines)
		}
		change(r)
		return e.agrees(list, r, base) == nil
	}
	same := func(*http.Request) {}
	for range 2 { // the list is known the second time
		if !agree(in.list, same, base) {
			t.Fatal("the engine does not agree")
		}
		for name, change := range map[string]func(r *http.Request){
			"another method":          func(r *http.Request) { r.Method = "PUT" },
			"another covered field":   func(r *http.Request) { r.Header["Content-Type"][0] += "x" },
			"an absent covered field": func(r *http.Request) { delete(r.Header, "Content-Type") },
			"another host":            func(r *http.Request) { r.URL.Opaque = "//other" + r.URL.Opaque },
		} {
			if agree(in.list, change, base) {
				t.Errorf("%s: the engine agrees", name)
			}
		}
		for _, list := range []string{
			strings.Replace(in.list, `"@method" "@target-uri"`, `"@target-uri" "@method"`, 1),
			strings.Replace(in.list, `"@method" `, "", 1), "", "()", `("@method")`, `"@method"`, `(1)`,
		} {
			if agree(list, same, base) {
				t.Errorf("the engine agrees with the list %q", list)
			}
		}
		for _, other := range [][]byte{append([]byte{' '}, base...), append(slices.Clip(base), ';'), nil} {
			if agree(in.list, same, other) {
				t.Errorf("the engine agrees with the base %q", other)
			}
		}
	}
	if !agree(in.list, same, base) {
		t.Error("the engine does not agree any more")
	}
}

// TestTheEngineKeepsFewLists asks about more lists than it keeps.
func TestTheEngineKeepsFewLists(t *testing.T) {
	t.Parallel()
	e, err := newHTTPSignEngine()
	if err != nil {
		t.Fatal(err)
	}
	r := newDelivery(t, "")
	for i := range 2*maxLists + 10 {
		name := fmt.Sprint("x", i%(maxLists+5))
		r.Header = http.Header{name: {"v"}}
		base := fmt.Sprintf("\"%s\": v\n\"@signature-params\": (\"%[1]s\")", name)
		if err := e.agrees(fmt.Sprintf("(%q)", name), r, []byte(base)); err != nil {
			t.Fatalf("list %d: %v", i, err)
		}
		if len(e.lists) > maxLists {
			t.Fatalf("%d lists", len(e.lists))
		}
	}
}

// TestComparisonIsNotAnAlgorithmOfTokens looks for a token that the registered comparison accepts
// or makes.
func TestComparisonIsNotAnAlgorithmOfTokens(t *testing.T) {
	t.Parallel()
	alg, err := registerComparison()
	if err != nil {
		t.Fatal(err)
	}
	if _, ok := publicAlgorithm(alg.String()); ok {
		t.Error("tokens may name the comparison")
	}
	token := []byte("eyJhbGciOiJleWVsZXQtY29tcGFyaXNvbiJ9.e30.") // {"alg":"eyelet-comparison"}
	public := newPair(t, "k", Ed25519).key.Public()
	for _, key := range []any{nil, []byte{}, []byte("secret"), &struct{}{}, public, &comparison{}} {
		if _, err := jws.Verify(token, jws.WithKey(alg, key)); err == nil {
			t.Errorf("%T verifies a token", key)
		}
		if _, err := (comparer{}).Sign(key, []byte("x")); err == nil {
			t.Errorf("%T is a comparison", key)
		}
	}
}

// signedRequest returns what a signature covers, with the signature, for the engine.
func signedRequest(m *message, in *signatureInput) *http.Request {
	r := new(coveredRequest).set(m, in)
	r.Header["signature-input"] = []string{in.input}
	r.Header["signature"] = []string{in.label + "=:" + base64.StdEncoding.EncodeToString(in.octets(nil)) + ":"}
	return r
}

func engineConfig() *httpsign.VerifyConfig {
	return httpsign.NewVerifyConfig().SetVerifyCreated(false).SetRejectExpired(false)
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
		if err := httpsign.VerifyRequest(in.label, *v, signedRequest(&m, in)); err != nil {
			t.Errorf("%s: %v", alg, err)
		}
	}
}
