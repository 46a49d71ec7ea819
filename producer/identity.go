package producer

import (
	"cmp"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/eyelet-dev/eyelet/internal/strictjson"
	"github.com/eyelet-dev/eyelet/verify"
)

// Class is what identifies the events of a producer. It follows from what signatures cover:
//
//	stripe, github := preset.Stripe(secret), preset.GitHub(secret)
//	stripe.Class() // ClassIDSigned: the identifier is in the body, which is signed
//	github.Class() // ClassContentSigned: the body is signed, X-GitHub-Delivery is not
//
// A client that captured a delivery of GitHub can send it again under another identifier. That must
// not be another event, so a digest of the body identifies it.
type Class int

// The classes.
const (
	// ClassUnknown: the scheme is not a [verify.Binder]. The class is known for each delivery only.
	ClassUnknown Class = iota
	// ClassIDSigned: the signature covers the identifier, which identifies the event.
	ClassIDSigned
	// ClassTimeSigned: the signature covers a time but not the identifier. The identifier, or a
	// digest of the signed content if none is sent, identifies the event. The same signed bytes
	// are detected under any identifier.
	ClassTimeSigned
	// ClassContentSigned: the signature covers neither a time nor the identifier. A digest of
	// the signed content identifies the event, and the identifier an occurrence of it.
	ClassContentSigned
	// ClassUnnamed: the signature covers no time, and no identifier is sent. A digest of the
	// signed content identifies the event.
	ClassUnnamed
	// ClassUnsigned: nothing of the event is signed. The identifier identifies it.
	ClassUnsigned
)

// classTexts are the results of String and UniqueBy. ClassUnknown has none.
var classTexts = map[Class]struct{ short, uniqueBy string }{
	ClassIDSigned: {"id signed", "the identifier, which is signed"},
	ClassTimeSigned: {"time signed, id not", "the identifier, or where none is sent a digest of the signed content; " +
		"the same signed bytes are recognised under any identifier"},
	ClassContentSigned: {"neither id nor time signed", "a digest of the signed content and the number of its " +
		"occurrence; the identifier is not signed, and separates retries from other occurrences"},
	ClassUnnamed:  {"no id, no time", "a digest of the signed content"},
	ClassUnsigned: {"nothing signed", "the identifier; nothing of the event is signed"},
}

// String returns the class in a few words.
func (c Class) String() string { return cmp.Or(classTexts[c].short, "decided for each delivery") }

// UniqueBy describes what identifies an event of the class, for the policy.
func (c Class) UniqueBy() string {
	return cmp.Or(classTexts[c].uniqueBy, "what the signature of the delivery covers")
}

// Class returns the class of the producer's events as far as it is known before any delivery.
func (p *Producer) Class() Class {
	if p.Scheme == nil {
		return ClassUnsigned
	}
	scheme, ok := p.Scheme.(verify.Binder)
	if !ok {
		return ClassUnknown
	}
	b := scheme.Binds()
	id := verify.Identity{Covered: b.Covered, Malleable: b.Malleable}
	return p.classOf(b.Content || len(b.Covered) > 0, b.Time, id)
}

// ClassOf returns the class of a verified delivery.
func (p *Producer) ClassOf(id verify.Identity) Class {
	return p.classOf(id.Signed != nil, id.Timed(), id)
}

func (p *Producer) classOf(signed, timed bool, id verify.Identity) Class {
	switch {
	case !signed:
		return ClassUnsigned
	case p.Split != nil:
		return ClassIDSigned // the identifiers of a batch are in the signed body
	case p.hasIDs() && p.coversID(id):
		return ClassIDSigned
	case timed:
		return ClassTimeSigned
	case p.hasIDs():
		return ClassContentSigned
	}
	return ClassUnnamed
}

