package receiver

import (
	"errors"
	"fmt"
	"time"
)

// Reject returns an error that makes a task a dead letter at once: the event can never be
// handled as it is. From an Answer handler it is the response 422, which is stored. It works
// wrapped in other errors. err is the reason and may be nil.
func Reject(err error) error { return &rejection{err: err} }

// Postpone returns an error that runs the task again after d, at most [Config.PostponeMax]. It
// does not count as a failed attempt. A d of zero or less means [Config.BackoffBase], so that no
// task loops without a pause. err is the reason and may be nil. It works wrapped in other
// errors. [Reject] wins over it.
//
// From an Answer handler it is a transient response: 503 with d as its Retry-After.
func Postpone(d time.Duration, err error) error { return &postponement{wait: d, err: err} }

// RetryAfter returns an error that counts as a failed attempt and makes d the lower bound of the
// wait for the next one, even beyond [Config.BackoffCap]. The backoff is added to d, so that
// tasks which were refused together do not come back together. Use it when a target says when to
// come back, as with its Retry-After. A d of zero or less has no effect; one of more than a
// century is a century. err is the reason and may be nil. It works wrapped in other errors.
// [Reject] and [Postpone] win over it.
//
// From an Answer handler it is a transient response: 503 with d as the lower bound of its
// Retry-After. An intermediary that must not pass a Retry-After on returns the bare error instead.
func RetryAfter(d time.Duration, err error) error { return &laterError{wait: d, err: err} }

// longestWait bounds RetryAfter: later times cannot be stored.
const longestWait = 100 * 365 * 24 * time.Hour

type laterError struct {
	wait time.Duration
	err  error
}

func (e *laterError) Error() string {
	return because(fmt.Sprintf("not again within %v", e.wait), e.err)
}
func (e *laterError) Unwrap() error { return e.err }

// notBefore returns the lower bound that RetryAfter sets for the next attempt, or zero.
func notBefore(err error) time.Duration {
	var e *laterError
	if !errors.As(err, &e) {
		return 0
	}
	return min(max(0, e.wait), longestWait)
}

type rejection struct{ err error }

func (e *rejection) Error() string { return because("rejected", e.err) }
func (e *rejection) Unwrap() error { return e.err }

type postponement struct {
	wait time.Duration
	err  error
}

func (e *postponement) Error() string { return because(fmt.Sprintf("postponed for %v", e.wait), e.err) }
func (e *postponement) Unwrap() error { return e.err }

// undecodable is the error of a payload that does not decode into the handler's type. Retries
// cannot help.
type undecodable struct {
	typ string // the handler's type
	err error
}

func (e *undecodable) Error() string { return because("payload is not a "+e.typ, e.err) }
func (e *undecodable) Unwrap() error { return e.err }

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
	wait, isPostponed := postponed(err)
	var crash *panicked
	switch {
	case err == nil:
		return errorNone, 0
	case isRejected(err):
		return errorRejected, 0
	case isUndecodable(err):
		return errorUndecodable, 0
	case isPostponed:
		return errorPostponed, wait
	case errors.As(err, &crash), errors.Is(err, errGoexit):
		return errorPanic, notBefore(err)
	}
	return errorOther, notBefore(err)
}

func isRejected(err error) bool {
	var e *rejection
	return errors.As(err, &e)
}

func isUndecodable(err error) bool {
	var e *undecodable
	return errors.As(err, &e)
}

// postponed returns for how long err postpones the task.
func postponed(err error) (time.Duration, bool) {
	var e *postponement
	if !errors.As(err, &e) {
		return 0, false
	}
	return e.wait, true
}
