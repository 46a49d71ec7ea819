package inspect

import (
	"net/http"
	"time"
	"unicode/utf8"

	"github.com/eyelet-dev/eyelet/dedup"
	"github.com/eyelet-dev/eyelet/receiver"
)

// Event is the line of an event in a list.
type Event struct {
	// ID is the idempotency identifier, without the quotes of a structured field.
	ID string `json:"id"`
	// VendorID is the sender's identifier, where ID is a digest of the signed content.
	VendorID string `json:"vendor_id,omitempty"`
	// Event is our own id.
	Event string `json:"event"`
	// Producer, Endpoint, Principal and Type say who sent what to which endpoint.
	Producer  string `json:"producer"`
	Endpoint  string `json:"endpoint"`
	Principal string `json:"principal"`
	Type      string `json:"type"`
	// State is pending, running, done or dead.
	State string `json:"state"`
	// Attempt is the highest of the tasks.
	Attempt int `json:"attempt"`
	// Accepted is when the event was accepted, Finished when its last task ended, and Expires when
	// its key is forgotten. The last two are missing while a task is open. All are UTC.
	Accepted time.Time  `json:"accepted"`
	Finished *time.Time `json:"finished,omitempty"`
	Expires  *time.Time `json:"expires,omitempty"`
	// Seq is the position in accepted order, and the cursor of a list, which goes back in time.
	Seq uint64 `json:"seq"`
	// Generation counts the events under one key.
	Generation int `json:"generation"`
	// Status is that of the stored response; zero without one.
	Status int `json:"status"`
	// QuarantineReason is why the delivery was quarantined instead of run, and Original the event
	// that it resembles. QuarantineCount is the number of deliveries that were quarantined because
	// of this event.
	QuarantineReason string `json:"quarantined,omitempty"`
	Original         string `json:"original,omitempty"`
	QuarantineCount  int    `json:"quarantined_count,omitempty"`
	// Occurrences is the number of accepted events with the same signed content, if there are
	// several.
	Occurrences int `json:"occurrences,omitempty"`
	// Dropped is true if the payload is no longer kept, so that the event cannot run again.
	Dropped bool `json:"dropped,omitempty"`
	// Fetched is the host of the API that listed the event, if no delivery brought it.
	Fetched string `json:"fetched,omitempty"`
	// Unverified is the code of the refusal that the delivery would have got, if it did not verify
	// and was accepted because its producer is monitored.
	Unverified string `json:"unverified,omitempty"`
	// Note explains an unusual outcome.
	Note string `json:"note,omitempty"`
	// Tasks are one for each handler.
	Tasks []Task `json:"tasks"`
}

// Task is the work of one handler on an event.
type Task struct {
	Handler string     `json:"handler"`
	Lane    string     `json:"lane,omitempty"`
	Version string     `json:"version,omitempty"` // orders the events of the lane
	State   string     `json:"state"`
	Attempt int        `json:"attempt"`
	Due     *time.Time `json:"due,omitempty"` // of a pending task
	Started *time.Time `json:"started,omitempty"`
	Ended   *time.Time `json:"ended,omitempty"`
	Reason  string     `json:"reason,omitempty"`
	Error   string     `json:"error,omitempty"`
	// Attempts are the first attempt and the last ones, oldest first. Only a [Detail] has them.
	Attempts []Attempt `json:"attempts,omitempty"`
}

// Attempt is one start of a task.
type Attempt struct {
	// Number counts the attempts from 1, also through reopening. Missing numbers were left out.
	Number  int        `json:"number"`
	Started *time.Time `json:"started,omitempty"`
	Ended   *time.Time `json:"ended,omitempty"` // missing while it runs
	// State is that of the task after it: pending (it was to be run again), dead, done or running.
	State  string `json:"state"`
	Reason string `json:"reason,omitempty"`
	Error  string `json:"error,omitempty"` // at most 512 bytes of it
	// Reopened is when an operator had the task run again after it.
	Reopened *time.Time `json:"reopened,omitempty"`
	// Reply is what the target answered to a failed attempt, at most 2 KiB of it.
	Reply string `json:"reply,omitempty"`
}

