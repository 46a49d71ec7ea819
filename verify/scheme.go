package verify

import (
	"cmp"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"
)

// Binding is what every signature of a scheme binds, as far as the configuration determines it.
type Binding struct {
	Content bool // identities have a digest of the signed content (Identity.Signed)
	Time    bool // signatures have a signed time
	// TimeField is the field with the signed time, in lower case; "" if it is elsewhere.
	TimeField string
	// Covered is what is bound, as in Identity.Covered. "x-*" is every field with this prefix.
	Covered   []string
	Malleable bool // different deliveries can share a signature (Identity.Malleable)
	// Form returns the form of a body that all bodies with one signature share, if only the body
	// makes the scheme malleable; nil if it does not, or if there is no such form.
	Form func(body []byte) []byte
	// Principals are the identities that signatures may prove, as in Identity.Principal; nil is the
	// producer itself alone. Unused are those of its schemes that [Any] does not prove.
	Principals, Unused []string
}

// proves returns Principals or its default.
func (b Binding) proves() []string {
	if b.Principals == nil {
		return []string{""}
	}
	return b.Principals
}

// bindingOf returns the binding of a scheme. One that is not a Binder binds nothing.
func bindingOf(s Scheme) Binding {
	if b, ok := s.(Binder); ok {
		return b.Binds()
	}
	return Binding{}
}

func (b Binding) covers(part string) bool {
	return (Identity{Covered: b.Covered}).Covers(part) || slices.ContainsFunc(b.Covered, func(name string) bool {
		prefix, many := strings.CutSuffix(name, "*")
		return many && strings.HasPrefix(part, prefix)
	})
}

func (b Binding) form(body []byte) []byte {
	if b.Form == nil {
		return body
	}
	return b.Form(body)
}

// Binder is an optional interface of schemes. All schemes of this package have it.
type Binder interface {
	// Binds returns what every signature of the scheme binds.
	Binds() Binding
}

// PublishedAlgorithms returns the algorithms that the policy publishes for a scheme (RFC 9421
// section 1.4), each once: those of RFC 9421 signatures and of tokens. Other schemes describe
// their algorithm in words.
func PublishedAlgorithms(scheme Scheme) []string {
	var names []string
	parts := Parts(scheme)
	for _, part := range parts {
		switch s := part.(type) {
		case *RFC9421:
			for _, alg := range s.algs() {
				names = append(names, string(alg))
			}
		case *JWT:
			names = append(names, s.Algorithms...)
		}
	}
	if len(parts) > 1 {
		slices.Sort(names)
	}
	return slices.Compact(names)
}

// MapParts replaces a scheme, or each scheme that it combines by [All] and [Any].
func MapParts(scheme Scheme, f func(Scheme) Scheme) Scheme {
	switch several := scheme.(type) {
	case All:
		mapped := make(All, len(several))
		for i, one := range several {
			mapped[i] = MapParts(one, f)
		}
		return mapped
	case Any:
		return Any{MapParts(several[0], f), MapParts(several[1], f)}
	}
	return f(scheme)
}

// Parts returns the schemes that a scheme combines by [All] and [Any], in their order, or itself.
func Parts(scheme Scheme) (parts []Scheme) {
	MapParts(scheme, func(one Scheme) Scheme {
		parts = append(parts, one)
		return one
	})
	return parts
}

// tried returns the scheme that an [Alternative] tries with other rules.
func tried(scheme Scheme) Scheme {
	switch trial := scheme.(type) {
	case *rfc9421Trial:
		return trial.RFC9421
	case *jwtTrial:
		return trial.JWT
	}
	return scheme
}

// All requires that every scheme accepts the request, such as basic authentication and a signature.
// The identity combines what the schemes prove. Of conflicting values the last counts, of digests
// the last one with a time.
type All []Scheme

// Check reports all errors of the schemes.
func (a All) Check() error {
	if len(a) == 0 {
		return errors.New("no scheme is set")
	}
	var errs []error
	for _, s := range a {
		if c, ok := s.(interface{ Check() error }); ok {
			errs = append(errs, c.Check())
		}
	}
	return errors.Join(errs...)
}

// SignsURL reports whether one of the schemes signs the URL.
func (a All) SignsURL() bool {
	return slices.ContainsFunc(a, func(s Scheme) bool {
		one, ok := s.(interface{ SignsURL() bool })
		return ok && one.SignsURL()
	})
}

// Verify implements [Scheme].
func (a All) Verify(r *http.Request, body func() ([]byte, error)) (Identity, error) {
	if len(a) == 0 {
		return Identity{}, &Error{Code: KeysUnavailable, Err: a.Check()}
	}
	var all Identity
	for _, s := range a {
		id, err := s.Verify(r, body)
		if err != nil {
			return Identity{}, err
		}
		all = all.and(id)
	}
	return all, nil
}

// AcceptSignature returns the Accept-Signature field of the first scheme that has one, else "".
func (a All) AcceptSignature() string {
	for _, s := range a {
		if one, ok := s.(interface{ AcceptSignature() string }); ok && one.AcceptSignature() != "" {
			return one.AcceptSignature()
		}
	}
	return ""
}

// Sign signs with every scheme in turn.
func (a All) Sign(r *http.Request, body []byte, now time.Time) error {
	for _, s := range a {
		signer, ok := s.(interface {
			Sign(r *http.Request, body []byte, now time.Time) error
		})
		if !ok {
			return fmt.Errorf("sign: a %T cannot sign", s)
		}
		if err := signer.Sign(r, body, now); err != nil {
			return err
		}
	}
	return nil
}

