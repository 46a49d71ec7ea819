package deadline

import (
	"cmp"
	"context"
	"sync"
	"time"
)

// Run is the context of something with a timeout, which may also be ended with a cause. Package
// context makes it once something waits for its end or asks for a value: many handlers do neither.
type Run struct {
	at time.Time

	mu         sync.Mutex
	made       context.Context // nil at first
	end        context.CancelCauseFunc
	err, cause error // of an end before made
}

// Begin begins the time. It comes first, and once.
func (r *Run) Begin(timeout time.Duration) { r.at = time.Now().Add(timeout) }

// End ends the context as a [context.CancelCauseFunc] does. It must be called in the end.
func (r *Run) End(cause error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.made != nil {
		r.end(cause)
	} else if r.look(); r.err == nil {
		r.err, r.cause = context.Canceled, cmp.Or(cause, context.Canceled)
	}
}

// look notes the end of a context that is not made; r.mu is held.
func (r *Run) look() {
	if r.err == nil && !time.Now().Before(r.at) {
		r.err, r.cause = context.DeadlineExceeded, context.DeadlineExceeded
	}
}

// ended returns what Err and [context.Cause] return.
func (r *Run) ended() (err, cause error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.made != nil {
		return r.made.Err(), context.Cause(r.made)
	}
	r.look()
	return r.err, r.cause
}

// Cause is [context.Cause] of the context.
func (r *Run) Cause() (cause error) {
	_, cause = r.ended()
	return cause
}

// Err implements [context.Context].
func (r *Run) Err() (err error) {
	err, _ = r.ended()
	return err
}

// Deadline implements [context.Context].
func (r *Run) Deadline() (at time.Time, ok bool) { return r.at, true }

// Done implements [context.Context].
func (r *Run) Done() <-chan struct{} { return r.make().Done() }

// Value implements [context.Context]. Package context finds in a parent by its values what a child
// has to follow.
func (r *Run) Value(key any) any { return r.make().Value(key) }

func (r *Run) make() context.Context {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.made == nil {
		r.look()
		parent, end := context.WithCancelCause(context.Background())
		if r.err == context.Canceled { //nolint:errorlint // set by End
			end(r.cause)
		}
		made, stop := context.WithDeadline(parent, r.at)
		r.made, r.end = made, func(cause error) { end(cause); stop() }
	}
	return r.made
}
