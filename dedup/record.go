package dedup

import (
	"bytes"
	"encoding/binary"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"
)

// Payload is what is stored of a delivery.
type Payload struct {
	Producer string // name of the producer
	Endpoint string // name of the endpoint
	Type     string // event type; may be empty
	KeyField string // exact field value that carried the identifier, for forwarding
	// VendorID is the identifier that the sender gave, if it is unsigned and therefore not the
	// key; else empty.
	VendorID string
	Method   string // of the request
	Target   string // request target as received
	// Header holds the stored fields, which never include Authorization and Cookie.
	Header http.Header
	// Attributes are facts about the event for its handlers: source, subject, time, key id,
	// extensions.
	Attributes map[string]string
	// Body is the payload exactly as received.
	Body []byte
}

// Response is the response that is stored with a record and repeated to duplicates. A zero
// Status means none yet.
type Response struct {
	Status int
	Header http.Header // only what must be repeated, such as Content-Type and Location
	Body   []byte
}

// Clone returns a copy that shares no memory with the response.
func (a Response) Clone() Response {
	a.Header, a.Body = a.Header.Clone(), bytes.Clone(a.Body)
	return a
}

// Record is what a store keeps of one event.
type Record struct {
	Event       string // opaque id of the store, never reused
	Key         Key
	Aliases     []Key // other names of the event
	Fingerprint Fingerprint
	Generation  int // 1 for the first event of a key, else one more than the largest that is still kept
	// Seq is the order of acceptance: that of an event is smaller than that of every event whose
	// delivery came after its acknowledgement. Numbers are left out, and a smaller one may appear
	// after a larger one, so Seq is not a cursor for following new events.
	Seq      uint64
	Accepted time.Time
	Finished time.Time     // when the last task ended; zero while one is open
	Window   time.Duration // how long the key is remembered after Finished
	Expires  time.Time     // Finished + Window; zero while a task is open (see Ends)
	Response Response
	Tasks    []Task
	Payload  Payload
	// Hold marks an event whose handler answers the request itself. Workers never run it.
	Hold bool
	// DropBody drops the body once every task is done.
	DropBody bool
	// QuarantineReason is why the delivery was quarantined; empty for events.
	QuarantineReason string
	// Original is the event that a quarantined delivery belongs to.
	Original string
	// QuarantineCount counts the deliveries quarantined for this event, including those beyond
	// the maximum.
	QuarantineCount int
	// Newest marks the newest record of its series ([Claim.Series]), whose window does not end.
	Newest bool
	// Occurrences is the largest number of an occurrence of the content of the record; 0 if
	// there is only one.
	Occurrences int
	// Note explains an unusual outcome, such as "no handler".
	Note string
}

// Open reports whether any task is open. The window does not start before all are finished.
func (r *Record) Open() bool { return slices.ContainsFunc(r.Tasks, Task.Open) }

// Quarantined reports whether the delivery was quarantined and not reopened.
func (r *Record) Quarantined() bool {
	reopened := func(t Task) bool { return t.State != Dead || t.Reason != r.QuarantineReason }
	return r.QuarantineReason != "" && !slices.ContainsFunc(r.Tasks, reopened)
}

// State summarizes the tasks: dead if any is dead, else running, else pending, else done. A
// quarantined delivery is dead even without tasks.
func (r *Record) State() State {
	if r.Quarantined() {
		return Dead
	}
	state := Done
	for _, t := range r.Tasks {
		switch {
		case t.State == Dead:
			return Dead
		case t.State == Running:
			state = Running
		case t.State == Pending && state != Running:
			state = Pending
		}
	}
	return state
}

// Held reports whether the claimer of a Hold record has the lease at now.
func (r *Record) Held(now time.Time) bool {
	return r.lapses() && now.Before(r.Tasks[0].Until)
}

// Ends returns when the window ends and the key is new again: Expires, or the end of the lease
// plus the window for a held claim. It is zero while other tasks are open, and for the newest
// record of a series.
func (r *Record) Ends() time.Time {
	if r.Newest {
		return time.Time{}
	}
	if r.lapses() {
		return r.Tasks[0].Until.Add(r.Window)
	}
	return r.Expires
}

// Expired reports whether the window has ended at now, so the key is new again.
func (r *Record) Expired(now time.Time) bool {
	ends := r.Ends()
	return !ends.IsZero() && !now.Before(ends)
}

// Disposable reports whether a store may forget the record at now: its window ended, and no task
// is dead. A dead letter stays until it is purged, or reopened and done.
func (r *Record) Disposable(now time.Time) bool {
	return r.Expired(now) && r.State() != Dead
}

// Dropped reports whether the body is dropped: DropBody is set, and every task is done. A record
// without tasks keeps its body, because its event can be reopened for a new handler.
func (r *Record) Dropped() bool {
	return r.DropBody && len(r.Tasks) > 0 && r.State() == Done
}

// LaneOf returns the lane of task i with its scope, endpoint and handler, or "" outside of
// lanes. Every part is prefixed with its length.
func (r *Record) LaneOf(i int) string {
	t := r.Tasks[i]
	if t.Lane == "" {
		return ""
	}
	var b []byte
	for _, part := range [...]string{r.Payload.Endpoint, t.Handler, t.Lane} {
		b = binary.AppendUvarint(b, uint64(len(part)))
		b = append(b, part...)
	}
	return string(b)
}

// Yields reports whether task i is in a lane that yields (see [LaneYields]).
func (r *Record) Yields(i int) bool { return strings.HasPrefix(r.Tasks[i].Lane, LaneYields) }

// Clone returns a copy that shares no memory with the record.
func (r *Record) Clone() Record {
	c := *r
	c.Aliases = slices.Clone(r.Aliases)
	c.Tasks = CloneTasks(r.Tasks)
	c.Response = r.Response.Clone()
	c.Payload.Header = r.Payload.Header.Clone()
	c.Payload.Attributes = maps.Clone(r.Payload.Attributes)
	c.Payload.Body = bytes.Clone(r.Payload.Body)
	return c
}

// live reports whether the record exists and its window has not ended.
func (r *Record) live(now time.Time) bool { return r.Event != "" && !r.Expired(now) }

// Unaccepted reports whether the record is a held claim without an outcome.
func (r *Record) Unaccepted() bool { return r.Hold && r.Open() }

// freed reports whether the record is a held claim that was released.
func (r *Record) freed() bool { return r.heldIn(Pending) }

// lapses reports whether the record is a held claim under a lease, which is freed when the
// lease expires.
func (r *Record) lapses() bool { return r.heldIn(Running) }

func (r *Record) heldIn(s State) bool { return r.Hold && len(r.Tasks) == 1 && r.Tasks[0].State == s }

// free reports whether the record is a held claim that its claimer lost without an outcome: it
// was released, its lease expired, or its process died.
func (r *Record) free(now time.Time) bool {
	return r.freed() || r.lapses() && !r.Held(now)
}