// String describes the schemes for the policy.
func (a All) String() string {
	var parts []string
	for _, s := range a {
		if t, ok := s.(fmt.Stringer); ok {
			parts = append(parts, t.String())
		}
	}
	return strings.Join(parts, ", and ")
}

// Binds implements [Binder]. It combines the bindings of the schemes as Verify combines what they
// prove.
func (a All) Binds() Binding {
	var all Binding
	for _, s := range a {
		one := bindingOf(s)
		if takesContent(all.Content, all.Time, one.Content, one.Time) {
			all.Content, all.Malleable, all.Form = true, one.Malleable, one.Form
		}
		if one.Time {
			all.Time, all.TimeField = true, one.TimeField
		}
		all.Covered = append(all.Covered, one.Covered...)
		all.Unused = append(all.Unused, one.Unused...)
		all.Principals = bothPrincipals(all.proves(), one.proves())
	}
	return all
}

// bothPrincipals returns what two schemes prove together: a principal of one of them, the producer
// itself if neither has another.
func bothPrincipals(a, b []string) []string {
	all := slices.DeleteFunc(slices.Concat(a, b), func(name string) bool { return name == "" })
	if slices.Contains(a, "") && slices.Contains(b, "") {
		all = append(all, "")
	}
	return all
}

// takesContent reports whether the digest of the second of two schemes counts: the last one, but
// none without a time beside one with a time, because it cannot tell two equal messages apart.
func takesContent(content, timed, moreContent, moreTimed bool) bool {
	return moreContent && (moreTimed || !timed || !content)
}

// and combines what two schemes proved of one request.
func (id Identity) and(more Identity) Identity {
	id.KeyID, id.Principal = cmp.Or(more.KeyID, id.KeyID), cmp.Or(more.Principal, id.Principal)
	id.Secret = cmp.Or(more.Secret, id.Secret)
	id.Label, id.Nonce = cmp.Or(more.Label, id.Label), cmp.Or(more.Nonce, id.Nonce)
	if more.NotBefore.After(id.NotBefore) {
		id.NotBefore = more.NotBefore
	}
	if id.Expires.IsZero() || !more.Expires.IsZero() && more.Expires.Before(id.Expires) {
		id.Expires, id.ExpiredCode = more.Expires, more.ExpiredCode
	}
	id.Covered = append(slices.Clone(id.Covered), more.Covered...)
	if takesContent(id.Signed != nil, id.Timed(), more.Signed != nil, more.Timed()) {
		id.Signed, id.Stable, id.Malleable = more.Signed, more.Stable, more.Malleable
	}
	if more.Timed() || !more.SignedAt.IsZero() && !id.Timed() {
		id.SignedAt, id.OwnTime = more.SignedAt, more.OwnTime
	}
	if id.Created.IsZero() || !more.Created.IsZero() && more.Created.Before(id.Created) {
		id.Created = more.Created
	}
	if more.Claims != nil {
		id.Claims = more.Claims
	}
	return id
}

// Claimed is what a request says about one of its signatures or tokens. None of it is verified: it
// explains a refusal to a person, and nothing may be decided by it.
type Claimed struct {
	Label, KeyID, Alg            string    // empty if the request does not say them
	SignedAt, NotBefore, Expires time.Time // zero if the request does not say them
	Covered                      []string  // as in [Identity]
}

// ClaimedIn returns what a request says about the signatures and tokens that the scheme verifies.
// It finds nothing in requests that are too malformed to tell, and in schemes without times and key
// ids.
func ClaimedIn(scheme Scheme, r *http.Request, body []byte) (all []Claimed) {
	for _, part := range Parts(scheme) {
		switch s := tried(part).(type) {
		case *RFC9421:
			for _, sent := range sentSignatures(r.Header, s.Encoding) {
				in := &sent.in
				all = append(all, Claimed{Label: in.label, KeyID: in.keyID, Alg: in.alg, Covered: sent.Covers(),
					SignedAt: unixTime(in.created, in.hasCreated), Expires: unixTime(in.expires, in.hasExpires)})
			}
		case *HMAC:
			if s.Check() != nil {
				continue
			}
			if head, sigs, err := s.plan.read(r, nil); err == nil {
				covered := s.plan.covered[head.header]
				all = append(all, Claimed{KeyID: sigs[0].kid, SignedAt: head.signedAt, Covered: covered})
			}
		case *JWT:
			compact, err := s.find(r, func() ([]byte, error) { return body, nil })
			if err != nil {
				continue
			}
			if t, err := parseToken(compact); err == nil {
				all = append(all, s.claimed(t))
			}
		}
	}
	return all
}

// HeadFirst reports whether the scheme asks for the body only after it verified the head.
func HeadFirst(scheme Scheme) bool {
	return !slices.ContainsFunc(Parts(scheme), func(part Scheme) bool {
		switch s := tried(part).(type) {
		case *RFC9421, *Static, *MutualTLS:
			return false
		case *JWT:
			return s.Body
		}
		return true
	})
}

func unixTime(seconds int64, ok bool) time.Time {
	if !ok {
		return time.Time{}
	}
	return time.Unix(seconds, 0)
}

// claimed leaves out the times that are not numbers.
func (j *JWT) claimed(t *parsedToken) Claimed {
	times := t.claims
	if j.HeaderTimes {
		times = t.header
	}
	c := Claimed{KeyID: shortID(t.kid), Alg: t.alg}
	c.SignedAt, _ = numericDate(times, "iat")
	c.NotBefore, _ = numericDate(times, "nbf")
	c.Expires, _ = numericDate(times, "exp")
	return c
}
