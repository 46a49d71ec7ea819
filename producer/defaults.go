package producer

import (
	"cmp"
	"fmt"
	"maps"
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
	p = p.Tenants.install(p)
	p.Tolerance = p.Tolerance.WithDefaults()
	if p.Fingerprint == nil {
		p.Fingerprint = FingerprintBody
	}
	p.Window, p.MaxBody = cmp.Or(p.Window, DefaultWindow), cmp.Or(p.MaxBody, DefaultMaxBody)
	p.Rate, p.NonceRate = p.Rate.WithDefaults(), p.NonceRate.WithDefaults()
	if slices.Contains(p.Methods, http.MethodHead) {
		p.Pings = append(slices.Clone(p.Pings), http.MethodHead)
	}
	p.Methods = slices.DeleteFunc(slices.Clone(p.Methods), func(m string) bool { return m == http.MethodHead })
	if len(p.Methods) == 0 {
		p.Methods = []string{http.MethodPost}
	}
	p.Authenticate = cmp.Or(p.Authenticate, challenges(p.Scheme, p.Name))
	p.Accepted.Status = cmp.Or(p.Accepted.Status, byContract(p.Contract, http.StatusAccepted, http.StatusOK))
	p.InFlight = cmp.Or(p.InFlight, byContract(p.Contract, http.StatusConflict, http.StatusServiceUnavailable))
	p.SameSigned = cmp.Or(p.SameSigned, byContract(p.Contract, SameSignedRefuse, SameSignedQuarantine))
	if p.Deprecated.IsZero() {
		p.Deprecated = p.Retire
	}
	p.Source = p.Source.withDefaults()
	p = p.withCredentials()
	if p.Echo != nil {
		p = p.Echo.install(p)
	}
	p = withPings(p)
	for _, name := range p.SecretQuery {
		p.ScopeIgnores = including(p.ScopeIgnores, name)
	}
	p = p.withCoverage()
	if scheme, ok := p.Scheme.(interface{ SignsURL() bool }); ok && scheme.SignsURL() {
		p.SignsURL = true
	}
	return p
}

func byContract[T any](c Contract, api, webhook T) T {
	if c == API {
		return api
	}
	return webhook
}

// withCoverage makes RFC 9421 schemes require what the endpoint reads, and not what it pins.
func (p Producer) withCoverage() Producer {
	consumed := p.consumed()
	pinned, why := p.pinned()
	// The default profile covers query and body.
	consumed = slices.DeleteFunc(consumed, func(part string) bool { return strings.HasPrefix(part, "@") })
	p.Scheme = verify.MapParts(p.Scheme, func(s verify.Scheme) verify.Scheme {
		scheme, ok := s.(*verify.RFC9421)
		if !ok {
			return s
		}
		coverage := scheme.Coverage
		coverage.Pinned, coverage.Why, coverage.Consumed = pinned, why, slices.Clone(coverage.Consumed)
		for _, field := range consumed {
			coverage.Consumed = including(coverage.Consumed, field)
		}
		old := &scheme.Coverage
		if pinned == old.Pinned && maps.Equal(why, old.Why) && len(coverage.Consumed) == len(old.Consumed) {
			return s
		}
		return scheme.WithCoverage(coverage) // the scheme may be in use
	})
	return p
}

