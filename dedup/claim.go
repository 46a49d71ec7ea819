package dedup

import (
	"errors"
	"fmt"
	"time"
)

// DefaultWindow is how long a key is remembered when the claim does not say. The delivery draft
// (draft-mayankpanke-event-delivery-semantics-01 section 7.2) recommends 24 hours as the minimum.
const DefaultWindow = 24 * time.Hour

// Claim asks whether an event is new and, when it is, has it kept.
type Claim struct {
	Key Key
	// Aliases are other names of the event (a nonce, a digest of the signed bytes). When the key is new but
	// an alias belongs to a live record of another key, the verdict is Aliased and nothing is stored. Aliases
	// meet aliases only: their spaces are not those of the keys. An alias belongs to the record that claimed
	// it last, and to nobody once that is purged.
	Aliases []Key
	// Series names a state of which only the newest content counts, such as a feed; the zero Key is none. The record of
	// a claim with a series is the newest of it until one of another key is accepted, and its window does not end
	// before that. A claim of a record that was replaced, whose window has not ended, is Superseded. All claims of a key
	// name the same series. Its Space is SpaceSeries; it is among the record's aliases, but never Aliased.
	Series Key
	// Occurrence, when it is not nil, says that the key is a digest of content which may come more than once.
	Occurrence *Occurrence
	// Fingerprint is the digest of the payload; zero conflicts with nothing.
	Fingerprint Fingerprint
	Payload     Payload
	// Response is stored with a new record at once; leave it zero with Hold.
	Response Response
	// Tasks are the handlers' work. Without any the event is done at once, with Note saying why.
	Tasks []NewTask
	// Hold leaves the lease of the only task with the claimer, who runs the handler and finishes it. A claim
	// with Hold has exactly one task and no Answer.
	Hold bool
	// OnlyKnown asks without storing: a key that would be New gives New, no record and no lease.
	OnlyKnown bool
	// Lease is how long a held claim is the claimer's. Required with Hold.
	Lease time.Duration
	// Window defaults to DefaultWindow.
	Window time.Duration
	// DropBody drops the body once every task is done; by default it is kept for the window. Without any
	// task the body stays.
	DropBody bool
	// Note is stored with the record.
	Note string
	// Remember asks the store to remember the key beyond its window. Nil does not.
	Remember *Remember
	// Quarantine keeps the delivery without running it; its tasks are born dead.
	Quarantine *Quarantine
}

// window returns Window or its default.
func (c *Claim) window() time.Duration {
	if c.Window > 0 {
		return c.Window
	}
	return DefaultWindow
}

// Check returns an error that wraps ErrInvalid and says everything that is wrong with the claim, or nil.
// Stores check every claim before they decide the first.
func (c *Claim) Check() error {
	var wrong []error
	note := func(bad bool, what string) {
		if bad {
			wrong = append(wrong, fmt.Errorf("%w: %s", ErrInvalid, what))
		}
	}
	note(c.Key.ID == "", "key without an id")
	note(c.Hold && len(c.Tasks) != 1, "hold needs exactly one task")
	note(c.Hold && c.Lease <= 0, "hold needs a lease")
	note(c.Hold && c.Response.Status != 0, "hold with an answer")
	note(c.Hold && c.Quarantine != nil, "hold of a delivery that is kept aside")
	note(c.Quarantine != nil && c.Quarantine.Reason == "", "aside without a reason")
	note(c.Quarantine != nil && c.Remember != nil, "to remember a delivery that is kept aside")
	note(c.Series != (Key{}) && (c.Series.Space != SpaceSeries || c.Quarantine != nil), "series of another space, or of a delivery that is kept aside")
	note(c.Quarantine != nil && c.Occurrence != nil, "occurrence of a delivery that is kept aside")
	note(c.Occurrence != nil && c.Key.Space != "", "occurrence of a key in another space")
	seen := map[string]bool{}
	for _, t := range c.Tasks {
		note(t.Handler == "", "task without a handler")
		note(seen[t.Handler], "two tasks of handler "+t.Handler)
		seen[t.Handler] = true
	}
	return errors.Join(wrong...)
}

// Quarantine says why a delivery is kept without being run.
type Quarantine struct {
	// Reason is a short code: "conflict", "replayed".
	Reason string
	// Of is the event that the delivery belongs to. Its QuarantineCount counter grows with every new one.
	Of string
	// Max is how many are kept for one event; zero is without a limit. Beyond it only the counter grows, and
	// the decision is Known with the record of the event.
	Max int
	// Share keeps the record without a body, which is that of the event Of, as long as that has it; else the body is kept.
	Share bool
}
