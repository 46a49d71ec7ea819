package producer

import (
	"slices"

	"github.com/eyelet-dev/eyelet/verify"
)

// Class says what identifies the events of a producer. It follows from what signatures cover, not from who sends.
type Class int

// The classes.
const (
	// ClassUnknown is that of schemes that do not say what they bind ([verify.Binder]). Each delivery tells.
	ClassUnknown Class = iota
	// ClassIDSigned: the signature covers the identifier, which names the event.
	ClassIDSigned
	// ClassTimeSigned: the signature covers a time and not the identifier. The identifier names the event, or the
	// digest of the signed content where none is sent; the same signed bytes are recognised under any identifier.
	ClassTimeSigned
	// ClassContentSigned: the signature covers neither a time nor the identifier that is sent. The digest of the signed
	// content names the event, and the identifier an occurrence of it.
	ClassContentSigned
	// ClassUnnamed: the signature covers no time, and no identifier is sent. The digest of the signed content names the
	// event.
	ClassUnnamed
	// ClassUnsigned: nothing of the event is signed. The identifier names it.
	ClassUnsigned
)

// String says the class in a few words.
func (c Class) String() string {
	switch c {
	case ClassIDSigned:
		return "id signed"
	case ClassTimeSigned:
		return "time signed, id not"
	case ClassContentSigned:
		return "neither id nor time signed"
	case ClassUnnamed:
		return "no id, no time"
	case ClassUnsigned:
		return "nothing signed"
	}
	return "decided for each delivery"
}

// Names says what an event of the class is unique by, for the policy.
func (c Class) Names() string {
	switch c {
	case ClassIDSigned:
		return "the identifier, which is signed"
	case ClassTimeSigned:
		return "the identifier, or where none is sent a digest of the signed content; the same signed bytes are recognised under any identifier"
	case ClassContentSigned:
		return "a digest of the signed content and the number of its occurrence; the identifier is not signed, and tells retries from other occurrences"
	case ClassUnnamed:
		return "a digest of the signed content"
	case ClassUnsigned:
		return "the identifier; nothing of the event is signed"
	}
	return "what the signature of the delivery covers"
}

// Class returns the class of the producer's events, as far as the scheme says it before any delivery.
func (p *Producer) Class() Class {
	if p.Scheme == nil {
		return ClassUnsigned
	}
	scheme, ok := p.Scheme.(verify.Binder)
	if !ok {
		return ClassUnknown
	}
	b := scheme.Binds()
	return p.classOf(b.Content || len(b.Covered) > 0, b.Time, verify.Identity{Covered: b.Covered, Malleable: b.Malleable})
}

// ClassOf returns the class of a verified delivery.
func (p *Producer) ClassOf(id verify.Identity) Class {
	return p.classOf(id.Signed != nil, !id.SignedAt.IsZero(), id)
}

func (p *Producer) classOf(signed, timed bool, id verify.Identity) Class {
	switch {
	case !signed:
		return ClassUnsigned
	case p.Split != nil:
		return ClassIDSigned // the items of a batch are named by the signed body
	case p.named() && p.bindsName(id):
		return ClassIDSigned
	case timed:
		return ClassTimeSigned
	case p.named():
		return ClassContentSigned
	}
	return ClassUnnamed
}

// bindsName reports whether the signature binds the identifier. Where other deliveries can have the same signature, bytes
// can be moved from one part of what is signed to another: only an identifier within the body is bound then.
func (p *Producer) bindsName(id verify.Identity) bool {
	return !slices.ContainsFunc(p.Key.Consumes(), func(part string) bool {
		return !id.Covers(part) || id.Malleable && part != "@body"
	})
}

// named reports whether the sender's events have identifiers, and not digests of the body only.
func (p *Producer) named() bool {
	_, digest := p.Key.(bodyDigest)
	return p.Key != nil && !digest
}
