package verify

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/rsa"
	"fmt"
	"net/http"

	"github.com/yaronf/httpsign"
)

// engine verifies one signature over a request that has passed the gate. It is built once for each key and may
// be used concurrently.
type engine interface {
	// verify reports whether the signature with this label is the key's. It may write to r.
	verify(label string, r *http.Request) bool
}

// httpsignEngine leaves the signature base and the cryptography to httpsign. Of its answer only nil or not nil
// is used, its own clock is off, and it demands no components: policy is ours.
type httpsignEngine struct{ verifier *httpsign.Verifier }

func (e httpsignEngine) verify(label string, r *http.Request) (ok bool) {
	defer func() {
		if recover() != nil {
			ok = false // whatever it did not expect is not a good signature
		}
	}()
	return httpsign.VerifyRequest(label, *e.verifier, r) == nil
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

func newPublicEngine(alg Alg, public crypto.PublicKey) (engine, error) {
	var v *httpsign.Verifier
	err := fmt.Errorf("algorithm %q does not fit a key of type %T", alg, public)
	switch k := public.(type) {
	case ed25519.PublicKey:
		if alg == Ed25519 {
			v, err = httpsign.NewEd25519Verifier(k, engineConfig(), httpsign.Headers())
		}
	case *ecdsa.PublicKey:
		switch alg {
		case ECDSAP256SHA256:
			v, err = httpsign.NewP256Verifier(*k, engineConfig(), httpsign.Headers())
		case ECDSAP384SHA384:
			v, err = httpsign.NewP384Verifier(*k, engineConfig(), httpsign.Headers())
		}
	case *rsa.PublicKey:
		switch alg {
		case RSAPSSSHA512:
			v, err = httpsign.NewRSAPSSVerifier(*k, engineConfig(), httpsign.Headers())
		case RSAv15SHA256:
			v, err = httpsign.NewRSAVerifier(*k, engineConfig(), httpsign.Headers())
		}
	}
	if err != nil {
		return nil, err
	}
	return httpsignEngine{v}, nil
}

// escapeQueryParam encodes the value of a query parameter as the engine does.
func escapeQueryParam(s string) string { return httpsign.QueryEscapeForSignature(s) }
