package dedup

import (
	"errors"
	"fmt"
	"slices"
	"time"
)

// DefaultWindow is how long a key is remembered if the claim does not say. It is the minimum that
// the delivery draft (draft-mayankpanke-event-delivery-semantics-01 section 7.2) recommends.
const DefaultWindow = 24 * time.Hour

// Claim asks whether an event is new and, if so, stores it.
type Claim struct {
	Key Key
	// Aliases are other names of the event (a nonce, a digest of the signed bytes). If the key
	// is new but an alias belongs to a live record of another key, the verdict is Aliased and
	// nothing is stored. Aliases and keys have separate spaces. An alias belongs to the record
	// that claimed it last, until that is purged.
	Aliases []Key
	// Series names a state of which only the newest content counts, such as a feed; the zero
	// Key is none. The record of the claim is the newest of its series until one of another key
	// is accepted, and its window does not end before. After that, a claim of its key is
	// Superseded while the window lasts. All claims of a key must name the same series. Its
	// Space is SpaceSeries. It becomes an alias of the record, but never makes a claim Aliased.
	Series Key
	// Former, if not nil, is how another configuration of the producer named the event.
	Former *Former
	// Occurrence, if not nil, marks a key that is a digest of content which may occur more than
	// once.
	Occurrence *Occurrence
	// Fingerprint is the digest of the payload. Zero never conflicts.
	Fingerprint Fingerprint
	Payload     Payload
	// GivesPayload gives the maps and the body of Payload to the store, which may return them from
	// the first Take instead of copies. If the verdict is New, or after an error, nothing else may
	// read them any more, and the record of the decision may come without them. It has no effect
	// with Hold.
	GivesPayload bool
	// Response is stored with a new record. Leave it zero with Hold.
	Response Response
	// Tasks are the work of the handlers. Without any, the event is done at once and Note says why.
	Tasks []NewTask
	// Hold leases the only task to the claimer, which runs the handler and finishes it. It
	// requires exactly one task and no Response.
	Hold bool
	// OnlyKnown stores nothing: an unknown key gives New without a record or a lease.
	OnlyKnown bool
	// Lease is how long the claimer holds the claim. Required with Hold.
	Lease time.Duration
	// Window is how long the key is remembered after the last outcome. Defaults to DefaultWindow.
	Window time.Duration
	// DropBody drops the body once every task is done. By default it is kept for the window.
	// Without any task the body is kept in either case.
	DropBody bool
	// Note is stored with the record.
	Note string
	// Remember, if not nil, makes the store remember the key beyond its window.
	Remember *Remember
	// Quarantine, if not nil, keeps the delivery without running it: its tasks start as dead.
	Quarantine *Quarantine
}

// window returns Window or its default.
func (c *Claim) window() time.Duration {
	if c.Window > 0 {
		return c.Window
	}
	return DefaultWindow
}

// Check returns all problems of the claim as an error that wraps ErrInvalid, or nil. Stores
// check every claim of a call before they decide the first.
func (c *Claim) Check() error {
	var errs []error
	check := func(bad bool, what string) {
		if bad {
			errs = append(errs, fmt.Errorf("%w: %s", ErrInvalid, what))
		}
	}
	check(c.Key.ID == "", "key without an id")
	check(c.Hold && len(c.Tasks) != 1, "hold needs exactly one task")
	check(c.Hold && c.Lease <= 0, "hold needs a lease")
	check(c.Hold && c.Response.Status != 0, "hold with a response")
	check(c.Hold && c.Quarantine != nil, "hold of a quarantined delivery")
	check(c.Quarantine != nil && c.Quarantine.Reason == "", "quarantine without a reason")
	check(c.Quarantine != nil && c.Remember != nil, "remember of a quarantined delivery")
	check(c.Series != (Key{}) && (c.Series.Space != SpaceSeries || c.Quarantine != nil),
		"series of another space, or of a quarantined delivery")
	check(c.Quarantine != nil && c.Occurrence != nil, "occurrence of a quarantined delivery")
	check(c.Quarantine != nil && c.Former != nil, "former name of a quarantined delivery")
	if f := c.Former; f != nil {
		wrong := func(k Key) bool { return k.Space != "" && k.Space != SpaceSent }
		content := func(k Key) bool { return k.Space != "" }
		check(slices.ContainsFunc(f.Names, wrong), "former name in another space")
		check(slices.ContainsFunc(f.Contents, content), "former content in another space")
		check(len(f.Contents) > 0 && c.Occurrence == nil && f.Delivery == nil, "former content without its delivery")
	}
	check(c.Occurrence != nil && c.Key.Space != "", "occurrence of a key in another space")
	for i, t := range c.Tasks {
		check(t.Handler == "", "task without a handler")
		same := func(other NewTask) bool { return other.Handler == t.Handler }
		if slices.ContainsFunc(c.Tasks[:i], same) {
			check(true, "two tasks of handler "+t.Handler)
		}
	}
	return errors.Join(errs...)
}

// Quarantine keeps a delivery without running it.
type Quarantine struct {
	// Reason is a short code: "conflict", "replayed".
	Reason string
	// Of is the event that the delivery belongs to. Its QuarantineCount grows with every new
	// delivery.
	Of string
	// Max is how many deliveries are kept for one event; zero is unlimited. Beyond it the
	// delivery is only counted, and the decision is Known with the record of the event.
	Max int
}
