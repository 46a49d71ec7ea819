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

// Payload is what is kept of a delivery.
type Payload struct {
	Producer string // the producer's name
	Endpoint string // the endpoint's name
	Type     string // the event type; may be empty
	KeyField string // the field value that carried the identifier, octet for octet, for forwarding
	// VendorID is the identifier that the sender gave, where it is not the key's because nobody signed it; else empty.
	VendorID string
	Method   string // of the request
	Target   string // the request target as it arrived
	// Header holds the fields that are kept; Authorization and Cookie never are.
	Header http.Header
	// Attributes are facts about the event that handlers see: source, subject, time, key id, extensions.
	Attributes map[string]string
	// Body is the payload exactly as it arrived.
	Body []byte
}

// Response is the response that is stored with a record and repeated to duplicates. A zero Status means that
// there is none yet.
type Response struct {
	Status int
	Header http.Header // only what must be repeated, such as Content-Type and Location
	Body   []byte
}

// Clone returns a copy that shares no memory with the answer.
func (a Response) Clone() Response {
	a.Header, a.Body = a.Header.Clone(), bytes.Clone(a.Body)
	return a
}

// Record is what is kept of one event.
type Record struct {
	Event       string // our own opaque id; never used again
	Key         Key
	Aliases     []Key // other names under which the event is known
	Fingerprint Fingerprint
	Generation  int    // 1 for the first event under a key, else one more than the largest that is kept of the key
	Seq         uint64 // the order of acceptance within the store
	Accepted    time.Time
	Finished    time.Time     // when the last outcome came; zero while work is left
	Window      time.Duration // how long the key is remembered from Finished on
	Expires     time.Time     // Finished + Window; zero while work is left (see Ends)
	Response    Response
	Tasks       []Task
	Payload     Payload
	// Hold marks an event whose handler answers the request itself; workers never run it.
	Hold bool
	// DropBody says that the body is dropped once every task is done.
	DropBody bool
	// QuarantineReason says why the delivery was kept aside without being run; empty for events.
	QuarantineReason string
	// Original is the event that a delivery kept aside belongs to.
	Original string
	// QuarantineCount counts the deliveries kept aside for this event, those beyond the maximum included.
	QuarantineCount int
	// Newest marks the newest record of its series ([Claim.Series]): its window does not end.
	Newest bool
	// Occurrences is the largest number that was given to an occurrence of the record's content; 0 while there is one.
	Occurrences int
	// Shared says that the body is that of Original, which keeps it for as long as this record is there.
	Shared bool
	// Sharers are the events whose body this record keeps, the oldest first.
	Sharers []string
	// Note explains an unusual outcome, such as "no handler".
	Note string
}

// Open reports whether any work on the record is left, so that its window has not begun.
func (r *Record) Open() bool { return slices.ContainsFunc(r.Tasks, Task.Open) }

// Quarantined reports whether the record is of a delivery that was kept aside and that nobody has reopened.
func (r *Record) Quarantined() bool {
	return r.QuarantineReason != "" && !slices.ContainsFunc(r.Tasks, func(t Task) bool { return t.State != Dead || t.Reason != r.QuarantineReason })
}

// State sums the tasks up: dead when one is dead, else running, else pending, else done. A quarantined delivery is dead,
// also one that no handler takes.
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

// Held reports whether the claimer of a Hold record still has its lease at now.
func (r *Record) Held(now time.Time) bool {
	return r.lapses() && now.Before(r.Tasks[0].Until)
}

// Ends returns when the window ends, and with it what the record knows of its key: Expires, or the lease's
// end plus the window for a claim that is held. It is zero while other work is left, and for the newest record of a series.
func (r *Record) Ends() time.Time {
	if r.Newest {
		return time.Time{}
	}
	if r.lapses() {
		return r.Tasks[0].Until.Add(r.Window)
	}
	return r.Expires
}

// Expired reports whether the window of the record has passed at now, so that its key is new again.
func (r *Record) Expired(now time.Time) bool {
	ends := r.Ends()
	return !ends.IsZero() && !now.Before(ends)
}

// Disposable reports whether a store may forget the record at now: its window has passed, none of its tasks is
// dead, and no other record shares its body. A dead letter stays until a person purges it or it is reopened and done.
func (r *Record) Disposable(now time.Time) bool {
	return r.Expired(now) && r.State() != Dead && len(r.Sharers) == 0
}

// Dropped reports whether the record does without its body: it was to be dropped, every task is done, and no other
// record shares it. A record without tasks keeps it, because its event had no handler yet and can be reopened.
func (r *Record) Dropped() bool {
	return r.DropBody && len(r.Tasks) > 0 && r.State() == Done && len(r.Sharers) == 0
}

// LaneOf returns the lane of task i with its scope, the handler and the endpoint's name, or "" when the task
// is in no lane. Every part stands behind its length.
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

// Yields reports whether task i is in a lane that yields.
func (r *Record) Yields(i int) bool { return strings.HasPrefix(r.Tasks[i].Lane, LaneYields) }

// Clone returns a copy that shares no memory with the record.
func (r *Record) Clone() Record {
	c := *r
	c.Aliases = slices.Clone(r.Aliases)
	c.Tasks, c.Sharers = slices.Clone(r.Tasks), slices.Clone(r.Sharers)
	c.Response = r.Response.Clone()
	c.Payload.Header = r.Payload.Header.Clone()
	c.Payload.Attributes = maps.Clone(r.Payload.Attributes)
	c.Payload.Body = bytes.Clone(r.Payload.Body)
	return c
}

// live reports whether there is a record whose window has not passed.
func (r *Record) live(now time.Time) bool { return r.Event != "" && !r.Expired(now) }

// Unaccepted reports whether the record is of a held claim without an outcome.
func (r *Record) Unaccepted() bool { return r.Hold && r.Open() }

// freed reports whether the record is of a claim that was held and then released.
func (r *Record) freed() bool { return r.heldIn(Pending) }

// lapses reports whether the record is of a held claim, which is free when its lease runs out.
func (r *Record) lapses() bool { return r.heldIn(Running) }

func (r *Record) heldIn(s State) bool { return r.Hold && len(r.Tasks) == 1 && r.Tasks[0].State == s }

// free reports whether the record is of a claim that was held and is held no longer, without an outcome: it
// was released, its lease ran out, or the process that held it died.
func (r *Record) free(now time.Time) bool {
	return r.freed() || r.lapses() && !r.Held(now)
}