// coversID reports whether the signature covers the identifier. Under a malleable signature
// bytes can be moved between the signed parts, so it covers only an identifier within the body.
func (p *Producer) coversID(id verify.Identity) bool {
	return !slices.ContainsFunc(p.Key.Consumes(), func(part string) bool {
		return !id.Covers(part) || id.Malleable && part != "@body"
	})
}

// Binds reports whether every proof that the producer accepts binds a part of the request, in the
// form of [Extractor.Consumes], so that it is unchanged in every delivery. Where nothing is
// signed it reports true, because a client with the credential chooses all parts.
func (p *Producer) Binds(part string) bool { return p.Scheme == nil || binds(p.Scheme, part) }

func binds(s verify.Scheme, part string) bool {
	if !signs(s) {
		return true
	}
	switch several := s.(type) {
	case verify.All:
		return slices.ContainsFunc(several, func(one verify.Scheme) bool { return signs(one) && binds(one, part) })
	case verify.Any:
		return binds(several[0], part) && binds(several[1], part)
	}
	scheme, ok := s.(verify.Binder)
	if !ok {
		return false
	}
	b := scheme.Binds()
	return verify.Identity{Covered: b.Covered}.Covers(part) && (!b.Malleable || b.Form != nil)
}

// signs reports whether a scheme, or one that it combines, signs a part of the event, or may do so.
func signs(s verify.Scheme) bool {
	return slices.ContainsFunc(verify.Parts(s), func(one verify.Scheme) bool {
		scheme, ok := one.(verify.Binder)
		return !ok || scheme.Binds().Content || len(scheme.Binds().Covered) > 0
	})
}

// Principal returns the only principal of all deliveries, and false if there may be several.
func (p *Producer) Principal() (name string, fixed bool) {
	scheme, ok := p.Scheme.(verify.Binder)
	if !ok {
		return "", false
	}
	all := scheme.Binds().Principals
	if len(all) == 0 {
		return p.Name, true
	}
	return cmp.Or(all[0], p.Name), len(all) == 1
}

// coversPresent reports whether the signature covers all that the identifier is read from, but for
// fields that are not there: by RFC 9421 nobody can add one that is not covered.
func (p *Producer) coversPresent(d *Delivery) bool {
	if _, signed := p.Scheme.(*verify.RFC9421); !signed {
		return false
	}
	covered := 0
	for _, part := range p.Key.Consumes() {
		if d.Identity.Covers(part) {
			covered++
		} else if part[0] == '@' || len(d.Request.Header.Values(part)) > 0 {
			return false
		}
	}
	return covered > 0
}

// hasIDs reports whether the sender sends identifiers. A digest of the body is not one.
func (p *Producer) hasIDs() bool {
	_, digest := p.Key.(bodyDigest)
	return p.Key != nil && !digest
}

// Repeats is how often signed content may be accepted, each time as a separate event, where the
// signature covers neither an identifier nor a time. The zero value is once.
type Repeats struct {
	// Max is the number of occurrences in a window, the first included.
	Max int
	// Within limits how long after the first occurrence others are accepted. Zero is the window.
	Within time.Duration
}

// maxRuns is the default number of occurrences with SameSignedRun.
const maxRuns = 16

// Occurrence identifies a delivery of [ClassContentSigned].
type Occurrence struct {
	// ID identifies the event: a digest of the signed content, with the type under KeyedByType.
	ID string
	// Digest is the digest alone.
	Digest string
	// Name is the unsigned identifier of this sending, or "".
	Name string
	// Repeats is how often the content may occur.
	Repeats Repeats
	// Members means that the digest covers some members of the body only, so bodies with one
	// digest may differ.
	Members bool
}

