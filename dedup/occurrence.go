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
//  1. The name belongs to a known occurrence, or to the event with the former name: the claim is
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
// bind something else. They are only looked up: if nothing live has the key of a claim, or the name
// of its occurrence, a live record with a former name and the same payload is that of the event.
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

// matches reports whether the record of a name is the event of the claim.
func (c *Claim) matches(r Record, name Key, now time.Time) bool {
	f := c.Former
	switch {
	case !r.live(now) || r.Key.Space != "":
		return false
	case f.Delivery != nil && r.Key.Endpoint != c.Key.Endpoint && !f.Delivery.SameScope(r):
		return false
	case r.Fingerprint != Fingerprint{}:
		return f.Fingerprint != Fingerprint{} && !f.Fingerprint.conflicts(r.Fingerprint)
	}
	return name.Space == "" && r.Payload.VendorID == "" || f.Delivery != nil && f.Delivery.SameContent(r)
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

// Lookup finds the records that a claim may be about, as changed by the earlier claims of the
// same step. Both functions return the zero Record if there is none.
type Lookup struct {
	Key   func(Key) (Record, error) // the newest record of a key
	Alias func(Key) (Record, error) // the record that has an alias
	Names []Key                     // of the claim, see [Claim.Names]; nil computes them
}

// Resolution is which event a claim with an Occurrence or a former name is about.
type Resolution struct {
	// Claim is the claim to decide, without its Occurrence: with the key and the aliases of the
	// event that it is about.
	Claim Claim
	// Of is the first occurrence of the content, unless the claim is that.
	Of Record
	// Number is the number of a further occurrence, which Of counts if the claim is accepted.
	Number int
	// Verdict is Repeated or Aliased, with Of, if the claim is not accepted. Else it is zero.
	Verdict Verdict
	// Alias is the key under which a claim is Aliased.
	Alias Key
}

// Resolve determines which event a claim is about and whether it may be another occurrence. All
// stores decide by it. It returns no errors but those of find.
func Resolve(c Claim, find Lookup, now time.Time) (Resolution, error) {
	out := Resolution{Claim: c}
	o := c.Occurrence
	if o == nil {
		return out, out.rename(find, now)
	}
	names := find.Names
	if names == nil {
		names = c.names()
	} else if c.Series != (Key{}) {
		names = names[:len(names)-1] // it is the last one
	}
	first, err := c.first(find, now)
	if err != nil {
		return out, err
	}
	if first.live(now) && first.Key != c.Key {
		c.Key = first.Key
		out.Claim.Key, names = c.Key, c.names()
	}
	out.Claim.Aliases, out.Claim.Occurrence = names, nil
	named, err := c.named(first, names[len(c.Aliases):], find, now)
	if err != nil {
		return out, err
	}
	switch {
	case named.live(now):
		if strings.HasPrefix(named.Key.ID, c.Key.ID+";") {
			out.Claim.Remember = c.Remember.under(c.Key)
		}
		out.Claim.Key = named.Key
		return out, nil // which keeps its slot, if any
	case !first.live(now):
	case o.Name == "":
		out.Claim.Key = first.Key
		return out, nil
	case !o.allows(first, c, now):
		out.Of, out.Verdict = first, Repeated
		return out, nil
	default:
		if err := out.number(o.Max, first, find, now); err != nil || out.Verdict != 0 {
			return out, err
		}
	}
	out.Claim.Remember = c.Remember.resolved(c, out.Number > 0)
	return out, out.slot(o, find, now)
}

// first returns the first record of the claim's content, under its own key or another one.
func (c *Claim) first(find Lookup, now time.Time) (Record, error) {
	first, err := find.Key(c.Key)
	if err != nil || c.Former == nil || first.live(now) {
		return first, err
	}
	other, err := c.find(c.Former.Contents, find, now)
	if other.Event != "" {
		return other, err
	}
	return first, err
}

// named returns the record of the claim's name, which is the first of names. A store may keep the
// name of the first record with that alone.
func (c *Claim) named(first Record, names []Key, find Lookup, now time.Time) (Record, error) {
	if len(names) > 0 {
		if first.live(now) && slices.Contains(first.Aliases, names[0]) {
			return first, nil
		}
		if named, err := find.Alias(names[0]); err != nil || named.live(now) {
			return named, err
		}
	}
	if c.Former == nil {
		return Record{}, nil
	}
	r, err := c.find(c.Former.Names, find, now)
	if r.Payload.VendorID != "" && r.Payload.VendorID != c.Occurrence.Name {
		return Record{}, err // another sending of the content
	}
	return r, err
}

// find returns the first record that has one of these former names, or the zero Record.
func (c *Claim) find(names []Key, find Lookup, now time.Time) (Record, error) {
	for _, name := range names {
		by := find.Key
		if name.Space != "" {
			by = find.Alias
		}
		if r, err := by(name); err != nil || c.matches(r, name, now) {
			return r, err
		}
	}
	return Record{}, nil
}

// rename gives the claim the key of the record with its former name, if its own has none.
func (out *Resolution) rename(find Lookup, now time.Time) error {
	c := &out.Claim
	if c.Former == nil {
		return nil
	}
	if r, err := find.Key(c.Key); err != nil || r.live(now) {
		return err
	}
	r, err := c.find(c.Former.Names, find, now)
	if err != nil {
		return err
	}
	if r.Event != "" {
		c.Key = r.Key
		return nil
	}
	for _, content := range c.Former.Contents {
		r, err := find.Key(content)
		if err != nil {
			return err
		}
		if c.matches(r, content, now) && c.Former.Delivery.SameSignature(r) {
			out.Of, out.Verdict, out.Alias = r, Aliased, content
			return nil
		}
	}
	return nil
}

// allows reports whether the claim may be another occurrence of first.
func (o *Occurrence) allows(first Record, c Claim, now time.Time) bool {
	return o.Max > max(1, first.Occurrences) && first.Payload.Type == c.Payload.Type &&
		(o.Within <= 0 || now.Sub(first.Accepted) < o.Within)
}

// number gives the claim the next free number after those of first. A number is taken if its
// occurrence outlived the first one.
func (out *Resolution) number(most int, first Record, find Lookup, now time.Time) error {
	base := out.Claim.Key
	out.Of = first
	for n := max(1, first.Occurrences) + 1; n <= most; n++ {
		taken, err := find.Key(base.Occurrence(n))
		if err != nil {
			return err
		}
		if !taken.live(now) {
			out.Claim.Key, out.Number = base.Occurrence(n), n
			return nil
		}
	}
	out.Verdict = Repeated
	return nil
}

// slot gives the claim the first free slot, if there are slots.
func (out *Resolution) slot(o *Occurrence, find Lookup, now time.Time) error {
	var first Record
	for i, slot := range o.Slots {
		taken, err := find.Alias(slot)
		if err != nil {
			return err
		}
		if !taken.live(now) {
			out.Claim.Aliases = append(slices.Clone(out.Claim.Aliases), slot)
			return nil
		}
		if i == 0 {
			first = taken
		}
	}
	if len(o.Slots) > 0 && !o.Spare {
		out.Of, out.Verdict = first, Repeated
	}
	return nil
}
