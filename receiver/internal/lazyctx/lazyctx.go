// Package lazyctx has contexts for functions that mostly do not look at theirs: the channel, the
// timer and the links to other contexts are made when they are asked for.
package lazyctx

import (
	"context"
	"sync"
	"time"
)

// Context ends after its timeout, or by Cancel. It behaves as a context of [context.WithTimeout]
// around one of [context.WithCancelCause]: [context.Cause] returns why it ended. Start must come
// first, and Cancel last.
type Context struct {
	deadline time.Time

	mu         sync.Mutex
	err, cause error           // set when it was seen to have ended, and final then
	made       context.Context //nolint:containedctx // nil until it is asked for
	cancel     context.CancelCauseFunc
	stop       context.CancelFunc
}

// Start begins the time of the context.
func (c *Context) Start(timeout time.Duration) { c.deadline = time.Now().Add(timeout) }

// Cancel ends the context, unless it has ended. A nil cause is [context.Canceled].
func (c *Context) Cancel(cause error) {
	if cause == nil {
		cause = context.Canceled
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.look() == nil {
		c.err, c.cause = context.Canceled, cause
	}
	if c.made != nil {
		c.cancel(cause)
		c.stop()
	}
}

// look returns why the context has ended, nil if it has not; c.mu is held.
func (c *Context) look() error {
	switch {
	case c.err != nil:
	case c.made != nil:
		c.err, c.cause = c.made.Err(), context.Cause(c.made)
	case !time.Now().Before(c.deadline):
		c.err, c.cause = context.DeadlineExceeded, context.DeadlineExceeded
	}
	return c.err
}

// Cause returns what [context.Cause] returns, without making anything.
func (c *Context) Cause() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	_ = c.look()
	return c.cause
}

// Deadline implements [context.Context].
func (c *Context) Deadline() (time.Time, bool) { return c.deadline, true }

// Err implements [context.Context].
func (c *Context) Err() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.look()
}

// Done implements [context.Context].
func (c *Context) Done() <-chan struct{} { return c.standard().Done() }

// Value implements [context.Context]. Package context asks here for the context that it can link
// others to, so the standard one answers.
func (c *Context) Value(key any) any { return c.standard().Value(key) }

// standard returns the context of package context, which it makes once.
func (c *Context) standard() context.Context {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.made == nil {
		var inner context.Context
		inner, c.cancel = context.WithCancelCause(context.Background())
		if c.look() == context.Canceled { //nolint:errorlint // the very value of a context
			c.cancel(c.cause)
		}
		c.made, c.stop = context.WithDeadline(inner, c.deadline)
	}
	return c.made
}
