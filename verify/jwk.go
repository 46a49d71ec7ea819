package verify

import (
	"bytes"
	"cmp"
	"context"
	"crypto"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/lestrrat-go/jwx/v3/jwk"
)

// JSONWebKey is a public key of a JSON Web Key Set (RFC 7517), for verifying tokens; see
// [JWKS.PublicKeys].
type JSONWebKey struct {
	ID     string           // the kid; empty if the key has none
	Alg    string           // such as "RS256" (RFC 7518 section 3.1); empty if the key names none
	Public crypto.PublicKey // an *rsa.PublicKey, *ecdsa.PublicKey or ed25519.PublicKey
}

// joseAlgs maps JOSE algorithms (RFC 7518 section 3.1, RFC 8037, RFC 9864) to those of HTTP
// signatures. Keys of other algorithms do not sign HTTP messages.
var joseAlgs = map[string]Alg{
	"ES256":   ECDSAP256SHA256,
	"ES384":   ECDSAP384SHA384,
	"EdDSA":   Ed25519,
	"Ed25519": Ed25519,
	"PS512":   RSAPSSSHA512,
	"RS256":   RSAv15SHA256,
}

// signatureKey makes the key for HTTP signatures, or reports that it is not for them. A key
// without a kid is found only if all keys are requested.
func (k JSONWebKey) signatureKey() (Key, bool) {
	alg, known := joseAlgs[k.Alg]
	if !known && k.Alg != "" {
		return Key{}, false
	}
	key, err := newPublicKey(k.ID, alg, k.Public)
	return key, err == nil
}

// keysIn returns the keys in the first of some members that a JSON object has, such as "keys" of a
// JSON Web Key Set (RFC 7517 section 5); nil if it has none.
func keysIn(text []byte, members ...string) (list []json.RawMessage) {
	var object map[string]json.RawMessage
	if json.Unmarshal(text, &object) != nil {
		return nil
	}
	for _, name := range members {
		if keys, ok := object[name]; ok {
			_ = json.Unmarshal(keys, &list) // anything but a list is nil
			return list
		}
	}
	return nil
}

// parseJWKS reads a JSON Web Key Set: its public keys, and as keys for HTTP signatures those that
// have the purposes of [JWKSConfig]. It skips what is no public key for signatures, which may be
// meant for other uses. It never returns a symmetric key.
func parseJWKS(text []byte, purposes map[string][]string) (public []JSONWebKey, keys []Key, err error) {
	list := keysIn(text, "keys")
	if list == nil {
		return nil, nil, errors.New("not a JSON Web Key Set")
	}
	for _, one := range list {
		p, err := parseJWK(one)
		if err != nil {
			continue
		}
		public = append(public, p)
		if k, ok := p.signatureKey(); ok && hasPurposes(one, purposes) {
			keys = append(keys, k)
		}
	}
	return public, keys, nil
}

func hasPurposes(key []byte, purposes map[string][]string) bool {
	var members map[string]json.RawMessage
	if json.Unmarshal(key, &members) != nil {
		return false
	}
	for name, accepted := range purposes {
		var one string
		var list []string
		if json.Unmarshal(members[name], &one) == nil {
			list = []string{one}
		} else if json.Unmarshal(members[name], &list) != nil {
			return false
		}
		if !slices.ContainsFunc(list, func(v string) bool { return slices.Contains(accepted, v) }) {
			return false
		}
	}
	return true
}

// parseJWK returns the public key of a JSON Web Key that may verify signatures. Its errors contain
// no key material.
func parseJWK(text []byte) (JSONWebKey, error) {
	raw, err := jwk.ParseKey(bytes.TrimSpace(text))
	if err != nil {
		return JSONWebKey{}, errors.New("the JSON Web Key cannot be parsed")
	}
	if use, ok := raw.KeyUsage(); ok && use != "" && use != "sig" {
		return JSONWebKey{}, errors.New("the key is not for signatures")
	}
	if ops, ok := raw.KeyOps(); ok && !slices.Contains(ops, jwk.KeyOpVerify) {
		return JSONWebKey{}, errors.New("the key is not for verifying")
	}
	// Of a private key that was published by accident the public half is used.
	public, err := jwk.PublicRawKeyOf(raw)
	if err != nil {
		return JSONWebKey{}, errors.New("the key is incomplete or of an unknown kind")
	}
	if err := checkTokenKey(public); err != nil { // as for a []byte, which is a symmetric key
		return JSONWebKey{}, err
	}
	k := JSONWebKey{Public: public}
	k.ID, _ = raw.KeyID()
	if alg, ok := raw.Algorithm(); ok {
		k.Alg = alg.String()
	}
	return k, nil
}

// parseJWKText reads a configured JSON Web Key or set of them. Unlike in a fetched set, every
// key must be valid.
func parseJWKText(id string, alg Alg, text []byte) ([]Key, error) {
	if !json.Valid(text) {
		return nil, fmt.Errorf("key %q: the text is not JSON", id)
	}
	list := keysIn(text, "keys")
	if list == nil {
		list = []json.RawMessage{text}
	}
	if len(list) == 0 {
		return nil, fmt.Errorf("key %q: the JSON Web Key Set is empty", id)
	}
	var keys []Key
	for _, one := range list {
		k, err := parseOneJWK(id, alg, one)
		if err != nil {
			return nil, fmt.Errorf("key %q: %w", id, err)
		}
		keys = append(keys, k)
	}
	return keys, nil
}

func parseOneJWK(id string, alg Alg, text []byte) (Key, error) {
	var private struct {
		D *json.RawMessage `json:"d"`
		K *json.RawMessage `json:"k"`
	}
	if err := json.Unmarshal(text, &private); err == nil && (private.D != nil || private.K != nil) {
		return Key{}, errors.New("this is a private or symmetric key: a receiver needs only the public one")
	}
	k, err := parseJWK(text)
	if err != nil {
		return Key{}, err
	}
	named, known := joseAlgs[k.Alg]
	switch {
	case k.Alg != "" && !known:
		return Key{}, fmt.Errorf("keys for %s do not sign HTTP messages", k.Alg)
	case alg == "" && named == RSAv15SHA256:
		return Key{}, errors.New("the key is for RS256: name rsa-v1_5-sha256 as its algorithm to use it")
	case alg == "":
		alg = named
	case named != "" && alg != named:
		return Key{}, fmt.Errorf("the key is for %s, not for %s", k.Alg, alg)
	}
	return NewPublicKey(cmp.Or(id, k.ID), alg, k.Public)
}

// TokenKeySet finds the public keys of an issuer of tokens; [JWKS] is one.
//
// PublicKeys returns the keys with the given kid, at least one; an empty kid returns all.
// Errors are those of [KeySet]: key_unknown, or keys_unavailable, which is transient.
type TokenKeySet interface {
	PublicKeys(ctx context.Context, kid string) ([]JSONWebKey, error)
}

// ParseTokenKeys reads a configured JSON Web Key Set (RFC 7517 section 5). It skips keys other
// than public signature keys; a set without any is an error.
func ParseTokenKeys(jwks []byte) (TokenKeySet, error) {
	keys, _, err := parseJWKS(jwks, nil)
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
