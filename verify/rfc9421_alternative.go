package verify

import (
	"cmp"
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/rsa"
	"fmt"
	"iter"
	"net/http"
	"slices"
	"strings"
)

// Alternatives implements [Alternator].
func (s *RFC9421) Alternatives(r *http.Request, offered []Offer) iter.Seq[Alternative] {
	return rareLast(listed(func(to *alternatives) {
		if s.Check() != nil {
			return
		}
		s.otherLabels(r, to)
		own := s.allKeys(r.Context())
		s.otherPolicies(to)
		seen := map[string]bool{}
		for _, id := range s.namedKeys(r) {
			if !seen[id] {
				s.keysUnder(r, id, own, offered, to)
			}
			seen[id] = true
		}
	}))
}

// Offers implements [Alternator].
func (s *RFC9421) Offers(ctx context.Context) []Offer {
	var offers []Offer
	for _, k := range s.allKeys(ctx) {
		offers = append(offers, Offer{Name: fmt.Sprintf("key %q", truncate(k.ID)), Key: &k})
	}
	return offers
}

// allKeys returns the keys of the set that are known without an id.
func (s *RFC9421) allKeys(ctx context.Context) []Key {
	if s.Keys == nil {
		return nil
	}
	keys, err := s.Keys.Key(ctx, "")
	if err != nil {
		return nil
	}
	return keys
}

// namedKeys returns the key ids of the signatures, with BoundKey for one that names none.
func (s *RFC9421) namedKeys(r *http.Request) []string {
	var ids []string
	for _, sent := range SentSignatures(r.Header) {
		if id := sent.KeyID(); id != "" {
			ids = append(ids, id)
		} else if s.BoundKey != "" {
			ids = append(ids, s.BoundKey)
		}
	}
	return ids[:min(len(ids), maxVerified)]
}

func (s *RFC9421) alter(change func(*RFC9421)) *RFC9421 {
	c := s.copy()
	c.engine = s.engine
	change(c)
	return c
}

// otherPolicies tries signatures with another label or tag, or with less coverage.
func (s *RFC9421) otherPolicies(to *alternatives) {
	offer := func(m Mistake, detail string, change func(*RFC9421)) {
		to.add(Alternative{Mistake: m, Detail: detail, Scheme: s.alter(change)})
	}
	if s.Label != "" {
		offer(LabelDiffers, fmt.Sprintf("%q is configured", s.Label), func(c *RFC9421) { c.Label = "" })
	}
	if s.Tag != "" {
		offer(LabelDiffers, fmt.Sprintf("the tag %q is configured", s.Tag), func(c *RFC9421) { c.Tag = "" })
	}
	offer(CoverageDiffers, "", func(c *RFC9421) { c.Coverage = Coverage{off: true} })
	offer(AlgorithmDiffers, "the algorithm of the key is not among the accepted ones", func(c *RFC9421) {
		c.Algs = append([]Alg{RSAv15SHA256}, defaultAlgs...)
	})
}

// otherLabels tries one label, in lower case, for a signature whose two fields have different ones.
func (s *RFC9421) otherLabels(r *http.Request, to *alternatives) {
	input, _, _ := strings.Cut(r.Header.Get("Signature-Input"), "=")
	label, _, _ := strings.Cut(r.Header.Get("Signature"), "=")
	same := label == input && label == strings.ToLower(label)
	if same || label == "" || input == "" || len(label)+len(input) > maxLabelText {
		return
	}
	detail := fmt.Sprintf("%q in Signature and %q in Signature-Input", label, input)
	for _, one := range []string{cmp.Or(s.Label, strings.ToLower(input)), strings.ToLower(label)} {
		changed := withField(r, "Signature", one+strings.TrimPrefix(r.Header.Get("Signature"), label))
		changed = withField(changed, "Signature-Input", one+strings.TrimPrefix(r.Header.Get("Signature-Input"), input))
		to.add(Alternative{Mistake: LabelDiffers, Detail: detail, Scheme: s, Request: changed})
	}
}

const maxLabelText = 128 // bytes of two labels

// keysUnder tries other keys under the id that the request names.
func (s *RFC9421) keysUnder(r *http.Request, id string, own []Key, offered []Offer, to *alternatives) {
	with := func(alt Alternative, k Key) {
		k.ID = id
		alt.Scheme = s.alter(func(c *RFC9421) {
			c.Keys, c.Algs = StaticKeys(k), append([]Alg{RSAv15SHA256, k.material.alg}, defaultAlgs...)
		})
		to.add(alt)
	}
	use := func(m Mistake, detail string, k Key) { with(Alternative{Mistake: m, Detail: detail}, k) }
	m := KeyIDDiffers
	if slices.ContainsFunc(own, func(k Key) bool { return k.ID == id }) {
		m = OtherKey
	}
	var ownSecrets, secrets []Offer
	for _, k := range own {
		if k.ID != id {
			use(m, fmt.Sprintf("key %q, under the id %q", truncate(k.ID), truncate(id)), k)
		}
		otherAlgorithms(k, use)
		if k.material != nil && k.material.secret != nil {
			name := fmt.Sprintf("the secret of key %q", truncate(k.ID))
			ownSecrets = append(ownSecrets, Offer{Name: name, Secret: k.material.secret()})
		}
	}
	for _, o := range offered {
		if o.Key == nil {
			secrets = append(secrets, o)
		} else {
			use(OtherKey, o.Name, *o.Key)
		}
	}
	for _, k := range own {
		if k.ID == id {
			otherPrimitives(k, r, with)
		}
	}
	for alt, raw := range AlternativeSecrets(ownSecrets, secrets, Raw) {
		with(alt, Key{Alg: HMACSHA256, material: &material{alg: HMACSHA256, check: newHMACPrimitive(raw)}})
	}
}

// otherAlgorithms tries an RSA key with its other algorithm, and an ECDSA signature in DER.
func otherAlgorithms(k Key, use func(Mistake, string, Key)) {
	switch public := k.Public().(type) {
	case *rsa.PublicKey:
		other := RSAv15SHA256
		if k.Alg == other {
			other = RSAPSSSHA512
		}
		if changed, err := newPublicKey(k.ID, other, crypto.PublicKey(public)); err == nil {
			use(AlgorithmDiffers, fmt.Sprintf("%s, and key %q is for %s", other, truncate(k.ID), k.Alg), changed)
		}
	case *ecdsa.PublicKey:
		check := k.material.check
		changed := k.checkedBy(k.Alg, func(base, octets []byte) bool { return check(base, sideBySide(&k, octets)) })
		use(EncodingDiffers, "DER (ASN.1), and RFC 9421 wants r and s one after the other", changed)
	}
}
