package verify

import (
	"cmp"
	"context"
	"encoding/base64"
	"fmt"
	"net/http"
	"net/textproto"
	"net/url"
	"slices"
	"strings"
	"time"
)

// Alternatives implements [Alternator].
func (s *Static) Alternatives(r *http.Request, offered []Offer) []Alternative {
	if s.Check() != nil {
		return nil
	}
	return append(s.otherForms(r), SecretAlternatives(s.Offers(r.Context()), offered, Raw, func(raw []byte) Scheme {
		if c := s.withSecret(string(raw)); c.Check() == nil {
			return c
		}
		return nil
	})...)
}

func (s *Static) withSecret(text string) *Static {
	return &Static{In: s.In, Name: s.Name, Username: s.Username, Secrets: Secrets(text)}
}

// Offers implements [Alternator].
func (s *Static) Offers(context.Context) []Offer { return SecretOffers(s.Secrets, Raw) }

// otherForms tries the credential of the request in another form, place or order.
func (s *Static) otherForms(r *http.Request) (all []Alternative) {
	if user, _, ok := r.BasicAuth(); ok && s.In == InBasic && user != s.Username && !strings.Contains(user, ":") {
		c := &Static{In: s.In, Username: user, Secrets: s.Secrets}
		detail := fmt.Sprintf("%q, and %q is configured", truncate(user), s.Username)
		all = append(all, Alternative{Mistake: UserDiffers, Detail: detail, Scheme: func() Scheme { return c }})
	}
	for _, form := range s.sentForms(r) {
		fixed := r.WithContext(r.Context())
		fixed.Header, fixed.URL = r.Header.Clone(), new(*r.URL)
		if s.withSecret(form.text).Sign(fixed, nil, time.Time{}) == nil {
			all = append(all, Alternative{Mistake: CredentialWrapped, Detail: form.what, Request: fixed})
		}
	}
	return all
}

// sentForms returns what the request may mean as the credential.
func (s *Static) sentForms(r *http.Request) []variant {
	var sent []variant
	header := func(name string) { sent = append(sent, variant{"in the field " + name, r.Header.Get(name)}) }
	query := func(what, name string) {
		if value, err := QueryParam(r, name); err == nil {
			sent = append(sent, variant{what, value})
		}
	}
	if s.Name != "" {
		header(textproto.CanonicalMIMEHeaderKey(s.Name))
		query("in the query", s.Name)
	}
	header("Authorization")
	sent = append(sent, variant{"as a bearer token", cutFold(r.Header.Get("Authorization"), "Bearer ")})
	if user, password, ok := r.BasicAuth(); ok {
		sent = append(sent, variant{"as the password of basic authentication", password},
			variant{"as the user name of basic authentication", user})
	}
	for _, name := range []string{"X-Api-Key", "X-Auth-Token", "X-Webhook-Token", "X-Webhook-Secret", "Api-Key"} {
		header(name)
	}
	for _, name := range []string{"token", "key", "api_key", "secret", "access_token"} {
		query("in the parameter "+name, name)
	}
	var all []variant
	for _, v := range sent {
		raw, _ := base64.StdEncoding.DecodeString(v.text)
		all = append(all, v,
			variant{v.what + ", in quotes", strings.Trim(v.text, `"'`)},
			variant{v.what + ", with white space", strings.TrimSpace(v.text)},
			variant{v.what + ", with Bearer before it", cutFold(v.text, "Bearer ")},
			variant{v.what + ", with Token before it", cutFold(v.text, "Token ")},
			variant{v.what + ", with Basic before it", cutFold(v.text, "Basic ")},
			variant{v.what + ", percent-encoded", unescaped(v.text)},
			variant{v.what + ", encoded as base64", string(raw)})
	}
	return slices.DeleteFunc(all, func(v variant) bool { return v.text == "" || len(v.text) > maxSignatureField })
}

// cutFold returns the text after a prefix in any letter case, or "".
func cutFold(text, prefix string) string {
	if len(text) < len(prefix) || !strings.EqualFold(text[:len(prefix)], prefix) {
		return ""
	}
	return TrimOWS(text[len(prefix):])
}

func unescaped(text string) string {
	out, err := url.QueryUnescape(text)
	if err != nil || out == text {
		return ""
	}
	return out
}

// Alternatives implements [Alternator].
func (m *MutualTLS) Alternatives(r *http.Request, _ []Offer) []Alternative {
	if m.Check() != nil {
		return nil
	}
	cert, err := m.client(r)
	if err != nil {
		return nil
	}
	names := slices.Clone(cert.DNSNames)
	for _, uri := range cert.URIs {
		names = append(names, uri.String())
	}
	if len(names) == 0 {
		names = []string{cert.Subject.CommonName}
	}
	digits, _ := m.fingerprint(cert)
	c := &MutualTLS{Fingerprints: []string{digits}, ProxyHeader: m.ProxyHeader, Trusted: m.Trusted}
	detail := fmt.Sprintf("%q with the fingerprint %s", truncate(strings.Join(names, ", ")), digits)
	return []Alternative{{Mistake: CertificateNamed, Detail: detail, Scheme: func() Scheme { return c }}}
}

