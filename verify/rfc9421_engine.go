package verify

import (
	"crypto/hmac"
	"errors"
	"net/http"
	"sync"

	"github.com/lestrrat-go/jwx/v3/jwa"
	"github.com/lestrrat-go/jwx/v3/jws"
	"github.com/yaronf/httpsign"
)

// engine is a second, independent reader of signed requests. It is safe for concurrent use.
type engine interface {
	// agrees returns nil if the engine reads this base and these octets from the signature with
	// this label, errDisagrees if not, and errBroken if it cannot handle the request. It may
	// write to r.
	agrees(label string, r *http.Request, base, signature []byte) error
}

var (
	errDisagrees = errors.New("the engine reads another base or signature")
	errBroken    = errors.New("the engine cannot handle the request")
)

// httpsignEngine reads requests with httpsign, which parses the signature fields and makes its
// own signature base. In place of an algorithm, httpsign calls a comparison with the base that
// our check has verified, so each signature costs one verification. Its clock is off, and it
// requires no components, because policy is ours. Version 0.4 is required: later ones do not
// take algorithms from outside.
type httpsignEngine struct{ comparisons sync.Pool }

// newHTTPSignEngine returns an error if httpsign does not take the comparison as an algorithm.
func newHTTPSignEngine() (*httpsignEngine, error) {
	first, err := newComparison()
	if err != nil {
		return nil, err
	}
	e := &httpsignEngine{}
	e.comparisons.Put(first)
	return e, nil
}

func (e *httpsignEngine) agrees(label string, r *http.Request, base, signature []byte) (err error) {
	defer func() {
		if recover() != nil {
			err = errBroken // a panic is not an agreement
		}
	}()
	c, ok := e.comparisons.Get().(*comparison)
	if !ok {
		if c, err = newComparison(); err != nil {
			return errBroken
		}
	}
	c.base, c.signature, c.equal = base, signature, false
	err = httpsign.VerifyRequest(label, *c.verifier, r)
	agreed := err == nil && c.equal
	c.base, c.signature = nil, nil
	e.comparisons.Put(c)
	if !agreed {
		return errDisagrees
	}
	return nil
}

// comparison is the key of a httpsign verifier: what the engine must read from one signature.
type comparison struct {
	verifier        *httpsign.Verifier // with this comparison as its key
	base, signature []byte
	equal           bool
}

func newComparison() (*comparison, error) {
	alg, err := registerComparison()
	if err != nil {
		return nil, err
	}
	c := &comparison{}
	c.verifier, err = httpsign.NewJWSVerifierV3(alg, c, engineConfig(), httpsign.Headers())
	return c, err
}

func engineConfig() *httpsign.VerifyConfig {
	return httpsign.NewVerifyConfig().SetVerifyCreated(false).SetRejectExpired(false)
}

// registerComparison registers the comparison under a name of its own, which httpsign looks up.
// As an algorithm of tokens it accepts nothing, because no key of a token is a comparison.
var registerComparison = sync.OnceValues(func() (jwa.SignatureAlgorithm, error) {
	alg := jwa.NewSignatureAlgorithm("eyelet-comparison")
	return alg, jws.RegisterVerifier(alg, comparer{})
})

// comparer is the comparison as an algorithm of package jws.
type comparer struct{}

// Verify returns nil if the key is a comparison with this payload and signature.
func (comparer) Verify(key any, payload, signature []byte) error {
	c, ok := key.(*comparison)
	if !ok || !hmac.Equal(payload, c.base) || !hmac.Equal(signature, c.signature) {
		return errDisagrees
	}
	c.equal = true
	return nil
}
