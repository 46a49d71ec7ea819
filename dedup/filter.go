package dedup

import (
	"slices"
	"strings"
	"time"
)

// Filter selects records. Zero fields select all.
type Filter struct {
	Event       string        // id of the record
	ID          string        // identifier of the key, or the one that the sender gave
	Ref         string        // ID, the id of the record, its number, or at least its first 4 characters
	Producer    string        //
	Endpoint    string        //
	Type        string        // exact, or "prefix*"
	Handler     string        // records with a task of this handler
	Reason      string        // records with a task of this reason (of Handler, if set), or quarantined for it
	States      []State       // any of them
	Since       time.Duration // accepted within this time; zero is unlimited
	Until       time.Time     // accepted before this; zero is unlimited
	Quarantined bool          // only deliveries that were quarantined
	Before      uint64        // only records with a smaller Seq: the cursor of the next page
	Limit       int           // maximum number of records; zero is unlimited
	Body        bool          // with payload bodies
	MaxBody     int64         // without those of more bytes; zero is unlimited
	// Text selects records that contain it in an identifier, the type, an attribute or the body,
	// in upper or lower case. A list with it ends early at [MaxSearched] or [MaxSearchTime], and
	// Searched, which may be nil, gets how far it looked.
	Text     string
	Searched *Searched
}

// Match reports whether the filter selects the record at now. It ignores Limit, Body, MaxBody and
// Text.
func (f *Filter) Match(r *Record, now time.Time) bool {
	return (f.Event == "" || f.Event == r.Event) &&
		(f.ID == "" || f.ID == r.Key.ID || f.ID == r.Payload.VendorID) &&
		(f.Ref == "" || f.matchRef(r)) &&
		(f.Producer == "" || f.Producer == r.Payload.Producer) &&
		(f.Endpoint == "" || f.Endpoint == r.Payload.Endpoint) &&
		(f.Type == "" || MatchType(f.Type, r.Payload.Type)) &&
		(f.Handler == "" && f.Reason == "" || f.matchTask(r)) &&
		(len(f.States) == 0 || slices.Contains(f.States, r.State())) &&
		(f.Since <= 0 || now.Sub(r.Accepted) <= f.Since) &&
		(f.Until.IsZero() || r.Accepted.Before(f.Until)) &&
		(!f.Quarantined || r.QuarantineReason != "") &&
		(f.Before == 0 || r.Seq < f.Before)
}

// minRef is the length of the shortest beginning of an event id that names an event.
const minRef = 4

// matchRef compares the reference with the names of the record. The number of an event is the
// beginning of its id, before the hyphen.
func (f *Filter) matchRef(r *Record) bool {
	number, _, _ := strings.Cut(r.Event, "-")
	return f.Ref == r.Event || f.Ref == r.Key.ID || f.Ref == r.Payload.VendorID ||
		strings.TrimSuffix(f.Ref, "-") == number || len(f.Ref) >= minRef && strings.HasPrefix(r.Event, f.Ref)
}

// matchTask reports whether one task has both the handler and the reason. A quarantined
// delivery that no handler matches has a reason but no task.
func (f *Filter) matchTask(r *Record) bool {
	if f.Handler == "" && r.QuarantineReason == f.Reason && r.Quarantined() {
		return true
	}
	return slices.ContainsFunc(r.Tasks, func(t Task) bool {
		return (f.Handler == "" || f.Handler == t.Handler) && (f.Reason == "" || f.Reason == t.Reason)
	})
}

// MatchType reports whether an event type matches a pattern: an exact type, or a prefix
// followed by "*".
func MatchType(pattern, name string) bool {
	if prefix, ok := strings.CutSuffix(pattern, "*"); ok {
		return strings.HasPrefix(name, prefix)
	}
	return pattern == name
}

// WithBody reports whether a list has a payload body of so many bytes.
func (f *Filter) WithBody(size int64) bool { return f.Body && (f.MaxBody <= 0 || size <= f.MaxBody) }
