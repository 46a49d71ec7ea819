package preset

import (
	"errors"

	"github.com/eyelet-dev/eyelet/producer"
	"github.com/eyelet-dev/eyelet/verify"
)

// signedByTokens sets a scheme whose keys are those of the settings, or those that the issuer publishes at the
// address.
func signedByTokens(p producer.Producer, s Settings, address string, scheme *verify.JWT) producer.Producer {
	keys, err := tokenKeys(s, address)
	if err != nil {
		p.Err = errors.Join(p.Err, err)
		return p
	}
	scheme.Keys = keys
	return signedBy(p, scheme)
}

// algorithms are those that the setting algs names (RFC 7518), or else the issuer's.
func algorithms(s Settings, issuer string) []string {
	if len(s.Algs) > 0 {
		return s.Algs
	}
	return []string{issuer}
}

// tokenKeys returns the keys of the settings, or those that the issuer publishes at the address.
func tokenKeys(s Settings, address string) (verify.TokenKeySet, error) {
	if s.TokenKeys != nil {
		return s.TokenKeys, nil
	}
	if s.JWKSURL != "" {
		address = s.JWKSURL
	}
	if address == "" {
		return nil, errors.New("set jwks_url: the issuer publishes its keys there")
	}
	keys, err := verify.NewJWKS(verify.JWKSConfig{URL: address})
	if err != nil {
		return nil, err
	}
	return keys, nil
}
