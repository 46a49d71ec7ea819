package receiver

import (
	"context"
	"time"

	"github.com/eyelet-dev/eyelet/producer"
)

// Handler is work for the events of one producer. [On] and [Answer] make one.
type Handler struct {
	name     string
	producer string
	pattern  string
	answer   bool
	other    bool
	lane     producer.Extractor
	with     []func(Next) Next
	// run decodes and calls the user's function; nil Response for On.
	run func(ctx context.Context, ev Event[any], decode decodeFunc) (*Response, error)
	err error
}

type decodeFunc func(contentType string, body []byte, v any) error

// Next runs a handler; middleware wraps it. The Data of the event is not decoded yet.
type Next func(ctx context.Context, ev Event[any]) (*Response, error)

// On makes a handler whose events are stored and acknowledged first and then run by workers, with retries,
// until fn succeeds, rejects the event ([Reject]) or its attempts are used up.
//
// The pattern is an exact event type, "prefix*", or "*". Every On handler that matches an event has a task of
// its own: its own attempts, outcome and dead letter.
func On[T any](producer, pattern string, fn func(context.Context, Event[T]) error) Handler {
	panic("not built yet")
}

// Answer makes a handler whose result is the response: it runs while the producer waits, its response is
// stored before it is sent, and duplicates get it again. An Answer handler takes its events alone.
//
// fn runs under a context that the producer's hanging up does not cancel, so that half a payment is never left
// behind.
func Answer[T any](producer, pattern string, fn func(context.Context, Event[T]) (Response, error)) Handler {
	panic("not built yet")
}

// Otherwise makes the handler take only what no other handler of its producer takes.
func (h Handler) Otherwise() Handler { h.other = true; return h }

// Named gives the handler its stable name, under which tasks are stored. Defaults to producer and pattern.
func (h Handler) Named(name string) Handler { h.name = name; return h }

// With wraps the handler in middleware, the first one outermost.
func (h Handler) With(middleware ...func(Next) Next) Handler {
	h.with = append(h.with[:len(h.with):len(h.with)], middleware...)
	return h
}

// Lane makes tasks with the same value of the extractor run one after another in accepted order.
func (h Handler) Lane(by producer.Extractor) Handler { h.lane = by; return h }

// Reject returns an error that ends a task at once as a dead letter, without further attempts: the event will
// never be handled as it is. From an Answer handler it is the response 422, which is stored.
func Reject(err error) error { panic("not built yet") }

// Postpone returns an error that runs the task again after d, at most [Config].PostponeMax; it does not count as
// a failed attempt. err says why, and may be nil.
func Postpone(d time.Duration, err error) error { panic("not built yet") }
