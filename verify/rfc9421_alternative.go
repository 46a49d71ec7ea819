package verify

import (
	"cmp"
	"context"
	"crypto"
	"crypto/rsa"
	"fmt"
	"net/http"
	"slices"
	"strings"
)

// Alternatives implements [Alternator].
func (s *RFC9421) Alternatives(r *http.Request, offered []Offer) []Alternative {
	if s.Check() != nil {
		return nil
	}
	m, sent := s.sent(r, s.Label)
	all := append(s.otherLabels(r), s.otherPolicies(r, m, sent)...)
	own, seen := s.allKeys(r.Context()), map[string]bool{"": true}
	for i := range sent {
		id := cmp.Or(sent[i].keyID, s.BoundKey)
		if !seen[id] {
			all = append(all, s.keysUnder(&sent[i], id, own, offered)...)
		}
		seen[id] = true
		all = append(all, s.otherBases(m, &sent[i])...)
	}
	return all
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

// sent returns a request and its well-formed signatures with a label, or all for "", as many as are
// verified.
func (s *RFC9421) sent(r *http.Request, label string) (*message, []signatureInput) {
	var f signatureFields
	m, err := newMessage(r)
	if err != nil || f.read(r.Header, label, maxSignatures, s.Encoding) != nil {
		return nil, nil
	}
	if s.NormalPath {
		m.normalizePath()
	}
	sent := slices.DeleteFunc(f.inputs, func(in signatureInput) bool {
		return in.refusal != nil || label != "" && in.label != label
	})
	return &m, sent[:min(len(sent), maxVerified)]
}

// SignatureBase returns what the signature with a label, or for "" the first one, is over: the
// signature base (RFC 9421 section 2.5), of an [Alternative] perhaps in another form. It is nil if
// a covered component is missing, or the signature. Nothing is verified.
func (s *RFC9421) SignatureBase(r *http.Request, label string) []byte {
	m, sent := s.sent(r, cmp.Or(label, s.Label))
	for i := range sent {
		if label == "" || sent[i].label == label {
			if base, err := m.base(nil, &sent[i]); err == nil {
				return base
			}
			break
		}
	}
	return nil
}

func (s *RFC9421) alter(change func(*RFC9421)) *RFC9421 {
	c := settings(s)
	c.engine = s.engine
	change(c)
	return c
}

func (s *RFC9421) altered(m Mistake, detail string, change func(*RFC9421)) Alternative {
	return Alternative{Mistake: m, Detail: detail, Scheme: func() Scheme { return s.alter(change) }}
}

// rfc9421Trial verifies what no configuration says: under other rules for the coverage, or another
// text in place of the signature base. Only an [Alternative] does.
type rfc9421Trial struct {
	*RFC9421
	rules []CoverageRule
	edit  func(base string) string // or nil
}

// Verify implements [Scheme].
func (t *rfc9421Trial) Verify(r *http.Request, body func() ([]byte, error)) (Identity, error) {
	if err := t.Check(); err != nil {
		return Identity{}, &Error{Code: KeysUnavailable, Err: err}
	}
	return t.verify(t.rules, t.edit, r, body)
}

// SignatureBase returns what the signature is over.
func (t *rfc9421Trial) SignatureBase(r *http.Request, label string) []byte {
	base := t.RFC9421.SignatureBase(r, label)
	if base == nil || t.edit == nil {
		return base
	}
	return []byte(t.edit(string(base)))
}

// Alternatives implements [Alternator].
func (t *rfc9421Trial) Alternatives(r *http.Request, offered []Offer) []Alternative {
	return MapAlternatives(t.RFC9421, r, offered, func(s Scheme) Scheme {
		if one, ok := s.(*RFC9421); ok {
			return &rfc9421Trial{one, t.rules, t.edit}
		}
		return s
	})
}

// otherPolicies tries signatures with less coverage, or another label, tag, encoding or form of the
// path.
func (s *RFC9421) otherPolicies(r *http.Request, m *message, sent []signatureInput) []Alternative {
	uncovered := ""
	for i := range sent {
		uncovered = cmp.Or(uncovered, s.uncovered(m, &sent[i]))
	}
	other := func(set bool, on, off string) string {
		if set {
			on, off = off, on
		}
		return on + ", and " + off + " is configured"
	}
	coded := cmp.Or(map[Encoding]Encoding{Base64URL: Base64}[s.Encoding], Base64URL)
	all := []Alternative{
		{Mistake: CoverageDiffers, Detail: uncovered, Scheme: func() Scheme {
			return &rfc9421Trial{RFC9421: s.alter(func(c *RFC9421) { c.Coverage = Coverage{} })}
		}},
		s.altered(EncodingDiffers, other(s.DER, "DER (ASN.1)", "r and s one after the other"),
			func(c *RFC9421) { c.DER = !s.DER }),
		s.altered(AlgorithmDiffers, "the algorithm of the key is not among the accepted ones",
			func(c *RFC9421) { c.Algs = append([]Alg{RSAv15SHA256}, defaultAlgs...) }),
	}
	if s.Label != "" {
		all = append(all, s.altered(LabelDiffers, fmt.Sprintf("%q is configured", s.Label),
			func(c *RFC9421) { c.Label = "" }))
	}
	if s.Tag != "" {
		all = append(all, s.altered(LabelDiffers, fmt.Sprintf("the tag %q is configured", s.Tag),
			func(c *RFC9421) { c.Tag = "" }))
	}
	if strings.ContainsAny(r.Header.Get("Signature"), "+/-_") {
		all = append(all, s.altered(EncodingDiffers, other(s.Encoding == Base64URL, "base64url", "base64"),
			func(c *RFC9421) { c.Encoding = coded }))
	}
	if strings.Contains(r.URL.EscapedPath(), "%") {
		form := other(s.NormalPath, "the path in normal form", "the path as it is sent")
		all = append(all, s.altered(EscapesDiffer, form,
			func(c *RFC9421) { c.NormalPath = !s.NormalPath }))
	}
	return all
}

// otherLabels tries one label, in lower case, for a signature whose two fields have different ones.
func (s *RFC9421) otherLabels(r *http.Request) (all []Alternative) {
	input, _, _ := strings.Cut(r.Header.Get("Signature-Input"), "=")
	label, _, _ := strings.Cut(r.Header.Get("Signature"), "=")
	same := label == input && label == strings.ToLower(label)
	if same || label == "" || input == "" || len(label)+len(input) > maxLabelText {
		return nil
	}
	detail := fmt.Sprintf("%q in Signature and %q in Signature-Input", label, input)
	for _, one := range []string{cmp.Or(s.Label, strings.ToLower(input)), strings.ToLower(label)} {
		changed := withField(r, "Signature", one+strings.TrimPrefix(r.Header.Get("Signature"), label))
		changed = withField(changed, "Signature-Input", one+strings.TrimPrefix(r.Header.Get("Signature-Input"), input))
		all = append(all, Alternative{Mistake: LabelDiffers, Detail: detail, Request: changed})
	}
	return all
}

const maxLabelText = 128 // bytes of two labels

// keysUnder tries other keys under the id that the request names.
func (s *RFC9421) keysUnder(in *signatureInput, id string, own []Key, offered []Offer) (all []Alternative) {
	with := func(k Key) *RFC9421 {
		k.ID = id
		return s.alter(func(c *RFC9421) {
			c.Keys, c.Algs = StaticKeys(k), append([]Alg{RSAv15SHA256, k.material.alg}, defaultAlgs...)
		})
	}
	use := func(m Mistake, detail string, k Key) {
		all = append(all, Alternative{Mistake: m, Detail: detail, Scheme: func() Scheme { return with(k) }})
	}
	withheld(s.Keys, id, use)
	m := KeyIDDiffers
	if slices.ContainsFunc(own, func(k Key) bool { return k.ID == id }) {
		m = OtherKey
	}
	var ownSecrets, secrets []Offer
	for _, k := range own {
		if k.ID != id {
			use(m, fmt.Sprintf("key %q, under the id %q", truncate(k.ID), truncate(id)), k)
		}
		otherAlgorithm(k, use)
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
	usual := len(all)
	for _, k := range own {
		if k.ID == id {
			otherPrimitives(k, in, use)
		}
	}
	rare(all[usual:])
	return append(all, SecretAlternatives(ownSecrets, secrets, Raw, func(raw []byte) Scheme {
		return with(Key{Alg: HMACSHA256, material: &material{alg: HMACSHA256, check: newHMACPrimitive(raw)}})
	})...)
}

const maxEdited = 16 << 10 // bytes of a base that is edited

// otherBases tries what a sender may sign in place of the base of a signature.
func (s *RFC9421) otherBases(m *message, in *signatureInput) (all []Alternative) {
	base, refusal := m.base(nil, in)
	if refusal != nil || len(base) > maxEdited {
		return nil
	}
	for _, other := range append(baseEdits(m.url.Scheme), orders(string(base))...) {
		if other.edit(string(base)) != string(base) {
			changed := func() Scheme { return &rfc9421Trial{s, s.rules, other.edit} }
			all = append(all, Alternative{Mistake: other.mistake, Detail: other.detail, Scheme: changed})
		}
	}
	return rare(all)
}

// otherAlgorithm tries an RSA key with its other algorithm.
func otherAlgorithm(k Key, use func(Mistake, string, Key)) {
	public, ok := k.Public().(*rsa.PublicKey)
	if !ok {
		return
	}
	other := RSAv15SHA256
	if k.Alg == other {
		other = RSAPSSSHA512
	}
	if changed, err := newPublicKey(k.ID, other, crypto.PublicKey(public)); err == nil {
		use(AlgorithmDiffers, fmt.Sprintf("%s, and key %q is for %s", other, truncate(k.ID), k.Alg), changed)
	}
}