// Offers implements [Alternator]: a certificate is not offered.
func (m *MutualTLS) Offers(context.Context) []Offer { return nil }

// Alternatives implements [Alternator]. Tokens for other audiences and of other issuers are tried
// with the keys of this scheme.
func (j *JWT) Alternatives(r *http.Request, _ []Offer) []Alternative {
	if j.Check() != nil {
		return nil
	}
	all := j.otherPlaces(r)
	if !j.Body { // else its claims are not known here
		compact, err := j.find(r, nil)
		if err != nil {
			return all
		}
		t, err := parseToken(compact)
		if err != nil {
			return all
		}
		all = append(all, j.otherClaims(t)...)
	}
	for _, alg := range publicAlgorithms {
		detail := fmt.Sprintf("signed with %s, and %q is accepted", alg, j.Algorithms)
		changed := func() Scheme { return &jwtTrial{j, alg.String()} }
		all = append(all, Alternative{Mistake: AlgorithmDiffers, Detail: detail, Scheme: changed, Rare: true})
	}
	return all
}

// Offers implements [Alternator]: keys of tokens are public, and tried by asking the scheme.
func (j *JWT) Offers(context.Context) []Offer { return nil }

// jwtTrial verifies a token by an algorithm, whatever its header and the key say. Only an
// [Alternative] does.
type jwtTrial struct {
	*JWT
	alg string
}

// Verify implements [Scheme].
func (t *jwtTrial) Verify(r *http.Request, body func() ([]byte, error)) (Identity, error) {
	return t.verify(t.alg, r, body)
}

// otherPlaces tries forms of the field that senders write by mistake.
func (j *JWT) otherPlaces(r *http.Request) (all []Alternative) {
	name, before, bearer := cmp.Or(j.Field, "Authorization"), "Bearer ", "with Bearer twice"
	if j.Field != "" {
		before, bearer = "", "with Bearer before it"
	}
	value := r.Header.Get(name)
	if j.Body || len(value) > maxBearer {
		return nil
	}
	bare := func(name, prefix string) string { return before + cutFold(r.Header.Get(name), prefix) }
	for _, form := range []variant{
		{"without Bearer before it", before + value},
		{"in quotes", before + strings.Trim(cutFold(value, "Bearer "), `"'`)},
		{bearer, cutFold(value, "Bearer ")},
		{"with Token before it", bare(name, "Token ")},
		{"with JWT before it", bare(name, "JWT ")},
		{"in the field Authorization", bare("Authorization", "Bearer ")},
		{"in the field X-Access-Token", before + r.Header.Get("X-Access-Token")},
		{"in the field X-Authorization", bare("X-Authorization", "Bearer ")},
		{"in the field X-Forwarded-Authorization", bare("X-Forwarded-Authorization", "Bearer ")},
	} {
		if form.text != value && form.text != before {
			changed := withField(r, name, form.text)
			all = append(all, Alternative{Mistake: CredentialWrapped, Detail: form.what, Request: changed})
		}
	}
	return all
}

// otherClaims tries the token with what it says itself, one claim at a time.
func (j *JWT) otherClaims(t *parsedToken) (all []Alternative) {
	offer := func(m Mistake, detail string, change func(*JWT)) {
		c := *j
		if change(&c); c.Check() == nil {
			all = append(all, Alternative{Mistake: m, Detail: detail, Scheme: func() Scheme { return &c }})
		}
	}
	beside := func(m Mistake, name string, came, wanted []string, change func(*JWT)) {
		if len(came) > 0 && !intersects(wanted, came) {
			offer(m, name+truncate(fmt.Sprintf("%q, and %q is accepted", came, wanted)), change)
		}
	}
	audience, issuer := claimValues(t.claims, "aud"), claimValues(t.claims, "iss")
	beside(AudienceDiffers, "", audience, j.Audiences, func(c *JWT) { c.Audiences = audience })
	beside(IssuerDiffers, "", issuer, j.Issuers, func(c *JWT) { c.Issuers = issuer })
	for i, rule := range j.Claims {
		for _, name := range rule.Names {
			came := claimValues(t.claims, name)
			beside(ClaimDiffers, strings.Join(rule.Names, "/")+" ", came, rule.Values, func(c *JWT) {
				c.Claims = slices.Clone(j.Claims)
				c.Claims[i].Values = came
			})
		}
	}
	if _, ok := publicAlgorithm(t.alg); ok {
		beside(AlgorithmDiffers, "", []string{t.alg}, j.Algorithms, func(c *JWT) {
			c.Algorithms = append(slices.Clone(j.Algorithms), t.alg)
		})
	}
	detail := fmt.Sprintf("a known key, under the id %q", shortID(t.kid))
	offer(KeyIDDiffers, detail, func(c *JWT) { c.Keys = anyTokenKey{j.Keys} })
	return all
}

// anyTokenKey returns all keys of a set, whichever id a token names.
type anyTokenKey struct{ of TokenKeySet }

// PublicKeys implements [TokenKeySet].
func (a anyTokenKey) PublicKeys(ctx context.Context, _ string) ([]JSONWebKey, error) {
	return a.of.PublicKeys(ctx, "")
}
