package preset

import (
	"cmp"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/x509"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"slices"
	"strings"

	"github.com/eyelet-dev/eyelet/internal/strictjson"
	"github.com/eyelet-dev/eyelet/producer"
	"github.com/eyelet-dev/eyelet/verify"
)

// signedBy sets the scheme and reports its mistakes.
func signedBy(p *producer.Producer, scheme interface {
	verify.Scheme
	Check() error
}) {
	p.Scheme = scheme
	p.Err = errors.Join(p.Err, scheme.Check())
}

// signedByHMAC sets a scheme whose secrets are used as text.
func signedByHMAC(p *producer.Producer, scheme *verify.HMAC, secrets []string) {
	p.Err = errors.Join(p.Err, checkText(secrets))
	scheme.Secrets = verify.Secrets(secrets...)
	signedBy(p, scheme)
}

// signedLike sets a scheme with the secrets of the settings, which are keys by their ids where a
// signature names one, and public keys where it is of one. {url} in its content is the
// notification URL as it was registered, or else the public URL of the endpoint. The setting algs
// replaces the hashes; a field such as X-Hub-Signature then counts beside X-Hub-Signature-256.
func signedLike(p *producer.Producer, s Settings, like *verify.HMAC, prefix string) {
	scheme := like.WithSecrets(verify.Secrets(s.Secrets...))
	scheme.Encoding = cmp.Or(verify.Encoding(s.Encoding), scheme.Encoding)
	if scheme.Hashes = hashes(s.Algs, scheme.Hashes...); len(s.Algs) > 0 && !slices.Equal(scheme.Hashes, like.Hashes) {
		scheme.Headers = slices.Concat(scheme.Headers, []string{strings.TrimSuffix(scheme.Headers[0], "-256")})
	}
	if publicKeyIn(scheme) != "" {
		if scheme.Secrets = nil; withPublicKeys(p, scheme, s.Secrets) {
			signedBy(p, scheme)
		}
		return
	}
	if slices.ContainsFunc(scheme.Entries, func(entry string) bool { return strings.Contains(entry, "{kid}") }) {
		scheme.Secrets, scheme.Keys = nil, make(map[string]verify.Secret, len(s.Keys))
		for id, key := range s.Keys {
			scheme.Keys[id] = verify.Secret(key)
		}
	}
	switch {
	case !strings.Contains(scheme.Content, "{url}"):
	case s.SignedURL == "":
		scheme.Malleable, p.SignsURL = true, true
	default:
		scheme.Content = strings.Replace(scheme.Content, "{url}", "{config:signed_url}", 1)
		scheme.Config = map[string]string{"signed_url": s.SignedURL}
	}
	if scheme.SecretEncoding == "" && prefix == "" {
		p.Err = checkText(s.Secrets)
	}
	signedBy(p, scheme)
}

// publicKeyIn returns the placeholder of a signature by a private key, or "".
func publicKeyIn(scheme *verify.HMAC) string {
	i := slices.Index([]string{"{ed25519}", "{ecdsa}"}, strings.Join(scheme.Entries, " "))
	if i < 0 {
		return ""
	}
	return scheme.Entries[0]
}

// withPublicKeys reads public keys: 32 bytes in hex for Ed25519, and for ECDSA the base64 of a
// SubjectPublicKeyInfo (RFC 5280 section 4.1). It reports whether all are valid.
func withPublicKeys(p *producer.Producer, scheme *verify.HMAC, keys []string) bool {
	for _, text := range keys {
		if publicKeyIn(scheme) == "{ed25519}" {
			key, err := hex.DecodeString(text)
			if err != nil || len(key) != ed25519.PublicKeySize {
				p.Err = errors.Join(p.Err, errors.New("a public key is not 64 hexadecimal digits"))
			}
			scheme.PublicKeys = append(scheme.PublicKeys, key)
			continue
		}
		der, err := base64.StdEncoding.DecodeString(text)
		if err != nil {
			p.Err = errors.Join(p.Err, errors.New("a verification key is not base64"))
			continue
		}
		parsed, err := x509.ParsePKIXPublicKey(der)
		key, ok := parsed.(*ecdsa.PublicKey)
		if err != nil || !ok {
			p.Err = errors.Join(p.Err, errors.New("a verification key is not one for ECDSA"))
		}
		scheme.ECDSAKeys = append(scheme.ECDSAKeys, key)
	}
	return p.Err == nil
}

