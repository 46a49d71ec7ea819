package sink

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"github.com/eyelet-dev/eyelet/cmd/eyelet/internal/forward"
	"github.com/eyelet-dev/eyelet/receiver"
)

// Forward forwards events to a URL. Package forward classifies the response of the target; Forward
// maps that outcome to one of the receiver.
type Forward struct{ Target *forward.Target }

func (s *Forward) send(ctx context.Context, ev receiver.Event[[]byte]) forward.Result {
	return s.Target.Deliver(ctx, forward.Event{
		ID: ev.EventID, Key: forward.Key(ev.KeyField, ev.ID), Header: ev.Header, Body: ev.Body, Accepted: ev.Accepted,
		Signed: ev.SignedFields, Label: ev.SignatureLabel, Method: ev.Method, Target: ev.Target,
		Tenant: ev.Tenant, Fetched: ev.Fetched, Unverified: ev.Unverified, Traceparent: receiver.Traceparent(ctx),
	})
}

// Deliver forwards a stored event. The target's Retry-After is the minimum wait before the next
// attempt. Waiting for a target that is switched off uses no attempts.
func (s *Forward) Deliver(ctx context.Context, ev receiver.Event[[]byte]) error {
	r := s.send(ctx, ev)
	return receiver.WithReply(errorOf(r), r.Reply)
}

// errorOf returns what the receiver does about an outcome.
func errorOf(r forward.Result) error {
	switch {
	case r.Outcome == forward.Accepted:
		return nil
	case r.Outcome == forward.Terminal:
		return receiver.Reject(r.Err)
	case r.Outcome == forward.Deferred:
		return receiver.Postpone(r.NotBefore, r.Err)
	case r.NotBefore > 0:
		return receiver.RetryAfter(r.NotBefore, r.Err)
	}
	return r.Err
}

// Answer relays the event: the target's outcome becomes the response. The target's Retry-After is
// not relayed; the receiver sends its own (section 9.7 of the delivery draft).
func (s *Forward) Answer(ctx context.Context, ev receiver.Event[[]byte]) (receiver.Response, error) {
	r := s.send(ctx, ev)
	switch {
	case r.Outcome == forward.Accepted:
		relayed := receiver.Response{Status: r.Status, Body: r.Body}
		if r.ContentType != "" {
			relayed.Header = http.Header{"Content-Type": {r.ContentType}}
		}
		return relayed, nil
	case r.Outcome == forward.Terminal:
		detail := "The target has ended."
		if r.Status != 0 {
			detail = fmt.Sprintf("The target refused the event with status %d.", r.Status)
		}
		refused := &receiver.Refusal{ByTarget: true, Detail: detail, Reply: r.Reply}
		return receiver.Response{Status: refusal(r.Status), Refusal: refused}, nil
	case errors.Is(r.Err, forward.ErrOff):
		return receiver.Response{}, receiver.Postpone(r.NotBefore, r.Err) // the receiver's wait, not the target's
	}
	return receiver.Response{}, receiver.WithReply(r.Err, r.Reply)
}

// refusal returns the status for an event that the target refused. Statuses about the event are
// relayed. Those about our credentials (401, 403), the URL (404, 405) or the end of the target
// (410) do not concern the producer.
func refusal(status int) int {
	switch status {
	case http.StatusBadRequest, http.StatusRequestEntityTooLarge, http.StatusUnsupportedMediaType,
		http.StatusUnavailableForLegalReasons:
		return status
	}
	return http.StatusUnprocessableEntity
}
