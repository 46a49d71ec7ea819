package dedup

import (
	"slices"
	"time"
)

// Verdict is the answer to a claim.
type Verdict uint8

// The verdicts.
const (
	// New means that the event was not known and is now kept (or, with OnlyKnown, that it is not known); to a claim
	// that holds also that an event whose held claim is free again is now its own (see [Accept]).
	New Verdict = iota + 1
	// Known means that the key has a record with the same fingerprint.
	Known
	// Conflict means that the key has a record with another fingerprint.
	Conflict
	// Aliased means that the key is new, but one of the claim's aliases belongs to another record.
	Aliased
	// Superseded means that the key has a record of the same series with the same fingerprint, which is not the newest.
	Superseded
	// Repeated means that the content of the claim's key came before under another name, and is not to be taken for
	// another occurrence. Nothing is stored.
	Repeated
	// Seen means that the key is remembered beyond its window: its event was accepted before, and the outcome is no longer
	// kept. Nothing is stored. The decision's record is the dead letter of the event, where it left one.
	Seen
	// TooOld means that the event happened before the days that are remembered, so that nothing tells whether it was accepted
	// before. Nothing is stored.
	TooOld
)

// String returns new, known, conflict, aliased, superseded, repeated, seen or too_old.
func (v Verdict) String() string {
	switch v {
	case New:
		return "new"
	case Known:
		return "known"
	case Conflict:
		return "conflict"
	case Aliased:
		return "aliased"
	case Superseded:
		return "superseded"
	case Repeated:
		return "repeated"
	case Seen:
		return "seen"
	case TooOld:
		return "too_old"
	}
	return "none"
}

// Decision is what a store answers to one claim.
type Decision struct {
	Verdict Verdict
	// Record is the event's record as it stands now, without the payload's body: the new one, or that of the
	// earlier delivery. An event that goes on keeps the payload of its first delivery, which [Store.Get] returns. After a Conflict it must not be shown to the sender.
	Record Record
	// Lease is the claimer's, after a New claim with Hold.
	Lease Lease
	// Alias is the claim's alias that was taken, after Aliased.
	Alias Key
	// Reused is the event of other content that came with the same unsigned identifier, after New; empty when there is
	// none. Both records have a note of it.
	Reused string
}

// Decide says what a claim meets, given the record that its key has (the zero Record when there is none).
// It is pure; every store agrees with it. Aliases are the store's to look up, after Decide said New.
//
// A conflict comes before anything else that a live record could say, so that a key which is in flight with
// one payload never tells its state to the sender of another. A held claim that is free again is New to a claim
// that holds, and Known to any other.
func Decide(old Record, c Claim, now time.Time) Verdict {
	if !old.live(now) {
		return New
	}
	if old.Fingerprint != (Fingerprint{}) && c.Fingerprint != (Fingerprint{}) && old.Fingerprint != c.Fingerprint {
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

// Continues reports whether the claim goes on with the event that old is, a held claim that is free, instead of
// making another one.
func Continues(old Record, c Claim, now time.Time) bool {
	return c.Hold && old.live(now) && old.free(now)
}

// AliasTaken reports whether an alias of the claim belongs to other, a live record of another key: the verdict is
// then Aliased instead of New. other is the zero Record when no record has the alias. Aliases of SpaceSent are never taken.
func AliasTaken(other Record, alias Key, c Claim, now time.Time) bool {
	return other.live(now) && other.Key != c.Key && alias.Space != SpaceSent
}

// Full reports whether as many deliveries as wanted are kept aside for original already, so that only its
// counter grows. A delivery whose original is gone (the zero Record) is kept.
func (a *Quarantine) Full(original Record) bool {
	return original.Event != "" && a.Max > 0 && original.QuarantineCount >= a.Max
}

// maxAliases is how many aliases a record keeps. A claim that is released again and again brings new ones
// each time (every delivery has its own nonce); the oldest give way.
const maxAliases = 64

// Accept returns the record that a claim with the verdict New makes. old is the record that the key had
// (zero when none), event and seq are what the store gives to an event that it sees for the first time, token
// is a token larger than any before it.
//
// A held claim that was free goes on as the event that it was, with its attempts counted on. The new claim adds
// its aliases and its lease, and nothing else: whatever it says beyond the fingerprint need not be signed.
//
// The claim must pass [Claim.Check]. The record shares its slices and maps with the claim, or with old.
func Accept(old Record, c Claim, event string, seq, token uint64, now time.Time) Record {
	if Continues(old, c, now) {
		r := old
		r.Aliases, r.Tasks = joinAliases(old.Aliases, c.Names()), slices.Clone(old.Tasks)
		r.Newest = c.Series != (Key{})
		r.Start(0, token, now, c.Lease)
		return r
	}
	r := Record{Event: event, Seq: seq, Accepted: now, Generation: old.Generation + 1, Aliases: c.Names(), Fingerprint: c.Fingerprint}
	r.Key, r.Payload, r.Newest = c.Key, c.Payload, c.Series != (Key{})
	r.Response, r.Hold, r.DropBody, r.Note, r.Window = c.Response, c.Hold, c.DropBody, c.Note, c.window()
	for _, t := range c.Tasks {
		r.Tasks = append(r.Tasks, Task{Handler: t.Handler, Lane: t.Lane, State: Pending, Due: now})
	}
	switch {
	case c.Quarantine != nil:
		r.QuarantineReason, r.Original, r.Hold = c.Quarantine.Reason, c.Quarantine.Of, false
		if r.Shared = c.Quarantine.Share; r.Shared {
			r.Payload.Body = nil
		}
		for i := range r.Tasks {
			r.Tasks[i].State, r.Tasks[i].Reason, r.Tasks[i].Ended = Dead, c.Quarantine.Reason, now
		}
	case c.Hold:
		r.Start(0, token, now, c.Lease)
	}
	r.settle(now)
	return r
}

// joinAliases returns the aliases of before and after, each once, the newest maxAliases of them.
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
