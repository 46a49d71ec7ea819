package producer

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/eyelet-dev/eyelet/verify"
)

// Defaults of a [Producer].
const (
	DefaultWindow  = 24 * time.Hour
	DefaultMaxBody = 1 << 20
)

// WithDefaults returns the producer with defaults in its zero fields. It also sets what follows
// from the scheme: SignsURL, and the fields and parameters of its credentials. SecretQuery is
// added to ScopeIgnores, because a credential does not identify an event.
func (p Producer) WithDefaults() Producer {
	p.Tolerance = p.Tolerance.WithDefaults()
	if p.Fingerprint == nil {
		p.Fingerprint = FingerprintBody
	}
	if p.Window == 0 {
		p.Window = DefaultWindow
	}
	if p.MaxBody == 0 {
		p.MaxBody = DefaultMaxBody
	}
	p.Rate = p.Rate.WithDefaults()
	if len(p.Methods) == 0 {
		p.Methods = []string{http.MethodPost}
	}
	if p.Authenticate == "" {
		p.Authenticate = challenges(p.Scheme, p.Name)
	}
	if p.Accepted.Status == 0 {
		p.Accepted.Status = byContract(p.Contract, http.StatusAccepted, http.StatusOK)
	}
	if p.InFlight == 0 {
		p.InFlight = byContract(p.Contract, http.StatusConflict, http.StatusServiceUnavailable)
	}
	if p.Deprecated.IsZero() {
		p.Deprecated = p.Retire
	}
	if p.SameSigned == SameSignedDefault {
		p.SameSigned = byContract(p.Contract, SameSignedRefuse, SameSignedQuarantine)
	}
	if scheme, ok := p.Scheme.(interface{ SignsURL() bool }); ok && scheme.SignsURL() {
		p.SignsURL = true
	}
	p = p.withCredentials()
	for _, name := range p.SecretQuery {
		if !slices.Contains(p.ScopeIgnores, name) {
			p.ScopeIgnores = append(slices.Clone(p.ScopeIgnores), name)
		}
	}
	return p.withCoverage()
}

func byContract[T any](c Contract, api, webhook T) T {
	if c == API {
		return api
	}
	return webhook
}

// withCoverage makes RFC 9421 schemes require that the consumed fields are covered.
func (p Producer) withCoverage() Producer {
	// The default profile covers query and body.
	consumed := slices.DeleteFunc(p.consumed(), func(part string) bool { return strings.HasPrefix(part, "@") })
	p.Scheme = mapScheme(p.Scheme, func(s verify.Scheme) verify.Scheme {
		scheme, ok := s.(*verify.RFC9421)
		if !ok || len(scheme.Coverage.Exactly) > 0 {
			return s
		}
		missing := slices.DeleteFunc(slices.Clone(consumed), func(f string) bool {
			return slices.Contains(scheme.Coverage.Consumed, f)
		})
		if len(missing) == 0 {
			return s
		}
		coverage := scheme.Coverage
		coverage.Consumed = append(slices.Clone(coverage.Consumed), missing...)
		// The scheme may be in use: return a changed copy.
		return &verify.RFC9421{
			Keys: scheme.Keys, Label: scheme.Label, Tag: scheme.Tag, BoundKey: scheme.BoundKey, Coverage: coverage,
			KeyRequired: scheme.KeyRequired, Algs: scheme.Algs,
		}
	})
	return p
}

// mapScheme replaces a scheme, or each scheme of verify.All.
func mapScheme(s verify.Scheme, f func(verify.Scheme) verify.Scheme) verify.Scheme {
	all, ok := s.(verify.All)
	if !ok {
		return f(s)
	}
	mapped := make(verify.All, len(all))
	for i, one := range all {
		mapped[i] = mapScheme(one, f)
	}
	return mapped
}

// withCredentials keeps the credentials of the schemes out of stores and logs.
func (p Producer) withCredentials() Producer {
	add := func(names []string, name string) []string {
		if slices.Contains(names, name) {
			return names
		}
		return append(slices.Clone(names), name)
	}
	mapScheme(p.Scheme, func(s verify.Scheme) verify.Scheme {
		scheme, ok := s.(*verify.Static)
		switch {
		case !ok || scheme.Name == "":
		case scheme.In == verify.InHeader:
			p.SecretHeaders = add(p.SecretHeaders, scheme.Name)
		case scheme.In == verify.InQuery, scheme.In == verify.InBearer:
			p.SecretQuery = add(p.SecretQuery, scheme.Name)
		}
		return s
	})
	return p
}

// challenges returns the field WWW-Authenticate for a scheme.
func challenges(scheme verify.Scheme, realm string) string {
	var all []string
	mapScheme(scheme, func(s verify.Scheme) verify.Scheme {
		if c := challenge(s, realm); !slices.Contains(all, c) {
			all = append(all, c)
		}
		return s
	})
	return strings.Join(all, ", ")
}

// challenge returns the challenge of one scheme. IANA registers none for signatures; Signature
// is our name.
func challenge(scheme verify.Scheme, realm string) string {
	switch s := scheme.(type) {
	case *verify.JWT:
		if !s.Body {
			return fmt.Sprintf("Bearer realm=%q", realm)
		}
	case *verify.Static:
		switch s.In {
		case verify.InBearer:
			return fmt.Sprintf("Bearer realm=%q", realm)
		case verify.InBasic:
			return fmt.Sprintf("Basic realm=%q, charset=\"UTF-8\"", realm)
		}
	}
	return fmt.Sprintf("Signature realm=%q", realm)
}
