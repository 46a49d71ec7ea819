package sink

import (
	"context"
	"encoding/json"
	"net/http"
	"time"
	"unicode/utf8"

	"github.com/eyelet-dev/eyelet/internal/strictjson"
	"github.com/eyelet-dev/eyelet/receiver"
)

// Stdout prints each event as a line of JSON.
type Stdout struct{ Out *Output }

// stdoutLine is an event. A payload that is JSON is written behind it, compactly, as "data"; other
// text is Text, and other bytes are Body, in base64.
type stdoutLine struct {
	ID         string            `json:"id"`
	VendorID   string            `json:"vendor_id,omitempty"`
	Event      string            `json:"event"`
	Producer   string            `json:"producer"`
	Endpoint   string            `json:"endpoint"`
	Type       string            `json:"type"`
	Attempt    int               `json:"attempt"`
	Tenant     string            `json:"tenant,omitempty"`
	Fetched    bool              `json:"fetched,omitempty"`
	Unverified bool              `json:"unverified,omitempty"`
	Accepted   time.Time         `json:"accepted"`
	Attributes map[string]string `json:"attributes,omitempty"`
	Text       string            `json:"text,omitempty"`
	Body       []byte            `json:"body,omitempty"`
}

// Deliver implements [Sink].
func (s Stdout) Deliver(_ context.Context, ev receiver.Event[[]byte]) error {
	line, err := lineOf(&ev)
	if err == nil {
		err = s.Out.write(line)
	}
	if readerGone(err) {
		return receiver.Postpone(0, err) // no attempt of this process can print it
	}
	return err
}

// Answer implements [Sink].
func (s Stdout) Answer(ctx context.Context, ev receiver.Event[[]byte]) (receiver.Response, error) {
	return receiver.Response{Status: http.StatusNoContent}, s.Deliver(ctx, ev)
}

// lineOf returns the line of an event.
func lineOf(ev *receiver.Event[[]byte]) ([]byte, error) {
	line := stdoutLine{
		ID: ev.ID, VendorID: ev.VendorID, Event: ev.EventID, Producer: ev.Producer, Endpoint: ev.Endpoint,
		Type: ev.Type, Attempt: ev.Attempt, Accepted: ev.Accepted.UTC(), Attributes: ev.Attributes,
		Tenant: ev.Tenant, Fetched: ev.Fetched, Unverified: ev.Unverified,
	}
	text, err := json.Marshal(line)
	if err != nil {
		return nil, err
	}
	data := append(text[:len(text)-1], `,"data":`...)
	if data, err = strictjson.AppendCompact(data, ev.Body); err == nil {
		return append(data, "}\n"...), nil
	}
	if utf8.Valid(ev.Body) {
		line.Text = string(ev.Body)
	} else {
		line.Body = ev.Body
	}
	text, err = json.Marshal(line)
	return append(text, '\n'), err
}
