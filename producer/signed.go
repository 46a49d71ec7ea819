package producer

import (
	"fmt"
	"slices"
	"strings"

	"github.com/eyelet-dev/eyelet/verify"
)

// Signed describes a producer of your own: it signs its requests as RFC 9421 says, names each event in the
// Idempotency-Key field, and is answered as the Idempotency-Key draft says (the API contract). The event type
// is the member "type" of a JSON body; other bodies have none.
//
// The signature must cover what [verify.Coverage] lists and every header field that Key and Type read, also
// when they are changed afterwards. Identifiers are scoped to the signed URL, its query included, except the
// parameters in ScopeIgnores.
func Signed(name string, keys verify.KeySet) Producer {
	return Producer{
		Name:        name,
		Scheme:      &verify.RFC9421{Keys: keys},
		Contract:    API,
		Key:         IdempotencyKey{},
		KeyRequired: true,
		Type:        JSON("type"),
		SignsURL:    true,
		QueryScope:  true,
	}
}

// consumed is everything of the request that decides what an event is called and what becomes of it.
func (p *Producer) consumed() []string {
	fields := slices.Clone(p.Reads)
	for _, x := range []Extractor{p.Key, p.Type} {
		if x != nil {
			fields = append(fields, x.Consumes()...)
		}
	}
	slices.Sort(fields)
	return slices.Compact(fields)
}

// withCoverage makes RFC 9421 schemes demand that the consumed fields are signed.
func (p Producer) withCoverage() Producer {
	// The query and the body are covered by the default profile.
	consumed := slices.DeleteFunc(p.consumed(), func(part string) bool { return strings.HasPrefix(part, "@") })
	p.Scheme = mapScheme(p.Scheme, func(s verify.Scheme) verify.Scheme {
		scheme, ok := s.(*verify.RFC9421)
		if !ok || len(scheme.Coverage.Exactly) > 0 {
			return s
		}
		missing := slices.DeleteFunc(slices.Clone(consumed), func(f string) bool { return slices.Contains(scheme.Coverage.Consumed, f) })
		if len(missing) == 0 {
			return s
		}
		coverage := scheme.Coverage
		coverage.Consumed = append(slices.Clone(coverage.Consumed), missing...)
		// The scheme may be in use, so it is not changed.
		return &verify.RFC9421{
			Keys: scheme.Keys, Label: scheme.Label, Tag: scheme.Tag, BoundKey: scheme.BoundKey, Coverage: coverage,
			KeyRequired: scheme.KeyRequired, Algs: scheme.Algs,
		}
	})
	return p
}

// mapScheme replaces a scheme, or each of those that are demanded together.
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

// withCredentials keeps what the schemes know to be a shared credential out of stores and logs.
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

// checkCoverage refuses an exact coverage that leaves out what names the event.
func (p *Producer) checkCoverage() error {
	var bare []string
	mapScheme(p.Scheme, func(s verify.Scheme) verify.Scheme {
		scheme, ok := s.(*verify.RFC9421)
		if !ok || len(scheme.Coverage.Exactly) == 0 {
			return s
		}
		bound := verify.Identity{Covered: slices.Clone(scheme.Coverage.Exactly)}
		if bound.Covers("content-digest") {
			bound.Covered = append(bound.Covered, "@body")
		}
		for _, part := range p.consumed() {
			if !bound.Covers(part) {
				bare = append(bare, part)
			}
		}
		return s
	})
	if len(bare) == 0 {
		return nil
	}
	return fmt.Errorf("the coverage leaves out %s, from which the key or the type is read: an attacker could change it", strings.Join(bare, ", "))
}
