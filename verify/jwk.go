package verify

import (
	"crypto"
	"errors"

	"github.com/lestrrat-go/jwx/v3/jwk"
)

// JSONWebKey is a public key of a JSON Web Key Set (RFC 7517), for the verifiers of tokens.
type JSONWebKey struct {
	// ID is the kid; empty when the key has none.
	ID string
	// Alg is the JOSE algorithm that the key is bound to; empty when the key names none.
	Alg string
	// Public is an *rsa.PublicKey, *ecdsa.PublicKey or ed25519.PublicKey.
	Public crypto.PublicKey
}

func parseJWKS(text []byte) ([]JSONWebKey, error) {
	set, err := jwk.Parse(text, jwk.WithIgnoreParseError(true))
	if err != nil {
		return nil, errors.New("this is no JSON Web Key Set")
	}
	var keys []JSONWebKey
	for i := range set.Len() {
		raw, _ := set.Key(i)
		public, err := jwk.PublicRawKeyOf(raw)
		if err != nil {
			continue
		}
		if _, shared := public.([]byte); shared {
			continue
		}
		k := JSONWebKey{Public: public}
		k.ID, _ = raw.KeyID()
		if alg, ok := raw.Algorithm(); ok {
			k.Alg = alg.String()
		}
		keys = append(keys, k)
	}
	return keys, nil
}
