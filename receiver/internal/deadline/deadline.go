// Package deadline makes contexts that share their timers.
package deadline

import (
	"context"
	"sync"
	"time"
)

// Timeouts makes contexts that end after a timeout. Those that are made within a sixteenth of the
// timeout share a timer, so a context may end up to a sixteenth earlier, but never later.
type Timeouts struct {
	timeout time.Duration

	mu     sync.Mutex
	latest context.Context    // nil at first
	cancel context.CancelFunc // of latest, which ends by its timer alone
	until  time.Time          // contexts share latest before that
}

// New returns Timeouts of a length.
func New(timeout time.Duration) *Timeouts { return &Timeouts{timeout: timeout} }

// Context returns a context that has the values of another one and does not end with it.
func (t *Timeouts) Context(values context.Context) context.Context {
	return t.In(values, new(Context))
}

// In returns what Context does, in memory that no other context has had.
func (t *Timeouts) In(values context.Context, c *Context) context.Context {
	now := time.Now()
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.latest == nil || !now.Before(t.until) {
		t.until = now.Add(t.timeout / 16)
		t.latest, t.cancel = context.WithTimeout(context.Background(), t.timeout)
	}
	*c = Context{t.latest, values}
	return c
}

// Context is a context with the end of one context and the values of another.
type Context struct {
	context.Context
	values context.Context
}

// Value returns what package context finds in the context that ends, and otherwise the values of
// the other one.
func (c *Context) Value(key any) any {
	if v := c.Context.Value(key); v != nil {
		return v
	}
	return c.values.Value(key)
}