// OccurrenceOf returns the occurrence of a delivery's only item. It reports false if an
// identifier identifies the event, because it is signed or trusted (SameSignedOff).
func (p *Producer) OccurrenceOf(d *Delivery, it Item) (Occurrence, bool) {
	if p.SameSigned == SameSignedOff || p.ClassOf(d.Identity) != ClassContentSigned || p.coversPresent(d) {
		return Occurrence{}, false
	}
	digest, members := p.contentDigest(d, it)
	o := Occurrence{Digest: digest, Members: members, Repeats: p.repeats(d, it.Type)}
	o.ID = p.contentKey(digest, it.Type)
	if !it.Unnamed {
		o.Name = it.ID
	}
	if len(o.Name) > MaxKey {
		o.Name = digestID([]byte(o.Name))
	}
	return o, true
}

// contentKey returns the identifier of content of a type.
func (p *Producer) contentKey(digest, typ string) string {
	if p.KeyedByType == nil {
		return digest
	}
	return digest + ";" + strings.ReplaceAll(strings.ReplaceAll(typ, "%", "%25"), ";", "%3B")
}

// BodyIDs returns the identifiers of a delivery's body as content of a type: as it is, and in each
// of the forms.
func (p *Producer) BodyIDs(d *Delivery, typ string, forms []func([]byte) []byte) []string {
	ids := []string{p.contentKey(digestID(d.Body), typ)}
	for _, form := range forms {
		ids = append(ids, p.contentKey(digestID(form(d.Body)), typ))
	}
	return ids
}

// NamesBody reports whether the identifier of content is that of a body, as it is or as canonical
// JSON (RFC 8785).
func NamesBody(id string, body []byte) bool {
	content, _, _ := strings.Cut(id, ";")
	if content == digestID(body) {
		return true
	}
	canonical, err := strictjson.Canonical(body)
	return err == nil && content == digestID(canonical)
}

// contentDigest digests the signed content, or the members that the fingerprint selects.
func (p *Producer) contentDigest(d *Delivery, it Item) (digest string, members bool) {
	if f := p.Fingerprint; f != nil && !sameFunc(f, FingerprintBody) && !sameFunc(f, FingerprintNone) {
		selected := f(d, it)
		if selected != ([32]byte{}) && selected != FingerprintBody(d, it) {
			return sha256ID(selected[:]), true
		}
	}
	return contentID(d), false
}

func sameFunc(a, b FingerprintFunc) bool {
	return reflect.ValueOf(a).Pointer() == reflect.ValueOf(b).Pointer()
}

// contentID returns the digest of the signed content without its time.
func contentID(d *Delivery) string {
	switch id := d.Identity; {
	case id.Stable != nil:
		return sha256ID(id.Stable)
	case id.Signed != nil && !id.Timed():
		return sha256ID(id.Signed)
	}
	return digestID(d.Body)
}

// repeats returns how often the content of a delivery may occur under a type.
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

// Remembers reports whether the events of a verified delivery are remembered beyond their
// window. They are if the signature covers the content but no time: nothing else shows later
// that a captured delivery is old. Content that is a state (Series) may return, and a shared
// credential does not cover content.
func (p *Producer) Remembers(id verify.Identity) bool {
	covered := id.Signed != nil || id.Covers("@body") || id.Covers("@items")
	return covered && !id.Timed() && !p.Forgets && p.Series == nil
}

// HappenedAt returns when the event of a delivery happened, as EventTime reads it. The time is
// zero if it is missing, unreadable or not covered by the signature.
func (p *Producer) HappenedAt(d *Delivery) time.Time {
	uncovered := func(part string) bool { return !d.Identity.Covers(part) }
	if p.EventTime == nil || slices.ContainsFunc(p.EventTime.Consumes(), uncovered) {
		return time.Time{}
	}
	text, err := p.EventTime.Extract(d)
	if err != nil {
		return time.Time{}
	}
	return parseEventTime(text)
}

// minMilliseconds is the first number read as milliseconds since 1970, in 1973. As seconds it
// would be in 5138.
const minMilliseconds = 100_000_000_000

// parseEventTime reads RFC 3339, or seconds or milliseconds since 1970. Anything else is the
// zero time.
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
