package dedup

import (
	"slices"
	"strings"
	"time"
)

// Filter selects records; zero fields select all.
type Filter struct {
	Event       string        // our own id
	ID          string        // what the event is unique by, or the identifier that its sender gave
	Producer    string        //
	Endpoint    string        //
	Type        string        // exact, or "prefix*"
	Handler     string        // records with a task of this handler
	Reason      string        // records with a task of this reason (of the handler, if one is named), or quarantined for it
	States      []State       // any of them
	Since       time.Duration // accepted within this time; zero is for ever
	Quarantined bool          // only deliveries that were kept aside
	Before      uint64        // only records with a smaller Seq: the cursor of the next page
	Limit       int           // at most so many; zero is without a limit
	Body        bool          // with payload bodies
}

// Match reports whether the filter selects the record at now. Limit and Body are not its matter.
func (f *Filter) Match(r *Record, now time.Time) bool {
	return (f.Event == "" || f.Event == r.Event) &&
		(f.ID == "" || f.ID == r.Key.ID || f.ID == r.Payload.VendorID) &&
		(f.Producer == "" || f.Producer == r.Payload.Producer) &&
		(f.Endpoint == "" || f.Endpoint == r.Payload.Endpoint) &&
		(f.Type == "" || MatchType(f.Type, r.Payload.Type)) &&
		(f.Handler == "" && f.Reason == "" || f.matchTask(r)) &&
		(len(f.States) == 0 || slices.Contains(f.States, r.State())) &&
		(f.Since <= 0 || now.Sub(r.Accepted) <= f.Since) &&
		(!f.Quarantined || r.QuarantineReason != "") &&
		(f.Before == 0 || r.Seq < f.Before)
}

// matchTask reports whether one task is both of the handler and of the reason. A quarantined delivery that no handler
// takes has a reason, and no task.
func (f *Filter) matchTask(r *Record) bool {
	if f.Handler == "" && r.QuarantineReason == f.Reason && r.Quarantined() {
		return true
	}
	return slices.ContainsFunc(r.Tasks, func(t Task) bool {
		return (f.Handler == "" || f.Handler == t.Handler) && (f.Reason == "" || f.Reason == t.Reason)
	})
}

// MatchType reports whether an event type matches a pattern: an exact type, or a prefix followed by "*".
func MatchType(pattern, name string) bool {
	if prefix, ok := strings.CutSuffix(pattern, "*"); ok {
		return strings.HasPrefix(name, prefix)
	}
	return pattern == name
}
