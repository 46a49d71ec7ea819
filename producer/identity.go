package producer

import (
	"encoding/hex"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

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

// UniqueBy describes what identifies an event of the class, for the policy.
func (c Class) UniqueBy() string {
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

// Repeats is how often the same signed content may be accepted, each time as an event of its own, where its signature
// covers neither an identifier nor a time. The zero value is once.
type Repeats struct {
	// Max is how many occurrences there may be in a window, the first one included.
	Max int
	// Within is for how long after the first one others are accepted. Zero is the window.
	Within time.Duration
}

// maxRuns is how many occurrences SameSignedRun accepts by default.
const maxRuns = 16

// Occurrence is how a delivery of [ClassContentSigned] is named.
type Occurrence struct {
	// ID is what the event is unique by: a digest of the signed content, and the type where that counts.
	ID string
	// Digest is the part of it that is the content's.
	Digest string
	// Name is the identifier of this sending, which nobody signed; empty where none was sent.
	Name string
	// Repeats is how often the content may occur.
	Repeats Repeats
	// Members says that the digest is one of some members of the body only, so that bodies of one digest may differ.
	Members bool
}

// OccurrenceOf returns how a delivery's only item is named by its signed content. It reports false where something else
// names it: an identifier that is signed, or one that is trusted (SameSignedOff).
func (p *Producer) OccurrenceOf(d *Delivery, it Item) (Occurrence, bool) {
	if p.SameSigned == SameSignedOff || p.ClassOf(d.Identity) != ClassContentSigned {
		return Occurrence{}, false
	}
	digest, members := p.contentDigest(d, it)
	o := Occurrence{ID: digest, Digest: digest, Members: members, Repeats: p.repeats(d, it.Type)}
	if p.KeyedByType {
		o.ID += ";" + strings.ReplaceAll(strings.ReplaceAll(it.Type, "%", "%25"), ";", "%3B")
	}
	switch {
	case p.Sending != nil:
		if name, err := p.Sending.Extract(d); err == nil {
			o.Name = name
		}
	case !it.Unnamed:
		o.Name = it.ID
	}
	if len(o.Name) > MaxKey {
		o.Name = digestID([]byte(o.Name))
	}
	return o, true
}

// contentDigest names the signed content, or the members of it that the fingerprint selects.
func (p *Producer) contentDigest(d *Delivery, it Item) (digest string, members bool) {
	if f := p.Fingerprint; f != nil && !sameFunc(f, FingerprintBody) && !sameFunc(f, FingerprintNone) {
		selected := f(d, it)
		if selected != ([32]byte{}) && selected != FingerprintBody(d, it) {
			return "sha256:" + hex.EncodeToString(selected[:]), true
		}
	}
	return stableID(d), false
}

func sameFunc(a, b FingerprintFunc) bool {
	return reflect.ValueOf(a).Pointer() == reflect.ValueOf(b).Pointer()
}

// stableID is the digest of what was signed of a delivery, without its time.
func stableID(d *Delivery) string {
	switch id := d.Identity; {
	case id.Stable != nil:
		return "sha256:" + hex.EncodeToString(id.Stable)
	case id.Signed != nil && id.SignedAt.IsZero():
		return "sha256:" + hex.EncodeToString(id.Signed)
	}
	return digestID(d.Body)
}

// repeats is how often the content of a delivery may occur under a type.
func (p *Producer) repeats(d *Delivery, typ string) Repeats {
	var r Repeats
	if p.Repeatable != nil {
		r = p.Repeatable(d)
	}
	if p.SameSignedOf(typ) == SameSignedRun {
		r = Repeats{Max: max(r.Max, maxRuns)}
	}
	if p.SameSignedMax > 0 && r.Max > 0 {
		r.Max = p.SameSignedMax
	}
	return r
}

// SameSignedOf returns the policy for content whose first occurrence has the type.
func (p *Producer) SameSignedOf(typ string) SameSigned {
	if s, ok := p.SameSignedTypes[typ]; ok {
		return s
	}
	return p.SameSigned
}

// positionID names an item of a batch that has no identifier by its bytes and its position, counted from 0.
func positionID(body []byte, position int) string {
	if position == 0 {
		return digestID(body)
	}
	return fmt.Sprintf("%s;%d", digestID(body), position+1)
}

// Remembers reports whether the events of a verified delivery are to be remembered beyond their window: where the
// signature binds the content and says no time, nothing else tells later that a captured delivery is old. Content that
// is a state (Series) may come back, and a credential that binds nothing proves nothing about content.
func (p *Producer) Remembers(id verify.Identity) bool {
	return !p.Forgets && p.Series == nil && id.SignedAt.IsZero() && (id.Signed != nil || id.Covers("@body") || id.Covers("@items"))
}

// HappenedAt returns when the event of a delivery happened, as EventTime reads it from what is signed; zero where it says
// nothing, nothing that can be read, or the signature does not cover it.
func (p *Producer) HappenedAt(d *Delivery) time.Time {
	if p.EventTime == nil || slices.ContainsFunc(p.EventTime.Consumes(), func(part string) bool { return !d.Identity.Covers(part) }) {
		return time.Time{}
	}
	text, err := p.EventTime.Extract(d)
	if err != nil {
		return time.Time{}
	}
	return parseEventTime(text)
}

// minMilliseconds is the first number that counts milliseconds since 1970 and not seconds: 1973 as milliseconds, the
// year 5138 as seconds.
const minMilliseconds = 100_000_000_000

// parseEventTime reads a time of RFC 3339, or seconds or milliseconds since 1970; zero for anything else.
func parseEventTime(text string) time.Time {
	if n, err := strconv.ParseInt(text, 10, 64); err == nil {
		switch {
		case n <= 0:
			return time.Time{}
		case n >= minMilliseconds:
			return time.UnixMilli(n).UTC()
		}
		return time.Unix(n, 0).UTC()
	}
	for _, layout := range []string{time.RFC3339, "2006-01-02T15:04:05.999999999-0700"} {
		if at, err := time.Parse(layout, text); err == nil {
			return at.UTC()
		}
	}
	return time.Time{}
}
