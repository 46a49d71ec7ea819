package dedup

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// Occurrence describes a claim whose key is a digest of signed content, for senders that sign
// neither an identifier nor a time. Equal content is then either a repetition of one event or
// another event with equal signed content. Only the unsigned identifier beside it distinguishes
// them.
//
// Claims of a key are decided in this order:
//
//  1. The name belongs to a known occurrence, or to the event with a [Former] name: the claim is
//     about that one.
//  2. The key has no live record: the claim is New under the key itself.
//  3. It has no name: the claim is about the record of the key.
//  4. The type is that of the key's record, and the bounds allow another occurrence: the claim
//     is New under the key that [Key.Occurrence] returns.
//  5. Otherwise the verdict is Repeated, and nothing is stored.
type Occurrence struct {
	// Name is the identifier that came with the content, if any.
	Name string
	// Max is how many occurrences of the content are accepted in a window, including the first.
	// Below 2 there is only one.
	Max int
	// Within is how long after the first occurrence others are accepted. Zero is unlimited.
	Within time.Duration
	// Slots, if any, bound the keys that share them: a new record takes the first slot that no
	// live record has, as an alias. If all are taken, the verdict is Repeated with the record
	// of the first slot. Their Space is SpaceSlot.
	Slots []Key
	// Spare means that the record needs no slot. It takes one if it can.
	Spare bool
}

// Former has the names of an event under other configurations of its producer, whose signatures
// bind something else. They are only looked up: if nothing live has the name of a claim's
// occurrence, or without one its key, a live record with a former name and the same payload is that
// of the event.
type Former struct {
	// Names are keys, and identifiers that came with content (SpaceSent). Of content they name the
	// sending with the claim's identifier only.
	Names []Key
	// Contents are other keys of the content. A claim with an Occurrence is decided under the first
	// of them that has a live record with the same payload. Any other claim is Aliased if such a
	// record may be of the same signature.
	Contents []Key
	// Fingerprint is compared with that of the record. A key also matches a record without one that
	// is not named by its content: its signed identifier is the event whatever the payload.
	Fingerprint Fingerprint
	// Delivery, if not nil, compares records with the delivery of the claim.
	Delivery FormerDelivery
}

// FormerDelivery compares records with a delivery. Stores may call it from any goroutine while they
// decide the claim.
type FormerDelivery interface {
	// SameScope reports whether the configuration gives the record's request the endpoint in the
	// key of the claim. It is asked about records with another one.
	SameScope(Record) bool
	// SameContent reports whether the content of the delivery has the digest in the record's key.
	// It is asked about records without a fingerprint.
	SameContent(Record) bool
	// SameSignature reports whether the record may be of the signature of the delivery, which has
	// a time and no identifier.
	SameSignature(Record) bool
}

// Occurrence returns the key of occurrence n of the content that k is a digest of. The first
// one has k itself.
func (k Key) Occurrence(n int) Key {
	if n > 1 {
		k.ID = fmt.Sprintf("%s;%d", k.ID, n)
	}
	return k
}

// Named returns the alias of the claim's record for the name of its occurrence, and false if it
// has no name.
func (c *Claim) Named() (Key, bool) {
	if c.Occurrence == nil || c.Occurrence.Name == "" {
		return Key{}, false
	}
	k := c.Key
	k.Space, k.ID = SpaceOccurrence+c.Key.ID, c.Occurrence.Name
	return k, true
}

// names returns the aliases of the claim and those of its occurrence. That of SpaceSent is for
// later claims whose [Former] names the event by its identifier, which the digest in the key of a
// configuration that signed other parts does not lead to.
func (c *Claim) names() []Key {
	names := slices.Clip(c.Aliases)
	if named, ok := c.Named(); ok {
		sent := named
		sent.Space = SpaceSent
		names = append(names, named, sent)
	}
	return names
}

// Names returns the aliases of the claim's record: those of the claim, of its occurrence, and
// its series.
func (c *Claim) Names() []Key {
	if c.Series == (Key{}) {
		return c.names()
	}
	return append(c.names(), c.Series)
}

// resolve finds the event that the claim is about, and gives the claim its key and its names, with
// those of its occurrence. It decides a claim that must not be another occurrence.
func (s *Step[R]) resolve(names []Key) (Decision, error) {
	c := &s.claim
	o := c.Occurrence
	if o == nil {
		d, err := s.rename()
		s.content = c.Key
		return d, err
	}
	if c.Series != (Key{}) {
		names = names[:len(names)-1] // it is the last one
	}
	first, err := s.first()
	if err != nil {
		return Decision{}, err
	}
	if first.Event != "" && first.Key != c.Key {
		c.Key = first.Key
		names = c.names()
	}
	named, err := s.named(first, names[len(c.Aliases):])
	if err != nil {
		return Decision{}, err
	}
	c.Aliases, c.Occurrence, s.content = names, nil, c.Key
	switch {
	case named.Event != "": // which keeps its slot, if any
		if c.Key = named.Key; !strings.HasPrefix(named.Key.ID, s.content.ID+";") {
			s.content = named.Key
		}
		return Decision{}, nil
	case first.Event == "":
	case o.Name == "":
		return Decision{}, nil
	case !o.allows(first, c, s.now):
		return Decision{Verdict: Repeated, Record: first}, nil
	default:
		if d, err := s.further(o.Max, first); err != nil || d.Verdict != 0 {
			return d, err
		}
	}
	return s.slot(o)
}

