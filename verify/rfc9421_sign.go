package verify

import (
	"cmp"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/hmac"
	"crypto/rand"
	"crypto/rsa"
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"
)

// Signer signs requests as a producer does (RFC 9421), for tools and tests.
type Signer struct {
	KeyID   string        // the keyid; empty omits the parameter
	Alg     Alg           // defaults to hmac-sha256 with a Secret, else to that of the Private key's type
	Secret  []byte        // the shared secret of hmac-sha256
	Private crypto.Signer // the private key of the other algorithms
	Label   string        `conf:"label"` // of the signature; defaults to "sig1"
	// Components are covered. Defaults to those of the profile that the request has.
	Components []string      `conf:"covers"`
	Expires    time.Duration `conf:"expires"` // the lifetime of the signature, if not zero
	Nonce, Tag string        // are signed if not empty
	NameAlg    bool          `conf:"alg"`     // adds the alg parameter
	Digests    []string      `conf:"digests"` // the algorithms of Content-Digest; defaults to sha-256
	// Like is the scheme that shall verify the requests. Its label, tag, time and encodings are
	// those of the signatures, and Components default to what it demands. Defaults to none.
	Like *RFC9421
}

// like returns the scheme of Like, or one without settings.
func (s *Signer) like() *RFC9421 {
	if s.Like == nil {
		return &RFC9421{}
	}
	return s.Like
}

