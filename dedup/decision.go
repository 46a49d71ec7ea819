package dedup

import (
	"slices"
	"time"
)

// Verdict is the decision about a claim.
type Verdict uint8

// The verdicts. Only New stores a record.
const (
	// New means that the event was unknown and is stored (or, with OnlyKnown, that it is unknown).
	// A claim with Hold also gets New for an event whose held claim was freed (see [Accept]).
	New Verdict = iota + 1
	// Known means that the key has a record with the same fingerprint.
	Known
	// Conflict means that the key has a record with another fingerprint.
	Conflict
	// Aliased means that the key is new, but an alias of the claim belongs to another record.
	Aliased
	// Superseded means that the key has a record of the same fingerprint, but not the newest of
	// its series.
	Superseded
	// Repeated means that the content of the key came before under another name and is not
	// accepted as another occurrence.
	Repeated
	// Seen means that the key is remembered beyond its window: its event was accepted before,
	// and its outcome is no longer stored. The record of the decision is the dead letter of the
	// event, if it left one.
	Seen
	// TooOld means that the event happened before the days that the store remembers, so it may
	// have been accepted before.
	TooOld
)

// String returns new, known, conflict, aliased, superseded, repeated, seen or too_old.
func (v Verdict) String() string {
	names := [...]string{"none", "new", "known", "conflict", "aliased", "superseded", "repeated", "seen", "too_old"}
	if int(v) >= len(names) {
		return names[0]
	}
	return names[v]
}

// Decision is the result of one claim.
type Decision struct {
	Verdict Verdict
	// Record is the current record without the body of its payload: the new one, or that of the
	// earlier delivery. After Known it comes without its aliases and its whole payload, which a
	// duplicate need not read. An event that continues keeps the payload of its first delivery.
	// [Store.Get] returns both. After a Conflict the record must not be shown to the sender.
	Record Record
	// Lease is the claimer's lease after a New claim with Hold.
	Lease Lease
	// Alias is the alias of the claim that another record has, after Aliased.
	Alias Key
}

// Decide returns the verdict of a claim, given the record of its key (the zero Record if there is
// none). It is pure. If it returns New, aliases and traces decide next.
//
// A conflict comes first: the state of a key with one payload is not revealed to the sender of
// another. A held claim that was freed is New to a claim with Hold and Known to any other.
func Decide(old Record, c Claim, now time.Time) Verdict {
	if !old.live(now) {
		return New
	}
	if old.Fingerprint.conflicts(c.Fingerprint) {
		return Conflict
	}
	if Continues(old, c, now) {
		return New
	}
	if c.Series != (Key{}) && !old.Newest {
		return Superseded
	}
	return Known
}

// Continues reports whether the claim continues the event of old, a held claim that was freed,
// instead of adding another one.
func Continues(old Record, c Claim, now time.Time) bool {
	return c.Hold && old.live(now) && old.free(now)
}

// maxAliases is how many aliases a record keeps. Every delivery has its own nonce, so a claim
// that is released again and again adds more; the oldest are removed.
const maxAliases = 64

// Accept returns the record of a claim with the verdict New. old is the record of the key (zero if
// there is none), event and seq identify a new event, and token is larger than any before it.
//
// A freed held claim continues its event and counts its attempts on. The new claim adds only
// its aliases and its lease, because whatever else it contains besides the fingerprint need not
// be signed.
//
// The claim must pass [Claim.Check]. The record shares slices and maps with the claim or with old.
func Accept(old Record, c Claim, event string, seq, token uint64, now time.Time) Record {
	if Continues(old, c, now) {
		r := old
		r.Aliases, r.Tasks = joinAliases(old.Aliases, c.Names()), slices.Clone(old.Tasks)
		r.Newest = c.Series != (Key{})
		r.Start(0, token, now, c.Lease)
		return r
	}
	r := Record{
		Event: event, Seq: seq, Accepted: now, Generation: old.Generation + 1,
		Key: c.Key, Aliases: c.Names(), Fingerprint: c.Fingerprint, Payload: c.Payload, Newest: c.Series != (Key{}),
		Response: c.Response, Hold: c.Hold, DropBody: c.DropBody, Note: c.Note, Window: c.window(),
	}
	for _, t := range c.Tasks {
		r.Tasks = append(r.Tasks, t.task(now))
	}
	switch {
	case c.Quarantine != nil:
		r.QuarantineReason, r.Original, r.Hold = c.Quarantine.Reason, c.Quarantine.Of, false
		for i := range r.Tasks {
			r.Tasks[i].State, r.Tasks[i].Reason, r.Tasks[i].Ended = Dead, c.Quarantine.Reason, now
		}
	case c.Hold:
		r.Start(0, token, now, c.Lease)
	}
	r.settle(now)
	return r
}

// joinAliases returns the newest maxAliases aliases of before and after, each once.
func joinAliases(before, after []Key) []Key {
	var out []Key
	for _, k := range before {
		if !slices.Contains(after, k) {
			out = append(out, k)
		}
	}
	out = append(out, after...)
	return out[max(0, len(out)-maxAliases):]
}
