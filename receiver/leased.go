package receiver

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/eyelet-dev/eyelet/dedup"
)

// hungGrace is how long a handler may take to return after its context ended before it counts
// as hung.
const hungGrace = time.Second

// leasedRun keeps the lease of one run of a handler.
type leasedRun struct {
	store   dedup.Store
	lease   dedup.Lease
	length  time.Duration // of the lease
	renewAt time.Time
}

// newLeasedRun returns a run whose lease has just been taken.
func newLeasedRun(c *Config, lease dedup.Lease) leasedRun {
	return leasedRun{store: c.Store, lease: lease, length: c.Lease, renewAt: time.Now().Add(c.Lease / 3)}
}

// runHooks are what a run does about its handler.
type runHooks struct {
	log       func() *slog.Logger
	cancel    func(cause error) // ends the handler's context
	stop      <-chan struct{}   // closed when handlers have to end; nil where their context ends by itself
	hungAfter time.Duration     // zero is never
	hung      func()            // called once
}

// runLeased waits for the handler and extends its lease, even long after the handler's context
// ended: no second run may start beside this one. When the lease is lost, it ends the handler's
// context, because another process may have the event. It returns false when ctx ends first.
func (l *leasedRun) runLeased(ctx context.Context, out <-chan returned, hooks runHooks) (returned, bool) {
	extend := time.NewTimer(time.Until(l.renewAt))
	defer extend.Stop()
	var hung <-chan time.Time
	if hooks.hungAfter > 0 {
		timer := time.NewTimer(hooks.hungAfter)
		defer timer.Stop()
		hung = timer.C
	}
	for {
		select {
		case r := <-out:
			return r, true
		case <-hooks.stop:
			hooks.stop = nil
			hooks.cancel(errStopping)
		case <-extend.C:
			switch err := l.extend(ctx, hooks.log); {
			case errors.Is(err, dedup.ErrLeaseLost):
				hooks.cancel(dedup.ErrLeaseLost)
			case !errors.Is(err, dedup.ErrFailed): // after ErrFailed no extension can succeed
				extend.Reset(time.Until(l.renewAt))
			}
		case <-hung:
			hooks.hung()
		case <-ctx.Done():
			return returned{}, false
		}
	}
}

// extend extends the lease. The next extension is due after a third of its length, sooner after
// an error, which is the store's.
func (l *leasedRun) extend(ctx context.Context, log func() *slog.Logger) error {
	ctx, cancel := context.WithTimeout(ctx, l.length/3)
	defer cancel()
	err := l.store.Extend(ctx, l.lease, l.length)
	l.renewAt = time.Now().Add(l.length / 3)
	if err != nil {
		l.renewAt = time.Now().Add(l.length / 12)
		log().Warn("the lease was not extended", "err", err)
	}
	return err
}