// checkText refuses secrets with a prefix of Stripe or Standard Webhooks, which belong to
// another vendor.
func checkText(secrets []string) error {
	for _, s := range secrets {
		if strings.HasPrefix(s, "whsec_") || strings.HasPrefix(s, "whpk_") {
			return errors.New("a secret begins like one of Stripe or Standard Webhooks; this vendor's do not")
		}
	}
	return nil
}

// withCredential sets a shared credential as the scheme and keeps it out of logs and stores.
func withCredential(p *producer.Producer, c *verify.Static) {
	if c == nil {
		err := errors.New("a credential must be set: one of user and password, header or query, with a secret")
		p.Err = errors.Join(p.Err, err)
		return
	}
	switch c.In {
	case verify.InHeader:
		p.SecretHeaders = []string{c.Name}
	case verify.InQuery:
		p.SecretQuery = []string{c.Name}
	case verify.InBearer:
		if c.Name != "" {
			p.SecretQuery = []string{c.Name}
		}
	}
	signedBy(p, c)
}

// signedByTokens sets a scheme with the keys of the settings, or those that the issuer
// publishes at the address.
func signedByTokens(p *producer.Producer, s Settings, address string, scheme *verify.JWT) {
	keys, err := tokenKeys(s, address)
	if err != nil {
		p.Err = errors.Join(p.Err, err)
		return
	}
	scheme.Keys = keys
	signedBy(p, scheme)
}

func tokenKeys(s Settings, address string) (verify.TokenKeySet, error) {
	if s.TokenKeys != nil {
		return s.TokenKeys, nil
	}
	if address = cmp.Or(s.JWKSURL, address); address == "" {
		return nil, errors.New("set jwks_url: the issuer publishes its keys there")
	}
	keys, err := verify.NewJWKS(verify.JWKSConfig{URL: address})
	if err != nil {
		return nil, err
	}
	return keys, nil
}

// algorithms returns the setting algs (RFC 7518), or else the issuer's algorithm.
func algorithms(s Settings, issuer string) []string {
	if len(s.Algs) > 0 {
		return s.Algs
	}
	return []string{issuer}
}

// hashes returns the setting algs, or else the hashes of the preset.
func hashes(algs []string, preset ...verify.Hash) []verify.Hash {
	if len(algs) == 0 {
		return preset
	}
	named := make([]verify.Hash, len(algs))
	for i, a := range algs {
		named[i] = verify.Hash(a)
	}
	return named
}

// attributes reads optional facts. Missing and ambiguous ones are left out.
func attributes(from map[string]producer.Extractor) func(*producer.Delivery) (map[string]string, error) {
	return func(d *producer.Delivery) (map[string]string, error) {
		var found map[string]string
		for name, x := range from {
			if v, err := x.Extract(d); err == nil && v != "" {
				if found == nil {
					found = make(map[string]string, len(from))
				}
				found[name] = v
			}
		}
		return found, nil
	}
}

// claimsPayload gives handlers the claims of the verified token in place of the token.
func claimsPayload(d *producer.Delivery) ([]byte, error) { return d.Identity.Claims, nil }

// malformed is the error for an event that does not have the expected form.
func malformed(component string, err error) error {
	return &verify.Error{Code: verify.EventMalformed, Component: component, Err: err}
}

// valueAt returns a member of a JSON object, or nil if it is missing or the JSON is not valid.
func valueAt(text []byte, name string) []byte {
	var doc strictjson.Document
	if doc.Read(text, 256) != nil {
		return nil
	}
	value, err := doc.At([]string{name})
	if err != nil {
		return nil
	}
	return value
}
