package verify

import (
	"context"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

var testNow = time.Unix(1_700_000_000, 0)

// testPair is a key and the signer that fits it.
type testPair struct {
	key    Key
	signer Signer
}

func newPair(t testing.TB, id string, alg Alg) testPair {
	t.Helper()
	if alg == HMACSHA256 {
		secret := GenerateSecret()
		key, err := NewHMACKey(id, secret)
		if err != nil {
			t.Fatal(err)
		}
		return testPair{key, Signer{KeyID: id, Secret: secret}}
	}
	private, err := GenerateKey(alg)
	if err != nil {
		t.Fatal(err)
	}
	key, err := NewPublicKey(id, alg, private.Public())
	if err != nil {
		t.Fatal(err)
	}
	return testPair{key, Signer{KeyID: id, Alg: alg, Private: private}}
}

const testBody = `{"type":"order.created","n":1}`

// newDelivery returns a request as a receiver sees it, not yet signed.
func newDelivery(t testing.TB, body string) *http.Request {
	t.Helper()
	r, err := http.NewRequestWithContext(context.Background(), http.MethodPost,
		"https://hooks.example/webhooks/shop?a=%7e&b", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	r.RequestURI = r.URL.RequestURI()
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Idempotency-Key", `"k-1"`)
	return r
}

func (p testPair) sign(t testing.TB, r *http.Request, body string) {
	t.Helper()
	if err := p.signer.Sign(r, []byte(body), testNow); err != nil {
		t.Fatal(err)
	}
}

func bodyOf(s string) func() ([]byte, error) {
	return func() ([]byte, error) { return []byte(s), nil }
}

// wantCode fails unless err is a refusal with one of the codes.
func wantCode(t testing.TB, err error, codes ...Code) {
	t.Helper()
	got := CodeOf(err)
	for _, c := range codes {
		if got == c && err != nil {
			return
		}
	}
	t.Errorf("got code %q (%v), want one of %q", got, err, codes)
}

func TestEveryAlgorithmMakesTheRoundTrip(t *testing.T) {
	t.Parallel()
	for _, alg := range []Alg{HMACSHA256, Ed25519, ECDSAP256SHA256, ECDSAP384SHA384, RSAPSSSHA512, RSAv15SHA256} {
		t.Run(string(alg), func(t *testing.T) {
			t.Parallel()
			p := newPair(t, "k", alg)
			p.key.Principal = "shop"
			p.signer.NameAlg, p.signer.Nonce, p.signer.Expires = true, "n-1", time.Minute
			r := newDelivery(t, testBody)
			p.sign(t, r, testBody)
			scheme := &RFC9421{Keys: StaticKeys(p.key)}
			if alg == RSAv15SHA256 {
				_, err := scheme.Verify(r, bodyOf(testBody))
				wantCode(t, err, AlgorithmNotAllowed)
				scheme = &RFC9421{Keys: StaticKeys(p.key), Algs: []Alg{RSAv15SHA256}}
			}
			id, err := scheme.Verify(r, bodyOf(testBody))
			if err != nil {
				t.Fatal(err)
			}
			if len(id.Signed) != 32 {
				t.Errorf("Signed has %d bytes", len(id.Signed))
			}
			id.Signed = nil
			want := Identity{
				KeyID: "k", Principal: "shop", Label: "sig1", Nonce: "n-1",
				SignedAt: testNow, Expires: testNow.Add(time.Minute),
				Covered: []string{"@method", "@target-uri", "content-digest", "content-type", "idempotency-key",
					"@scheme", "@authority", "@path", "@query", "@body"},
			}
			if d := cmp.Diff(want, id); d != "" {
				t.Error(d)
			}
		})
	}
}
