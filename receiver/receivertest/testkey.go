package receivertest

import (
	"crypto/rand"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/eyelet-dev/eyelet/producer"
	"github.com/eyelet-dev/eyelet/verify"
)

// testKeyID is the id of the key that signs for producers with RFC 9421.
const testKeyID = "receivertest"

// withTestKey adds a key to a producer whose scheme is RFC 9421: opened verifies it, signing signs
// with it. Other producers are returned as they are.
func withTestKey(p producer.Producer) (opened, signing producer.Producer, err error) {
	opened, signing = p, p
	scheme, ok := p.Scheme.(*verify.RFC9421)
	if !ok || scheme.Keys == nil {
		return opened, signing, nil
	}
	signer, key, err := newTestKey(scheme.Algs)
	if err != nil {
		return opened, signing, err
	}
	both := scheme.WithCoverage(scheme.Coverage)
	both.Keys = verify.JoinKeys(scheme.Keys, verify.StaticKeys(key))
	signer.Like, opened.Scheme = both, both
	signing.Scheme = testSigner{both, signer, p.Nonce != producer.NonceOff}
	return opened, signing, nil
}

// newTestKey returns a key for the first accepted algorithm.
func newTestKey(algs []verify.Alg) (verify.Signer, verify.Key, error) {
	signer := verify.Signer{KeyID: testKeyID}
	if len(algs) == 0 || algs[0] == verify.HMACSHA256 {
		signer.Secret = verify.GenerateSecret()
		key, err := verify.NewHMACKey(testKeyID, signer.Secret)
		return signer, key, err
	}
	private, err := verify.GenerateKey(algs[0])
	if err != nil {
		return signer, verify.Key{}, err
	}
	signer.Alg, signer.Private = algs[0], private
	key, err := verify.NewPublicKey(testKeyID, algs[0], private.Public())
	return signer, key, err
}

// testSigner is a scheme that also signs, and covers all that a receiver may require.
type testSigner struct {
	verify.Scheme
	signer verify.Signer
	nonce  bool
}

// Sign signs r with the key of the test.
func (s testSigner) Sign(r *http.Request, body []byte, now time.Time) error {
	signer := s.signer
	signer.Components = []string{"@method", "@target-uri"}
	if len(body) > 0 {
		signer.Components = append(signer.Components, "content-digest")
	}
	for name := range r.Header {
		signer.Components = append(signer.Components, strings.ToLower(name))
	}
	signer.Components = append(signer.Components, signer.Like.Coverage.Required...)
	slices.Sort(signer.Components)
	signer.Components = slices.Compact(signer.Components)
	if s.nonce {
		signer.Nonce = rand.Text()
	}
	return signer.Sign(r, body, now)
}