// Detail is an event with its payload and its response.
type Detail struct {
	Event
	KeyField   string            `json:"key_field,omitempty"`
	Method     string            `json:"method,omitempty"`
	Target     string            `json:"target,omitempty"`
	Header     http.Header       `json:"header,omitempty"`
	Attributes map[string]string `json:"attributes,omitempty"`
	// Text is a UTF-8 body, Base64 any other. Both are empty if the body is empty or was not kept.
	Text     string    `json:"text,omitempty"`
	Base64   []byte    `json:"base64,omitempty"`
	Response *Response `json:"answer,omitempty"`
}

// Response is the stored response, which duplicates get.
type Response struct {
	Status int         `json:"status"`
	Header http.Header `json:"header,omitempty"`
	Text   string      `json:"text,omitempty"`
	Base64 []byte      `json:"base64,omitempty"`
}

// Summary returns the line of a record.
func Summary(r dedup.Record) Event {
	e := Event{
		ID: r.Key.ID, VendorID: r.Payload.VendorID, Event: r.Event, Producer: r.Payload.Producer,
		Endpoint:  r.Payload.Endpoint,
		Principal: r.Key.Principal, Type: r.Payload.Type, State: r.State().String(),
		Accepted: r.Accepted.UTC(), Finished: timePtr(r.Finished), Expires: timePtr(r.Expires),
		Seq: r.Seq, Generation: r.Generation, Status: r.Response.Status,
		QuarantineReason: r.QuarantineReason, Original: r.Original, QuarantineCount: r.QuarantineCount,
		Occurrences: r.Occurrences, Dropped: r.Dropped(), Note: r.Note,
		Fetched:    r.Payload.Attributes[receiver.FetchedAttribute],
		Unverified: r.Payload.Attributes[receiver.UnverifiedAttribute],
		Tasks:      []Task{},
	}
	for _, t := range r.Tasks {
		e.Attempt = max(e.Attempt, t.Attempt)
		task := Task{
			Handler: t.Handler, Lane: t.Lane, Version: t.Version, State: t.State.String(), Attempt: t.Attempt,
			Started: timePtr(t.Started), Ended: timePtr(t.Ended), Reason: t.Reason, Error: t.Err,
		}
		if t.State == dedup.Pending {
			task.Due = timePtr(t.Due)
		}
		e.Tasks = append(e.Tasks, task)
	}
	return e
}

// Details returns the details of a record.
func Details(r dedup.Record) Detail {
	p := r.Payload
	d := Detail{
		Event: Summary(r), KeyField: p.KeyField, Method: p.Method, Target: p.Target, Header: p.Header,
		Attributes: p.Attributes,
	}
	for i := range r.Tasks {
		for _, a := range r.Tasks[i].Attempts() {
			d.Tasks[i].Attempts = append(d.Tasks[i].Attempts, Attempt{
				Number: a.Number, Started: timePtr(a.Started), Ended: timePtr(a.Ended), State: a.State.String(),
				Reason: a.Reason, Error: a.Err, Reopened: timePtr(a.Reopened),
				Reply: a.Reply,
			})
		}
	}
	d.Text, d.Base64 = TextOrBytes(p.Body)
	if r.Response.Status != 0 {
		d.Response = &Response{Status: r.Response.Status, Header: r.Response.Header}
		d.Response.Text, d.Response.Base64 = TextOrBytes(r.Response.Body)
	}
	return d
}

// TextOrBytes returns a body as text if it is UTF-8, else as bytes, for the members text and
// base64.
func TextOrBytes(b []byte) (text string, raw []byte) {
	if utf8.Valid(b) {
		return string(b), nil
	}
	return "", b
}

func timePtr(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	t = t.UTC()
	return &t
}
