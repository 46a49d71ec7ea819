package dedup

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// Occurrence is the part of a claim whose key is a digest of signed content, for senders whose signature covers
// neither an identifier nor a time. Equal content is then either one event that is sent again, or another event that
// is equal in everything that is signed; only the identifier beside it, which is not signed, tells which.
//
// Claims of a key are decided in this order:
//
//  1. The name is that of an occurrence that is remembered: the claim is about that one.
//  2. The key has no live record: the claim is New under the key itself.
//  3. There is no name: the claim is about the record of the key.
//  4. The type is that of the key's record, and the bounds allow another occurrence: the claim is New, under the key
//     that [Key.Occurrence] returns.
//  5. Otherwise the verdict is Repeated, and nothing is stored.
type Occurrence struct {
	// Name is the identifier that came with the content; empty where none did.
	Name string
	// Max is how many occurrences of the content may be accepted in a window, the first one included. Below 2 there
	// is no second one.
	Max int
	// Within is for how long after the first occurrence others are accepted. Zero is without a limit.
	Within time.Duration
	// Slots, where there are any, bound the keys that share them: a new record takes the first slot that no live record
	// has, as an alias. When all are taken, the verdict is Repeated, with the record that has the first of them. Their
	// Space is SpaceSlot.
	Slots []Key
	// Former finds the record that an older program, which took the identifier for the key, made of the same content.
	Former *Former
}

// Former is how a record was named before the key was a digest of the content.
type Former struct {
	// Alias is the digest of the signed content, in SpaceSigned.
	Alias Key
	// ID is the identifier that was the key: that of the same occurrence.
	ID string
	// Type, unless it is empty, is the only type of records that count.
	Type string
}

// Occurrence returns the key of the occurrence n of the content that k is a digest of. The first one has k itself.
func (k Key) Occurrence(n int) Key {
	if n > 1 {
		k.ID = fmt.Sprintf("%s;%d", k.ID, n)
	}
	return k
}

// content is the digest in the key of an occurrence, without what follows it.
func (k Key) content() string {
	digest, _, _ := strings.Cut(k.ID, ";")
	return digest
}

// Named returns the alias that a record of the claim has for its occurrence's name, and false when it has none.
func (c *Claim) Named() (Key, bool) {
	if c.Occurrence == nil || c.Occurrence.Name == "" {
		return Key{}, false
	}
	return c.Key.named(c.Occurrence.Name), true
}

// Sent returns the name under which other content of the sender is found that came with the same identifier, and false
// when the claim has no such name. It is among the record's aliases, but no claim is Aliased by it.
func (c *Claim) Sent() (Key, bool) {
	if c.Occurrence == nil || c.Occurrence.Name == "" {
		return Key{}, false
	}
	k := c.Key
	k.Space, k.ID = SpaceSent, c.Occurrence.Name
	return k, true
}

// names are the claim's own aliases and those of its occurrence.
func (c *Claim) names() []Key {
	names := slices.Clip(c.Aliases)
	if named, ok := c.Named(); ok {
		sent, _ := c.Sent()
		names = append(names, named, sent)
	}
	return names
}

// Names are the aliases of the claim's record: its own, those of its occurrence, and its series.
func (c *Claim) Names() []Key {
	if c.Series == (Key{}) {
		return c.names()
	}
	return append(c.names(), c.Series)
}

// Lookup finds the records that a claim may be about, as the claims before it in the same step left them. Both return
// the zero Record when there is none.
type Lookup struct {
	Key   func(Key) (Record, error) // the record that answers for a key
	Alias func(Key) (Record, error) // the record that an alias belongs to
}

// Resolution is which event a claim with an Occurrence is about.
type Resolution struct {
	// Claim is the claim as it is decided further, without its Occurrence: with the key of the event that it is about,
	// and with the aliases of that.
	Claim Claim
	// Of is the first occurrence of the content, unless the claim is that.
	Of Record
	// Number is that of another occurrence, which Of counts when the claim is accepted.
	Number int
	// Reused is the record of other content that came under the same name; the zero Record when there is none.
	Reused Record
	// Repeated says that the claim is not accepted. The verdict is Repeated, with Of.
	Repeated bool
}

