package verify

import (
	"context"
	"encoding/base64"
	"fmt"
	"iter"
	"net/http"
	"net/textproto"
	"net/url"
	"slices"
	"strings"
	"time"
)

// Alternatives implements [Alternator].
func (s *Static) Alternatives(r *http.Request, offered []Offer) iter.Seq[Alternative] {
	return listed(func(to *alternatives) {
		if s.Check() != nil {
			return
		}
		s.otherForms(r, to)
		for alt, raw := range AlternativeSecrets(s.Offers(r.Context()), offered, Raw) {
			c := &Static{In: s.In, Name: s.Name, Username: s.Username, Secrets: []Secret{Secret(raw)}}
			if alt.Scheme = c; c.Check() == nil {
				to.add(alt)
			}
		}
	})
}

// Offers implements [Alternator].
func (s *Static) Offers(context.Context) []Offer { return SecretOffers(s.Secrets, Raw) }

// otherForms tries the credential of the request in another form, place or order.
func (s *Static) otherForms(r *http.Request, to *alternatives) {
	if user, _, ok := r.BasicAuth(); ok && s.In == InBasic && user != s.Username && !strings.Contains(user, ":") {
		c := &Static{In: s.In, Username: user, Secrets: s.Secrets}
		detail := fmt.Sprintf("%q, and %q is configured", truncate(user), s.Username)
		to.add(Alternative{Mistake: UserDiffers, Detail: detail, Scheme: c})
	}
	for _, form := range s.sentForms(r) {
		fixed := r.WithContext(r.Context())
		fixed.Header, fixed.URL = r.Header.Clone(), new(*r.URL)
		c := &Static{In: s.In, Name: s.Name, Username: s.Username, Secrets: []Secret{Secret(form.value)}}
		if c.Sign(fixed, nil, time.Time{}) == nil {
			to.add(Alternative{Mistake: CredentialWrapped, Detail: form.detail, Scheme: s, Request: fixed})
		}
	}
}

// sentForm is a value of the request that may be the credential.
type sentForm struct{ detail, value string }

// sentForms returns what the request may mean as the credential.
func (s *Static) sentForms(r *http.Request) []sentForm {
	var all []sentForm
	add := func(detail, value string) {
		for _, v := range []sentForm{
			{detail, value}, {detail + ", in quotes", strings.Trim(value, `"'`)},
			{detail + ", with white space", strings.TrimSpace(value)},
			{detail + ", with Bearer before it", cutFold(value, "Bearer ")},
			{detail + ", with Token before it", cutFold(value, "Token ")},
			{detail + ", with Basic before it", cutFold(value, "Basic ")},
			{detail + ", percent-encoded", unescaped(value)},
			{detail + ", encoded as base64", fromBase64(value)},
		} {
			if v.value != "" && len(v.value) <= maxSignatureField {
				all = append(all, v)
			}
		}
	}
	if s.Name != "" {
		name := textproto.CanonicalMIMEHeaderKey(s.Name)
		add("in the field "+name, r.Header.Get(name))
		if value, err := QueryParam(r, s.Name); err == nil {
			add("in the query", value)
		}
	}
	authorization := r.Header.Get("Authorization")
	add("in the field Authorization", authorization)
	add("as a bearer token", cutFold(authorization, "Bearer "))
	if user, password, ok := r.BasicAuth(); ok {
		add("as the password of basic authentication", password)
		add("as the user name of basic authentication", user)
	}
	for _, name := range []string{"X-Api-Key", "X-Auth-Token", "X-Webhook-Token", "X-Webhook-Secret", "Api-Key"} {
		add("in the field "+name, r.Header.Get(name))
	}
	for _, name := range []string{"token", "key", "api_key", "secret", "access_token"} {
		if value, err := QueryParam(r, name); err == nil {
			add("in the parameter "+name, value)
		}
	}
	return all
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

func fromBase64(text string) string {
	raw, err := base64.StdEncoding.DecodeString(text)
	if err != nil {
		return ""
	}
	return string(raw)
}

// Alternatives implements [Alternator].
func (m *MutualTLS) Alternatives(r *http.Request, _ []Offer) iter.Seq[Alternative] {
	return func(yield func(Alternative) bool) {
		if m.Check() != nil {
			return
		}
		cert, err := m.client(r)
		if err != nil {
			return
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
		yield(Alternative{Mistake: CertificateNamed, Detail: detail, Scheme: c})
	}
}

// Offers implements [Alternator]: a certificate is not offered.
func (m *MutualTLS) Offers(context.Context) []Offer { return nil }
