package main

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"time"
	"unicode/utf8"

	"github.com/eyelet-dev/eyelet/receiver"
)

// stdoutSink prints each event as a line of JSON.
type stdoutSink struct{ out *output }

// printed is the line of an event. A payload that is JSON stands in data as it is, other text in text, and
// other bytes in body, in base64.
type printed struct {
	ID         string            `json:"id"`
	Event      string            `json:"event"`
	Producer   string            `json:"producer"`
	Endpoint   string            `json:"endpoint"`
	Type       string            `json:"type"`
	Attempt    int               `json:"attempt"`
	Accepted   time.Time         `json:"accepted"`
	Attributes map[string]string `json:"attributes,omitempty"`
	Data       json.RawMessage   `json:"data,omitempty"`
	Text       string            `json:"text,omitempty"`
	Body       []byte            `json:"body,omitempty"`
}

func (s stdoutSink) deliver(_ context.Context, ev receiver.Event[[]byte]) error {
	p := printed{
		ID: ev.ID, Event: ev.EventID, Producer: ev.Producer, Endpoint: ev.Endpoint, Type: ev.Type,
		Attempt: ev.Attempt, Accepted: ev.Accepted.UTC(), Attributes: ev.Attributes,
	}
	switch {
	case json.Valid(ev.Body):
		p.Data = ev.Body
	case utf8.Valid(ev.Body):
		p.Text = string(ev.Body)
	default:
		p.Body = ev.Body
	}
	line, err := json.Marshal(p)
	if err != nil {
		return err
	}
	_, err = s.out.Write(append(line, '\n'))
	return err
}

func (s stdoutSink) answer(ctx context.Context, ev receiver.Event[[]byte]) (receiver.Response, error) {
	return receiver.Response{Status: http.StatusNoContent}, errors.Join(s.deliver(ctx, ev))
}
