package verify

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/rsa"
	"errors"
	"net/http"

	"github.com/yaronf/httpsign"
)

// engine verifies one signature of a request whose signature fields were parsed. It is built
// once per key and is safe for concurrent use.
type engine interface {
	// verify returns nil if the key made the signature with this label, errNotVerified if not,
	// and errBroken if it cannot handle the request. It may write to r.
	verify(label string, r *http.Request) error
}

var (
	errNotVerified = errors.New("the key did not make this signature over these bytes")
	errBroken      = errors.New("the engine cannot handle the request")
)

// httpsignEngine verifies with httpsign. Only whether it returns nil counts; its clock is off,
// and it requires no components, because policy is ours.
type httpsignEngine struct{ verifier *httpsign.Verifier }

func (e httpsignEngine) verify(label string, r *http.Request) (err error) {
	defer func() {
		if recover() != nil {
			err = errBroken // a panic does not verify a signature
		}
	}()
	if httpsign.VerifyRequest(label, *e.verifier, r) != nil {
		return errNotVerified
	}
	return nil
}

func engineConfig() *httpsign.VerifyConfig {
	return httpsign.NewVerifyConfig().SetVerifyCreated(false).SetRejectExpired(false)
}

func newHMACEngine(secret []byte) (engine, error) {
	v, err := httpsign.NewHMACSHA256Verifier(secret, engineConfig(), httpsign.Headers())
	if err != nil {
		return nil, err
	}
	return httpsignEngine{v}, nil
}

// newPublicEngine makes an engine for a key and an algorithm that fits it; see algsOf.
func newPublicEngine(alg Alg, public crypto.PublicKey) (engine, error) {
	var v *httpsign.Verifier
	var err error
	switch k := public.(type) {
	case ed25519.PublicKey:
		v, err = httpsign.NewEd25519Verifier(k, engineConfig(), httpsign.Headers())
	case *ecdsa.PublicKey:
		verifier := httpsign.NewP256Verifier
		if alg == ECDSAP384SHA384 {
			verifier = httpsign.NewP384Verifier
		}
		v, err = verifier(*k, engineConfig(), httpsign.Headers())
	case *rsa.PublicKey:
		verifier := httpsign.NewRSAPSSVerifier
		if alg == RSAv15SHA256 {
			verifier = httpsign.NewRSAVerifier
		}
		v, err = verifier(*k, engineConfig(), httpsign.Headers())
	}
	if err != nil {
		return nil, err
	}
	return httpsignEngine{v}, nil
}
