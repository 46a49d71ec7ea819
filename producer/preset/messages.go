package preset

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"time"

	"github.com/eyelet-dev/eyelet/producer"
	"github.com/eyelet-dev/eyelet/verify"
)

// signedByMessages sets a scheme of RFC 9421 with the keys of the settings. The configuration has
// what published keys need beside their address.
func signedByMessages(p *producer.Producer, s Settings, scheme *verify.RFC9421, cfg verify.JWKSConfig) {
	keys, err := s.messageKeys(scheme.Algs[0], cfg)
	if err != nil {
		p.Err = errors.Join(p.Err, err)
		return
	}
	scheme.Keys = keys
	signedBy(p, scheme)
}

// messageKeys returns the keys that are given, or those at jwks_url or at one of allow, which is
// then their principal; else the public half of the key that signs samples.
func (s Settings) messageKeys(alg verify.Alg, cfg verify.JWKSConfig) (verify.KeySet, error) {
	var sets []verify.KeySet
	add := func(key verify.Key) {
		if s.principal != nil {
			key.Principal = s.principal(key.ID)
		}
		sets = append(sets, verify.StaticKeys(key))
	}
	for id, text := range s.Keys {
		parse := verify.ParsePublicKey
		if alg == verify.HMACSHA256 {
			parse = func(id string, _ verify.Alg, secret []byte) (verify.Key, error) {
				return verify.NewHMACKey(id, secret)
			}
		}
		key, err := parse(id, alg, []byte(text))
		if err == nil && verify.IsTestKey(key) {
			err = fmt.Errorf("key %q is published for tests: anyone can sign with it", id)
		}
		if err != nil {
			return nil, err
		}
		add(key)
	}
	for _, address := range append(slices.Clone(s.Allow), s.JWKSURL) {
		if cfg.URL = address; address == "" {
			continue
		}
		if cfg.Principal = address; address == s.JWKSURL {
			cfg.Principal = ""
		}
		published, err := verify.NewJWKS(cfg)
		if err != nil {
			return nil, err
		}
		sets = append(sets, published)
	}
	switch {
	case s.MessageKeys != nil:
		return s.MessageKeys, nil
	case len(sets) == 0 && s.SigningKey != nil:
		key, err := verify.NewPublicKey(sampleKeyID(s), alg, s.SigningKey.Public())
		if err != nil {
			return nil, err
		}
		add(key)
	case len(sets) == 0:
		return nil, errors.New("set the sender's keys: keys, jwks_url or allow, whichever the preset has")
	}
	return verify.JoinKeys(sets...), nil
}

func sampleKeyID(s Settings) string { return cmp.Or(s.SigningKeyID, "k1") }

// signsMessages signs samples with RFC 9421 as the signer does, for the scheme and with the private
// key of the settings, or else a shared one.
func signsMessages(with verify.Signer) keySigner {
	return func(s Settings, r *http.Request, body []byte, now time.Time) ([]byte, error) {
		signer := with
		signer.KeyID, signer.Private, signer.Like = sampleKeyID(s), s.SigningKey, s.scheme
		if ids := slices.Sorted(maps.Keys(s.Keys)); s.SigningKey == nil && len(ids) > 0 {
			signer.KeyID, signer.Secret = ids[0], []byte(s.Keys[ids[0]])
		}
		return body, signer.Sign(r, body, now)
	}
}

// sentBy checks that the sender that the JSON of a delivery names is the one that signed it.
func sentBy(named producer.Extractor, signed func(verify.Identity, string) bool) func(*producer.Delivery) error {
	return func(d *producer.Delivery) error {
		if _, err := d.JSON(); err != nil {
			return malformed("body", err)
		}
		sender, err := named.Extract(d)
		if err == nil && !signed(d.Identity, sender) {
			err = &verify.Error{Code: verify.IssuerMismatch, Component: named.String(), KeyID: d.Identity.KeyID}
		}
		return err
	}
}
