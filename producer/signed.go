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

// consumed are the header fields that decide what an event is called and of which type it is.
func (p *Producer) consumed() []string {
	var fields []string
	for _, x := range []Extractor{p.Key, p.Type} {
		if x != nil {
			fields = append(fields, x.Consumes()...)
		}
	}
	slices.Sort(fields)
	return slices.Compact(fields)
}

// withCoverage makes an RFC 9421 scheme demand that the consumed fields are signed.
func (p Producer) withCoverage() Producer {
	scheme, ok := p.Scheme.(*verify.RFC9421)
	if !ok || len(scheme.Coverage.Exactly) > 0 {
		return p
	}
	missing := slices.DeleteFunc(p.consumed(), func(f string) bool { return slices.Contains(scheme.Coverage.Consumed, f) })
	if len(missing) == 0 {
		return p
	}
	coverage := scheme.Coverage
	coverage.Consumed = append(slices.Clone(coverage.Consumed), missing...)
	// The scheme may be in use, so it is not changed.
	p.Scheme = &verify.RFC9421{
		Keys: scheme.Keys, Label: scheme.Label, Tag: scheme.Tag, BoundKey: scheme.BoundKey, Coverage: coverage,
		KeyRequired: scheme.KeyRequired, Algs: scheme.Algs,
	}
	return p
}

// checkCoverage refuses an exact coverage that leaves out what names the event.
func (p *Producer) checkCoverage() error {
	scheme, ok := p.Scheme.(*verify.RFC9421)
	if !ok || len(scheme.Coverage.Exactly) == 0 {
		return nil
	}
	var bare []string
	for _, field := range p.consumed() {
		if !slices.Contains(scheme.Coverage.Exactly, field) {
			bare = append(bare, field)
		}
	}
	if len(bare) == 0 {
		return nil
	}
	return fmt.Errorf("the coverage leaves out %s, which the key or the type is read from: anybody could change it", strings.Join(bare, ", "))
}