// demanded returns the components of a request that the rules demand. Of several sets it takes one
// that is required anyway, else the first.
func (s *RFC9421) demanded(m *message) (names []string) {
	add := func(name string) {
		if !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	hasBody := len(m.lines("content-digest")) > 0
	for _, rule := range s.coverageRules() {
		set := rule.AnyOf[0]
		for _, other := range rule.AnyOf {
			required := func(name string) bool { return slices.Contains(s.Coverage.Required, name) }
			if !slices.ContainsFunc(other, func(name string) bool { return !required(name) }) {
				set = other
			}
		}
		prefix, many := strings.CutSuffix(set[0], "*")
		switch {
		case !s.Coverage.Pinned.demands(&rule, m, hasBody), rule.When == WithBody && !hasBody:
			continue
		case rule.When == WhenPresent && many:
			set = nil
			for _, field := range m.fieldsWithPrefix(prefix) {
				set = append(set, field.name)
			}
			slices.Sort(set)
		case rule.When == WhenPresent && len(m.lines(prefix)) == 0:
			continue
		}
		for _, name := range set {
			add(name)
		}
	}
	return names
}

// Sign sets Content-Digest (if there is a body and the field is absent), the field with the time if
// the scheme of Like reads one, that with the agent (the first of its list) if it is absent and the
// keys are those of agents, Signature-Input and Signature on r. Existing signatures with other
// labels stay.
//
// The URL of r is absolute, or r is the request of a server, as httptest.NewRequest makes it: it
// is then signed for its Host, over https if it has TLS. An absolute request target is replaced
// by its path and query (RFC 9112 section 3.2.1), the form that receivers verify.
func (s *Signer) Sign(r *http.Request, body []byte, now time.Time) error {
	if len(body) > 0 && r.Header.Get("Content-Digest") == "" {
		digest, err := ContentDigest(body, s.Digests...)
		if err != nil {
			return err
		}
		r.Header.Set("Content-Digest", digest)
	}
	like := s.like()
	if like.TimestampHeader != "" {
		r.Header.Set(like.TimestampHeader, like.formatTime(now))
	}
	if d := like.directories(); d != nil && r.Header.Get(d.field) == "" {
		r.Header.Set(d.field, d.naming(cmp.Or(s.Label, like.Label, defaultLabel)))
	}
	m, err := newMessage(asCalled(r))
	if err != nil {
		return err
	}
	in, err := s.input(&m, now)
	if err != nil {
		return err
	}
	base, refusal := m.base(nil, in)
	if refusal != nil {
		return refusal
	}
	signature, err := s.sign(base)
	if err != nil {
		return err
	}
	setMember(r.Header, "Signature-Input", in.label, in.member())
	encoding := base64.StdEncoding
	if like.Encoding == Base64URL {
		encoding = base64.RawURLEncoding
	}
	setMember(r.Header, "Signature", in.label, ":"+encoding.EncodeToString(signature)+":")
	return nil
}

// asCalled returns the request with the URL that its client called. Only requests of servers have
// a request target; its absolute form is replaced in r.
func asCalled(r *http.Request) *http.Request {
	if r.RequestURI == "" {
		return r
	}
	called := r.WithContext(r.Context()) // a copy
	u := *r.URL
	called.URL = &u
	if u.Scheme != "" && u.Host != "" {
		if r.RequestURI[0] != '/' {
			r.RequestURI = u.RequestURI()
			called.RequestURI = r.RequestURI
		}
		return called
	}
	u.Host, u.Scheme = r.Host, "http"
	if r.TLS != nil {
		u.Scheme = "https"
	}
	return called
}

// input writes the member of Signature-Input and parses it as a receiver would.
func (s *Signer) input(m *message, now time.Time) (*signatureInput, error) {
	names, like := s.Components, s.like()
	label := cmp.Or(s.Label, like.Label, defaultLabel)
	if names == nil {
		names = like.demanded(m)
		if d := like.directories(); d != nil {
			names = append(names, strings.ReplaceAll(d.component(label), quote(d.field), d.field))
		}
	}
	var ids []string
	for _, name := range names {
		base, params, _ := strings.Cut(name, ";")
		if params != "" {
			params = ";" + params
		}
		ids = append(ids, quote(base)+params)
	}
	member := fmt.Sprintf("(%s)", strings.Join(ids, " "))
	if like.TimestampHeader == "" && !like.NoTime {
		member += fmt.Sprintf(";created=%d", now.Unix())
	}
	if s.Expires != 0 {
		member += fmt.Sprintf(";expires=%d", now.Add(s.Expires).Unix())
	}
	alg := ""
	if s.NameAlg {
		a, err := s.alg()
		if err != nil {
			return nil, err
		}
		alg = string(a)
	}
	tag := cmp.Or(s.Tag, like.tag())
	for _, p := range [][2]string{{"keyid", s.KeyID}, {"alg", alg}, {"nonce", s.Nonce}, {"tag", tag}} {
		if p[1] != "" {
			member += ";" + p[0] + "=" + quote(p[1])
		}
	}
	in, ok := parseInput(label + "=" + member)
	switch {
	case !ok:
		return nil, errors.New("label, components or parameters cannot be written as a structured field")
	case in.refusal != nil:
		return nil, in.refusal
	}
	return in, nil
}

// quote writes a string of RFC 8941. Characters that it cannot hold are refused when it is
// parsed again.
func quote(s string) string {
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(s) + `"`
}

// setMember sets one member of a Dictionary and keeps the others.
func setMember(h http.Header, field, label, value string) {
	member := label + "=" + value
	old, ok := parseDictionary(nil, joinLines(h.Values(field)), maxLabels)
	if !ok || len(old) == 0 {
		h.Set(field, member)
		return
	}
	var parts []string
	for _, m := range old {
		if m.key != label && m.value != "" {
			parts = append(parts, m.key+"="+m.value)
		}
	}
	h.Set(field, strings.Join(append(parts, member), ", "))
}

func (s *Signer) alg() (Alg, error) {
	switch {
	case (s.Secret == nil) == (s.Private == nil):
		return "", errors.New("a signer needs a secret or a private key")
	case s.Secret != nil && cmp.Or(s.Alg, HMACSHA256) != HMACSHA256:
		return "", fmt.Errorf("algorithm %q does not use a secret", s.Alg)
	case s.Secret != nil:
		return HMACSHA256, nil
	}
	fits, err := algsOf(s.Private.Public())
	if err != nil {
		return "", err
	}
	alg := cmp.Or(s.Alg, fits[0])
	if !slices.Contains(fits, alg) {
		return "", fmt.Errorf("algorithm %q does not fit a key for %s", alg, fits[0])
	}
	return alg, nil
}

func (s *Signer) sign(base []byte) ([]byte, error) {
	alg, err := s.alg()
	if err != nil {
		return nil, err
	}
	h := algHash[alg]
	switch alg {
	case HMACSHA256:
		mac := hmac.New(h.New, s.Secret)
		mac.Write(base)
		return mac.Sum(nil), nil
	case RSAPSSSHA512:
		return s.Private.Sign(rand.Reader, hashed(h, base), &rsa.PSSOptions{SaltLength: h.Size(), Hash: h})
	}
	signature, err := s.Private.Sign(rand.Reader, hashed(h, base), h)
	if public, ok := s.Private.Public().(*ecdsa.PublicKey); ok && err == nil && !s.like().DER {
		if signature = sideBySide(public, signature); signature == nil {
			return nil, errors.New("the private key makes no ECDSA signatures in DER")
		}
	}
	return signature, err
}

// GenerateKey generates a key pair for an algorithm; RSA keys have 3072 bits. For hmac-sha256
// see [GenerateSecret].
func GenerateKey(alg Alg) (crypto.Signer, error) {
	switch alg {
	case Ed25519:
		_, private, err := ed25519.GenerateKey(rand.Reader)
		return private, err
	case ECDSAP256SHA256:
		return ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	case ECDSAP384SHA384:
		return ecdsa.GenerateKey(elliptic.P384(), rand.Reader)
	case RSAPSSSHA512, RSAv15SHA256:
		return rsa.GenerateKey(rand.Reader, 3072)
	}
	return nil, fmt.Errorf("algorithm %q has no key pair", alg)
}

// GenerateSecret generates a secret of 32 random bytes for hmac-sha256, written as 43
// characters of unpadded base64url. The characters themselves are the secret.
func GenerateSecret() []byte {
	raw := make([]byte, 32)
	rand.Read(raw) // never fails
	return base64.RawURLEncoding.AppendEncode(nil, raw)
}
