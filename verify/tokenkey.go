package verify

import (
	"context"
	"errors"
)

// TokenKeySet finds the public keys of an issuer of tokens; [JWKS] is one.
//
// PublicKeys returns the keys with the given kid, at least one; an empty kid asks for all of them. Errors are as
// those of [KeySet]: key_unknown, or keys_unavailable, which is transient.
type TokenKeySet interface {
	PublicKeys(ctx context.Context, kid string) ([]JSONWebKey, error)
}

// ParseTokenKeys reads a JSON Web Key Set (RFC 7517 section 5) that the operator wrote down. Keys that are not
// public keys for signatures are left out; a set without any other is an error.
func ParseTokenKeys(jwks []byte) (TokenKeySet, error) {
	keys, err := parseJWKS(jwks)
	if err != nil {
		return nil, err
	}
	if len(keys) == 0 {
		return nil, errors.New("the JSON Web Key Set holds no public key for signatures")
	}
	return staticTokenKeys(keys), nil
}

type staticTokenKeys []JSONWebKey

// PublicKeys implements [TokenKeySet].
func (s staticTokenKeys) PublicKeys(_ context.Context, kid string) ([]JSONWebKey, error) {
	var found []JSONWebKey
	for _, key := range s {
		if kid == "" || key.ID == kid {
			found = append(found, key)
		}
	}
	if len(found) == 0 {
		return nil, &Error{Code: KeyUnknown, KeyID: shortID(kid)}
	}
	return found, nil
}
