package config

import (
	"context"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/x509"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"net/http"
	"net/netip"
	"slices"
	"strings"

	"github.com/eyelet-dev/eyelet/producer"
	"github.com/eyelet-dev/eyelet/verify"
)

// publicKeySettings describe signatures with a public key, in the terms of verify.HMAC. The scheme
// is ed25519 or ecdsa.
type publicKeySettings struct {
	contentSettings `conf:",without hash secret secret_encoding keys"`
	Texts           []string `conf:"public_key,file"` // PEM, hexadecimal or base64
}

func (c *publicKeySettings) build(_ context.Context, b *producerBuilder, p *Producer) producer.Producer {
	scheme := c.describe(b, p)
	placeholder := "{" + p.Scheme + "}"
	scheme.Entries = []string{placeholder}
	for i, pattern := range c.Entries {
		if i == 0 {
			scheme.Entries = nil
		}
		scheme.Entries = append(scheme.Entries, strings.ReplaceAll(pattern, "{sig}", placeholder))
	}
	found := len(b.errs)
	for _, text := range c.Texts {
		b.addPublicKey(p, scheme, text)
	}
	if len(c.Texts) == 0 {
		b.errs.Add(p.at, "add public_key: the text that the vendor shows, or public_key_file",
			"producer %q has no public key", p.Name)
	}
	if len(b.errs) > found {
		return producer.Producer{}
	}
	return c.finish(b, p, scheme)
}

// addPublicKey adds a key of the scheme that the producer has.
func (b *producerBuilder) addPublicKey(p *Producer, scheme *verify.HMAC, text string) {
	key, err := parsePublicKey(text)
	if err != nil {
		b.errs.Add(p.at, "write PEM (PUBLIC KEY), or hexadecimal or base64 of 32 bytes or of the DER",
			"producer %q: public key: %v", p.Name, err)
		return
	}
	if named, err := verify.NewPublicKey("public_key", "", key); err == nil && !b.testKeys &&
		(verify.IsTestKey(named) || slices.Contains(bundledKeys(), named.Fingerprint())) {
		b.errs.Add(p.at, "make one of your own: eyelet keygen",
			"producer %q uses a key that is published for tests: anyone can sign with it", p.Name)
	}
	switch key := key.(type) {
	case ed25519.PublicKey:
		if p.Scheme == "ed25519" {
			scheme.PublicKeys = append(scheme.PublicKeys, key)
			return
		}
	case *ecdsa.PublicKey:
		if p.Scheme == "ecdsa" {
			scheme.ECDSAKeys = append(scheme.ECDSAKeys, key)
			return
		}
	}
	b.errs.Add(p.at, "write scheme: ed25519, or ecdsa with a key of P-256",
		"producer %q: public key: not for scheme %s", p.Name, p.Scheme)
}

// parsePublicKey reads a key as vendors show it: PEM, or the hexadecimal or base64 of the 32 bytes
// of an Ed25519 key or of a SubjectPublicKeyInfo (RFC 5280 section 4.1).
func parsePublicKey(text string) (any, error) {
	if strings.Contains(text, "-----BEGIN") {
		key, err := verify.ParsePublicKey("public_key", "", []byte(text))
		if err != nil {
			return nil, err
		}
		return key.Public(), nil
	}
	raw, err := hex.DecodeString(text)
	if err != nil {
		raw, err = base64.StdEncoding.DecodeString(text)
	}
	switch {
	case err != nil:
		return nil, errors.New("neither PEM, hexadecimal nor base64")
	case len(raw) == ed25519.PublicKeySize:
		return ed25519.PublicKey(raw), nil
	}
	key, err := x509.ParsePKIXPublicKey(raw)
	if err != nil {
		return nil, errors.New("neither an Ed25519 key nor a SubjectPublicKeyInfo")
	}
	return key, nil
}

// defaultTokenAlgs are the accepted algorithms of tokens, each with a public key.
var defaultTokenAlgs = []string{"RS256", "PS256", "ES256", "EdDSA"}

// jwtSettings are those of callers with a signed token (RFC 7519).
type jwtSettings struct {
	verify.JWT
	Required map[string]string `conf:"claims"`
	JWKSURL  string            `conf:"jwks_url"`
	JWKS     string            `conf:"jwks,file"` // the JSON Web Key Set itself
}

func (c *jwtSettings) build(ctx context.Context, b *producerBuilder, p *Producer) producer.Producer {
	scheme := c.JWT
	scheme.Keys = c.keys(ctx, b, p)
	if len(c.Algorithms) == 0 {
		scheme.Algorithms = defaultTokenAlgs
	}
	for name, value := range c.Required {
		scheme.Claims = append(scheme.Claims, verify.ClaimRule{Names: []string{name}, Values: []string{value}})
	}
	if scheme.Keys == nil {
		return producer.Producer{}
	}
	if len(c.Issuers) == 0 && c.BodyClaim == "" {
		b.errs.Add(p.at, "add issuers: [https://login.example]", "producer %q names no issuer of its tokens", p.Name)
	}
	made := b.api(p, &scheme)
	if c.BodyClaim != "" {
		made.Contract, made.StaleKnown, made.KeyRequired = producer.Webhook, true, false
		made.Key, made.Type = producer.BodyDigest(), nil
	}
	if c.Body {
		made.Key, made.Type = producer.JWT("jti"), nil
		made.Payload = func(d *producer.Delivery) ([]byte, error) { return d.Identity.Claims, nil }
	}
	return made
}

// keys returns the keys of the issuer, or nil after reporting errors.
func (c *jwtSettings) keys(ctx context.Context, b *producerBuilder, p *Producer) verify.TokenKeySet {
	switch {
	case (c.JWKSURL == "") == (c.JWKS == ""):
		if p.Node.Member("jwks_file") == nil { // else reported already
			b.errs.Add(p.at, "add jwks_url: https://login.example/keys, or jwks_file: keys.json",
				"producer %q needs either a jwks_url or a key set", p.Name)
		}
		return nil
	case c.JWKSURL != "":
		set, err := b.jwks(c.JWKSURL)
		if err != nil {
			b.errs.Add(p.Node.Place("jwks_url"), "", "%v", err)
			return nil
		}
		return set
	}
	set, err := verify.ParseTokenKeys([]byte(c.JWKS))
	if err != nil {
		b.errs.Add(p.Node.Place("jwks"), "it is a JSON Web Key Set (RFC 7517 section 5)", "jwks: %v", err)
		return nil
	}
	b.refusePublishedTokenKeys(ctx, p, set)
	return set
}

// refusePublishedTokenKeys refuses the keys of the test data.
func (b *producerBuilder) refusePublishedTokenKeys(ctx context.Context, p *Producer, set verify.TokenKeySet) {
	keys, err := set.PublicKeys(ctx, "")
	if err != nil || b.testKeys {
		return
	}
	for i := range keys {
		named, err := verify.NewPublicKey("jwks", "", keys[i].Public)
		if err == nil && (verify.IsTestKey(named) || slices.Contains(bundledKeys(), named.Fingerprint())) {
			b.errs.Add(p.at, "use the keys of your own issuer",
				"producer %q has a key that is published for tests: anyone can sign with it", p.Name)
		}
	}
}

// fromProxy reports whether one of the proxies sent a request.
func fromProxy(proxies []netip.Prefix) func(*http.Request) bool {
	return func(r *http.Request) bool {
		at, err := netip.ParseAddrPort(r.RemoteAddr)
		return err == nil && slices.ContainsFunc(proxies, func(p netip.Prefix) bool {
			return p.Contains(at.Addr().Unmap())
		})
	}
}