// pinned derives what the configuration leaves one value for, and why the other components must be
// covered. Functions may read all of a request.
func (p *Producer) pinned() (out verify.Pinned, why map[string]string) {
	methods := slices.Concat(p.Methods, p.ChallengeMethods)
	slices.Sort(methods)
	methods = slices.DeleteFunc(methods, func(m string) bool { return m == http.MethodHead }) // brings no event
	methods = slices.Compact(methods)
	opaque := p.Split != nil || p.Attributes != nil || p.Payload != nil || p.Handshake != nil || p.Repeatable != nil ||
		!sameFunc(p.Fingerprint, FingerprintBody)
	kind := ""
	if len(p.MediaTypes) == 1 && !strings.ContainsAny(p.MediaTypes[0], "*;") {
		kind = strings.ToLower(p.MediaTypes[0])
	}
	why = p.readers()
	reader := func(names ...string) (by string) {
		for _, name := range names {
			by = cmp.Or(by, why[name])
		}
		return by
	}
	const function = "a function of the producer may read it"
	for _, demand := range []struct {
		component, why string
		holds          bool
	}{
		{"@method", "several methods are accepted", len(methods) != 1},
		{"@query", reader("@query", "@query-param", "@target-uri"), true},
		{"@query", function, opaque},
		{"@query", "it is part of what identifies an event (query_scope)", p.QueryScope},
		{"@query", "a credential is in it", len(p.SecretQuery) > 0},
		{"@query", "the configured URL has one", strings.Contains(p.URL, "?")},
		{"@path", reader("@path", "@authority", "@scheme", "@target-uri"), true},
		{"@path", function, opaque},
		{"@path", "it is part of what identifies an event (query_scope)", p.QueryScope},
		{"@path", "the sender may sign for other endpoints too", !p.solely},
		{"idempotency-key", reader("idempotency-key"), true},
		{"idempotency-key", function, opaque},
		{"content-type", function, opaque},
		{"content-type", "a member of the form is read", p.FormMember != ""},
		{"content-type", "not one media type alone is accepted", kind == ""},
	} {
		if demand.holds && why[demand.component] == "" {
			why[demand.component] = demand.why
		}
	}
	if why["@method"] == "" {
		out.Method = methods[0]
	}
	out.NoKey = why["idempotency-key"] == ""
	if why["content-type"] == "" {
		out.MediaType = kind
	}
	out.Query, out.URL = why["@query"] == "", why["@path"] == ""
	why["@authority"], why["@target-uri"] = why["@path"], why["@path"]
	return out, why
}

// readers returns the parts of a request that are consumed, each with what reads it.
func (p *Producer) readers() map[string]string {
	why := map[string]string{}
	read := func(by string, parts []string) {
		for _, part := range parts {
			part, _, _ = strings.Cut(part, ";")
			why[part] = cmp.Or(why[part], by+" reads it")
		}
	}
	extractors := []Extractor{p.Key, p.Type, nil}
	if p.Audience != nil {
		extractors[2] = p.Audience.From
	}
	for i, x := range extractors {
		if x != nil {
			read([]string{"the key", "the type", "the audience"}[i], x.Consumes())
		}
	}
	read("a handler", p.Reads)
	return why
}

// Pinned returns what the signatures of the producer need not cover by RFC 9421: MediaType is then
// the type of deliveries whose signature does not cover Content-Type. It is zero for other schemes.
func (p *Producer) Pinned() (out verify.Pinned) {
	eachScheme(p.Scheme, func(*verify.RFC9421) { out, _ = p.pinned() })
	return out
}

// eachScheme calls f for a scheme of the type, or for each of verify.All and verify.Any.
func eachScheme[T verify.Scheme](s verify.Scheme, f func(T)) {
	for _, one := range verify.Parts(s) {
		if scheme, ok := one.(T); ok {
			f(scheme)
		}
	}
}

// including returns the names and one more, in a new slice unless they contain it.
func including(names []string, name string) []string {
	if slices.Contains(names, name) {
		return names
	}
	return append(slices.Clone(names), name)
}

// withCredentials keeps the credentials of the schemes out of stores and logs.
func (p Producer) withCredentials() Producer {
	eachScheme(p.Scheme, func(scheme *verify.Static) {
		switch {
		case scheme.Name == "":
		case scheme.In == verify.InHeader:
			p.SecretHeaders = including(p.SecretHeaders, scheme.Name)
		case scheme.In == verify.InQuery, scheme.In == verify.InBearer:
			p.SecretQuery = including(p.SecretQuery, scheme.Name)
		}
	})
	eachScheme(p.Scheme, func(scheme *verify.JWT) {
		if scheme.Field != "" && scheme.BodyClaim == "" { // the token is good for any body
			p.SecretHeaders = including(p.SecretHeaders, scheme.Field)
		}
	})
	return p
}

// challenges returns the field WWW-Authenticate for a scheme.
func challenges(scheme verify.Scheme, realm string) string {
	var all []string
	for _, part := range verify.Parts(scheme) {
		if c := challenge(part, realm); !slices.Contains(all, c) {
			all = append(all, c)
		}
	}
	return strings.Join(all, ", ")
}

// challenge returns the challenge of one scheme. IANA registers none for signatures; Signature
// is our name.
func challenge(scheme verify.Scheme, realm string) string {
	switch s := scheme.(type) {
	case *verify.JWT:
		if !s.Body && s.Field == "" {
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
