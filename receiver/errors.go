package receiver

import (
	"errors"
	"fmt"
	"time"

	"github.com/eyelet-dev/eyelet/internal/duration"
)

// Reject returns an error that makes a task a dead letter at once: the event can never be
// handled as it is. From an Answer handler it is the response 422, which is stored. It works
// wrapped in other errors. err is the reason and may be nil.
func Reject(err error) error { return &rejection{reason{"rejected", err}} }

// Postpone returns an error that runs the task again after d, at most [Config.PostponeMax]. It
// does not count as a failed attempt. A d of zero or less means [Config.BackoffBase], so that no
// task loops without a pause. err is the reason and may be nil. It works wrapped in other
// errors. [Reject] wins over it.
//
// From an Answer handler it is a transient response: 503 with d as its Retry-After.
func Postpone(d time.Duration, err error) error {
	return &postponement{reason{fmt.Sprintf("postponed for %s", duration.Rough(d)), err}, d}
}

// RetryAfter returns an error that counts as a failed attempt and makes d the lower bound of the
// wait for the next one, even beyond [Config.BackoffCap]. The backoff is added to d, so that
// tasks which were refused together do not come back together. Use it when a target says when to
// come back, as with its Retry-After. A d of zero or less has no effect; one of more than a
// century is a century. err is the reason and may be nil. It works wrapped in other errors.
// [Reject] and [Postpone] win over it.
//
// From an Answer handler it is a transient response: 503 with d as the lower bound of its
// Retry-After. An intermediary that must not pass a Retry-After on returns the bare error instead.
func RetryAfter(d time.Duration, err error) error {
	return &laterError{reason{fmt.Sprintf("not again within %s", duration.Rough(d)), err}, d}
}

// WithReply returns err with what the target of a handler answered: the store keeps the beginning
// of it with the attempt ([dedup.Attempt]), for operators. Neither the text of the error nor the
// log has it. It works wrapped in other errors, and with nil it returns nil.
func WithReply(err error, reply string) error {
	if err == nil || reply == "" {
		return err
	}
	return &replied{err, reply}
}

type replied struct {
	err   error
	reply string
}

func (r *replied) Error() string { return r.err.Error() }
func (r *replied) Unwrap() error { return r.err }

// replyOf returns the reply that an error brings, or "".
func replyOf(err error) string {
	if r, ok := errors.AsType[*replied](err); ok {
		return r.reply
	}
	return ""
}

// longestWait bounds RetryAfter: later times cannot be stored.
const longestWait = 100 * 365 * 24 * time.Hour

// The errors that decide what happens to an event. undecodable is that of a payload that does not
// decode into the handler's type: retries cannot help.
type (
	rejection    struct{ reason }
	undecodable  struct{ reason }
	postponement struct {
		reason
		wait time.Duration
	}
	laterError struct {
		reason
		wait time.Duration
	}
)

// reason is the text of an error and its cause, which may be nil.
type reason struct {
	text string
	err  error
}

func (r *reason) Error() string { return because(r.text, r.err) }
func (r *reason) Unwrap() error { return r.err }

func because(what string, err error) string {
	if err == nil {
		return what
	}
	return what + ": " + err.Error()
}

// errorKind is what a handler's error means for its event.
type errorKind int

const (
	errorNone errorKind = iota
	errorRejected
	errorUndecodable
	errorPostponed
	errorPanic // or runtime.Goexit
	errorOther
)

// classify returns the kind of a handler's error and the wait that it asks for: the time of
// Postpone, or the lower bound of RetryAfter.
func classify(err error) (kind errorKind, wait time.Duration) {
	if later, ok := errors.AsType[*laterError](err); ok {
		wait = min(max(0, later.wait), longestWait)
	}
	postponed, isPostponed := errors.AsType[*postponement](err)
	switch {
	case err == nil:
		return errorNone, 0
	case is[*rejection](err):
		return errorRejected, 0
	case is[*undecodable](err):
		return errorUndecodable, 0
	case isPostponed:
		return errorPostponed, postponed.wait
	case is[*panicked](err), errors.Is(err, errGoexit):
		return errorPanic, wait
	}
	return errorOther, wait
}

// is reports whether an error in the tree has the type.
func is[E error](err error) bool {
	_, ok := errors.AsType[E](err)
	return ok
}