// first returns the first record of the claim's content, under its own key or another one.
func (s *Step[R]) first() (Record, error) {
	first, err := s.byKey(s.claim.Key)
	if err != nil || s.claim.Former == nil || first.Event != "" {
		return first, err
	}
	return s.former(s.claim.Former.Contents)
}

// named returns the record of the claim's name, which is the first of names. A store may keep the
// name of the first record with that alone.
func (s *Step[R]) named(first Record, names []Key) (Record, error) {
	if len(names) > 0 {
		if slices.Contains(first.Aliases, names[0]) {
			return first, nil
		}
		if named, err := s.byAlias(names[0]); err != nil || named.Event != "" {
			return named, err
		}
	}
	c := &s.claim
	if c.Former == nil || len(names) == 0 && first.Event != "" {
		return Record{}, nil
	}
	r, err := s.former(c.Former.Names)
	if r.Payload.VendorID != "" && r.Payload.VendorID != c.Occurrence.Name {
		return Record{}, err // another sending of the content
	}
	return r, err
}

// former returns the first record of the event that has one of these former names.
func (s *Step[R]) former(names []Key) (Record, error) {
	for _, name := range names {
		var r Record
		var err error
		if name.Space == "" {
			r, err = s.byKey(name)
		} else {
			r, err = s.byAlias(name)
		}
		if err != nil || s.claim.matches(&r, name) {
			return r, err
		}
	}
	return Record{}, nil
}

// matches reports whether the live record of a former name is the event of the claim.
func (c *Claim) matches(r *Record, name Key) bool {
	f := c.Former
	switch {
	case r.Event == "" || r.Key.Space != "":
		return false
	case f.Delivery != nil && r.Key.Endpoint != c.Key.Endpoint && !f.Delivery.SameScope(*r):
		return false
	case r.Fingerprint != Fingerprint{}:
		return f.Fingerprint != Fingerprint{} && !f.Fingerprint.conflicts(r.Fingerprint)
	}
	return name.Space == "" && r.Payload.VendorID == "" || f.Delivery != nil && f.Delivery.SameContent(*r)
}

// rename gives the claim the key of the record with its former name, if its own has none.
func (s *Step[R]) rename() (Decision, error) {
	c := &s.claim
	if c.Former == nil {
		return Decision{}, nil
	}
	if r, err := s.byKey(c.Key); err != nil || r.Event != "" {
		return Decision{}, err
	}
	r, err := s.former(c.Former.Names)
	if err != nil {
		return Decision{}, err
	}
	if r.Event != "" {
		c.Key = r.Key
		return Decision{}, nil
	}
	for _, content := range c.Former.Contents {
		r, err := s.byKey(content)
		if err != nil {
			return Decision{}, err
		}
		if c.matches(&r, content) && c.Former.Delivery.SameSignature(r) {
			return Decision{Verdict: Aliased, Record: r, Alias: content}, nil
		}
	}
	return Decision{}, nil
}

// allows reports whether the claim may be another occurrence of first.
func (o *Occurrence) allows(first Record, c *Claim, now time.Time) bool {
	return o.Max > max(1, first.Occurrences) && first.Payload.Type == c.Payload.Type &&
		(o.Within <= 0 || now.Sub(first.Accepted) < o.Within)
}

// further gives the claim the next free number after those of first. A number is taken if its
// occurrence outlived the first one.
func (s *Step[R]) further(most int, first Record) (Decision, error) {
	for n := max(1, first.Occurrences) + 1; n <= most; n++ {
		taken, err := s.byKey(s.content.Occurrence(n))
		if err != nil {
			return Decision{}, err
		}
		if taken.Event == "" {
			s.claim.Key, s.number, s.counts = s.content.Occurrence(n), n, first.Event
			return Decision{}, nil
		}
	}
	return Decision{Verdict: Repeated, Record: first}, nil
}

// slot gives the claim the first free slot, if there are slots.
func (s *Step[R]) slot(o *Occurrence) (Decision, error) {
	if len(o.Slots) == 0 {
		return Decision{}, nil
	}
	s.slots = o
	var first Record
	for i, slot := range o.Slots {
		taken, err := s.byAlias(slot)
		if err != nil {
			return Decision{}, err
		}
		if taken.Event == "" {
			s.claim.Aliases = append(slices.Clone(s.claim.Aliases), slot)
			return Decision{}, nil
		}
		if i == 0 {
			first = taken
		}
	}
	if o.Spare {
		return Decision{}, nil
	}
	return Decision{Verdict: Repeated, Record: first}, nil
}