// Resolve says which event a claim is about, and whether it may be another occurrence. Every store decides by it; its
// only errors are those of find.
func Resolve(c Claim, find Lookup, now time.Time) (Resolution, error) {
	out := Resolution{Claim: c}
	o := c.Occurrence
	if o == nil {
		return out, nil
	}
	out.Claim.Aliases, out.Claim.Occurrence = c.names(), nil
	first, named, err := o.find(c, find, now)
	if err != nil {
		return out, err
	}
	switch {
	case named.live(now):
		out.Claim.Key = named.Key
		return out, nil // with whatever slot it has
	case !first.live(now):
	case o.Name == "":
		out.Claim.Key = first.Key
		return out, nil
	case !o.allows(first, c, now):
		out.Of, out.Repeated = first, true
		return out, nil
	default:
		if err := out.number(o.Max, first, find, now); err != nil || out.Repeated {
			return out, err
		}
	}
	out.Claim.Remember = c.Remember.resolved(c, out.Number > 0)
	if err := out.slot(o.Slots, find, now); err != nil || out.Repeated {
		return out, err
	}
	if sent, ok := c.Sent(); ok {
		other, err := find.Alias(sent)
		if err != nil {
			return out, err
		}
		if other.live(now) && other.Key.content() != c.Key.content() {
			out.Reused = other
		}
	}
	return out, nil
}

// find returns the first record of the claim's content and the one of its name.
func (o *Occurrence) find(c Claim, find Lookup, now time.Time) (first, named Record, err error) {
	if first, err = find.Key(c.Key); err != nil {
		return first, named, err
	}
	if alias, ok := c.Named(); ok {
		if named, err = find.Alias(alias); err != nil {
			return first, named, err
		}
	}
	if o.Former == nil || first.live(now) || named.live(now) {
		return first, named, nil
	}
	former, err := find.Alias(o.Former.Alias)
	if err == nil && former.live(now) && (o.Former.Type == "" || o.Former.Type == former.Payload.Type) {
		if first = former; o.Former.ID != "" && former.Key.ID == o.Former.ID {
			named = former
		}
	}
	return first, named, err
}

// allows reports whether the claim may be another occurrence of first.
func (o *Occurrence) allows(first Record, c Claim, now time.Time) bool {
	return o.Max > max(1, first.Occurrences) && first.Payload.Type == c.Payload.Type &&
		(o.Within <= 0 || now.Sub(first.Accepted) < o.Within)
}

// number gives the claim the next number after those of first whose key is free. One that is not belongs to content
// whose first record is forgotten already.
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
	out.Repeated = true
	return nil
}

// slot gives the claim the first free one of the slots, where there are any.
func (out *Resolution) slot(slots []Key, find Lookup, now time.Time) error {
	for i, slot := range slots {
		taken, err := find.Alias(slot)
		if err != nil {
			return err
		}
		if !taken.live(now) {
			out.Claim.Aliases = append(slices.Clone(out.Claim.Aliases), slot)
			return nil
		}
		if i == 0 {
			out.Of = taken
		}
	}
	out.Repeated = len(slots) > 0
	return nil
}

// The notes on two records of different content whose sender gave both one identifier.
const (
	noteReused  = "its sender's identifier was that of event "
	noteReusing = "its sender's identifier came again, with other content, as event "
)

// NoteReuse notes on a new record and on an older one, of different content, that they came with one identifier. It
// reports whether the older one has changed: it is noted there once.
func NoteReuse(r, older *Record) bool {
	r.note(noteReused + older.Event)
	if strings.Contains(older.Note, noteReusing) {
		return false
	}
	older.note(noteReusing + r.Event)
	return true
}

func (r *Record) note(text string) {
	if r.Note != "" {
		r.Note += "; "
	}
	r.Note += text
}
