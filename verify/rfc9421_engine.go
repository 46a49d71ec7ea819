package verify

import (
	"crypto/hmac"
	"errors"
	"net/http"
	"strings"
	"sync"

	"github.com/lestrrat-go/jwx/v3/jwa"
	"github.com/lestrrat-go/jwx/v3/jws"
	"github.com/yaronf/httpsign"
)

// engine is a second, independent reader of signed requests. It is safe for concurrent use.
type engine interface {
	// agrees returns nil if the engine makes this signature base, without the parameters at its
	// end, of the components in the list of a signature, errDisagrees if not, and errBroken if it
	// cannot handle the request. It may write to r.
	agrees(list string, r *http.Request, base []byte) error
}

var (
	errDisagrees = errors.New("the engine reads another base")
	errBroken    = errors.New("the engine cannot handle the request")
)

// httpsignEngine reads requests with httpsign, which parses the list of components and makes its
// own signature base of the request. In place of an algorithm that signs it, httpsign calls a
// comparison with the base that our check has verified, so each signature costs one verification.
// Senders always sign the same components, so each list is parsed once. Version 0.4 is required:
// later ones do not take algorithms from outside.
type httpsignEngine struct {
	mu    sync.RWMutex
	lists map[string]*sync.Pool // of comparisons
}

// maxLists bounds the lists that are kept. Only signatures that were verified come here.
const maxLists = 256

// newHTTPSignEngine returns an error if httpsign does not take the comparison as an algorithm.
func newHTTPSignEngine() (*httpsignEngine, error) {
	_, err := newComparison(`("@method")`)
	return &httpsignEngine{lists: map[string]*sync.Pool{}}, err
}

func (e *httpsignEngine) agrees(list string, r *http.Request, base []byte) (err error) {
	defer func() {
		if recover() != nil {
			err = errBroken // a panic is not an agreement
		}
	}()
	pool := e.comparisons(list)
	c, ok := pool.Get().(*comparison)
	if !ok {
		if c, err = newComparison(list); err != nil {
			return errDisagrees
		}
	}
	c.base, c.equal = base, false
	_, _, err = httpsign.SignRequest(defaultLabel, *c.signer, r)
	agreed := err == nil && c.equal
	c.base = nil
	pool.Put(c)
	if !agreed {
		return errDisagrees
	}
	return nil
}

// comparisons returns the comparisons of a list that are not in use.
func (e *httpsignEngine) comparisons(list string) *sync.Pool {
	e.mu.RLock()
	pool := e.lists[list]
	e.mu.RUnlock()
	if pool != nil {
		return pool
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if len(e.lists) >= maxLists {
		clear(e.lists)
	}
	pool = &sync.Pool{}
	e.lists[strings.Clone(list)] = pool
	return pool
}

// comparison is the key of a httpsign signer: the base that the engine must make of a request.
type comparison struct {
	signer *httpsign.Signer // with this comparison as its key
	base   []byte
	equal  bool
}

// newComparison lets httpsign parse a list of components.
func newComparison(list string) (*comparison, error) {
	alg, err := registerComparison()
	if err != nil {
		return nil, err
	}
	read, err := httpsign.RequestDetails(defaultLabel, &http.Request{Body: http.NoBody, Header: http.Header{
		"Signature-Input": {defaultLabel + "=" + list + `;keyid=""`}, "Signature": {defaultLabel + "=:AA==:"},
	}})
	if err != nil {
		return nil, err
	}
	c := &comparison{}
	bare := httpsign.NewSignConfig().SignAlg(false).SignCreated(false)
	c.signer, err = httpsign.NewJWSSignerV3(alg, c, bare, read.Fields)
	return c, err
}

// registerComparison registers the comparison under a name of its own, which httpsign looks up.
// No token can be verified by it.
var registerComparison = sync.OnceValues(func() (jwa.SignatureAlgorithm, error) {
	alg := jwa.NewSignatureAlgorithm("eyelet-comparison")
	return alg, jws.RegisterSigner(alg, comparer{alg})
})

// comparer is the comparison as an algorithm of package jws.
type comparer struct{ alg jwa.SignatureAlgorithm }

// Algorithm implements [jws.Signer2].
func (c comparer) Algorithm() jwa.SignatureAlgorithm { return c.alg }

// Sign returns a signature that says nothing if the key is a comparison with this payload.
func (comparer) Sign(key any, payload []byte) ([]byte, error) {
	c, ok := key.(*comparison)
	if !ok || !hmac.Equal(payload, c.base) {
		return nil, errDisagrees
	}
	c.equal = true
	return nil, nil
}
