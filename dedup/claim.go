package dedup

import (
	"errors"
	"fmt"
	"time"
)

// DefaultWindow is how long a key is remembered when the claim does not say. The delivery draft
// (draft-mayankpanke-event-delivery-semantics-01 section 7.2) recommends 24 hours as the minimum.
const DefaultWindow = 24 * time.Hour

// NewTask asks for one handler's work.
type NewTask struct {
	Handler string
	Lane    string
}

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

// Lease is the right to finish one task, until it ends or somebody else gets a newer one.
type Lease struct {
	Event string
	Task  int // index into Record.Tasks
	Token uint64
	Until time.Time
}

// Work is a task that was given to a worker.
type Work struct {
	Record Record // with its payload
	Lease  Lease
}

// Task returns the task that the lease is for.
func (w *Work) Task() *Task { return &w.Record.Tasks[w.Lease.Task] }

// Kind is how leased work ended.
type Kind uint8

// The kinds of result.
const (
	// ResultDone ends the task for good; with Answer it stores the response of a held claim.
	ResultDone Kind = iota + 1
	// ResultRetry makes the task due again After from now.
	ResultRetry
	// ResultDead gives the task up; a person can reopen it.
	ResultDead
	// ResultRelease frees a held claim: the next claim of the same payload that holds is New again and continues the
	// count of attempts. For a task of a worker it gives the task back, due at once, its attempt uncounted.
	ResultRelease
)

// Result is how leased work ended.
type Result struct {
	Kind Kind
	// After is when to try again, with ResultRetry.
	After time.Duration
	// Postponed marks a retry that is no failure.
	Postponed bool
	// Reason is a short code, Err the text of the error.
	Reason, Err string
	// Response is the response of a held claim.
	Response Response
}
