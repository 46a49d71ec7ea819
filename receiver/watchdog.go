package receiver

import (
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/eyelet-dev/eyelet/dedup"
)

// watchdog extends the leases of all runs of handlers, even long after the handler's context ended,
// and while the store does not record the outcome: no second run may start beside the first.
type watchdog struct {
	ctx    context.Context //nolint:containedctx // of the calls of the store; nothing happens after its end
	ended  <-chan struct{} // closed once no result is recorded any more
	store  dedup.Store
	length time.Duration // of a lease

	mu       sync.Mutex
	runs     map[*leasedRun]bool
	stopping bool
}

func newWatchdog(ctx context.Context, ended <-chan struct{}, c *Config) *watchdog {
	return &watchdog{ctx: ctx, ended: ended, store: c.Store, length: c.Lease, runs: map[*leasedRun]bool{}}
}

// leasedRun is one run of a handler as the watchdog sees it.
type leasedRun struct {
	owner
	lease    dedup.Lease
	timer    *time.Timer // extends the lease
	extendAt time.Time   // when it does; zero is never
	returned bool        // the handler has returned
	finishes bool        // its transaction records the outcome: an extension would wait for it
}

// owner is what the watchdog calls for a run.
type owner interface {
	log() *slog.Logger
	cancel(cause error) // ends the handler's context; not called once the handler has returned
}

// add watches a run until remove. The lease was taken at the given time.
func (w *watchdog) add(run *leasedRun, taken time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.runs[run] = true
	run.extendAt = taken.Add(w.length / 3)
	run.timer = time.AfterFunc(time.Until(run.extendAt), func() { w.extend(run) })
	if w.stopping {
		run.cancel(errStopping)
	}
}

// finish notes that the handler of a run has returned. It returns false if abandon came first.
func (w *watchdog) finish(run *leasedRun) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	run.returned = true
	return w.runs[run]
}

// finishing notes that the transaction of a handler begins to record the outcome, or that it failed
// to. The lease is not extended meanwhile.
func (w *watchdog) finishing(run *leasedRun, finishes bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	run.finishes = finishes
	switch {
	case !w.runs[run] || run.extendAt.IsZero():
	case finishes:
		run.timer.Stop()
	default:
		run.timer.Reset(time.Until(run.extendAt))
	}
}

func (w *watchdog) isFinishing(run *leasedRun) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return run.finishes
}

func (w *watchdog) remove(run *leasedRun) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.runs, run)
	run.timer.Stop()
}

// stop ends the contexts of all handlers, also of those that begin later.
func (w *watchdog) stop() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.stopping = true
	for run := range w.runs {
		if !run.returned {
			run.cancel(errStopping)
		}
	}
}

// abandon removes the runs whose handlers have not returned, and returns how many.
func (w *watchdog) abandon() (n int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for run := range w.runs {
		if !run.returned {
			delete(w.runs, run)
			run.timer.Stop()
			n++
		}
	}
	return n
}

// extend extends a lease. The next extension is due after a third of its length, sooner after an
// error, which is the store's. When the lease is lost, the handler's context ends, because another
// process may have the event.
func (w *watchdog) extend(run *leasedRun) {
	ctx, cancel := context.WithTimeout(w.ctx, w.length/3)
	defer cancel()
	if ctx.Err() != nil {
		return
	}
	err := w.store.Extend(ctx, run.lease, w.length)
	lost := errors.Is(err, dedup.ErrLeaseLost)
	if !w.extended(run, err, lost) {
		return
	}
	if err != nil {
		run.log().Warn("the lease was not extended", "err", err)
	}
	if lost {
		run.cancel(dedup.ErrLeaseLost)
	}
}

// extended notes the result of an extension. It returns false if that no longer matters, because
// the outcome is recorded or the store is recording it.
func (w *watchdog) extended(run *leasedRun, err error, lost bool) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.runs[run] || lost && (run.returned || run.finishes) {
		return false
	}
	next := w.length / 3
	if err != nil {
		next = w.length / 12
	}
	if run.extendAt = time.Now().Add(next); lost || errors.Is(err, dedup.ErrFailed) {
		run.extendAt = time.Time{} // no extension can succeed any more
	} else if !run.finishes {
		run.timer.Reset(next)
	}
	return true
}

// settle returns once a result is recorded, whose first call returned err. While the store is
// unavailable it records again, so that the handler need not run again for a fault of the store;
// the lease is extended meanwhile. It returns nil once the result is recorded, [dedup.ErrLeaseLost]
// if the lease is lost or an earlier call recorded it, and else the error with which it is
// abandoned: when the store has failed for good, when the receiver stops, and after one more lease
// on errors that promise no end.
func (w *watchdog) settle(run *leasedRun, err error, record func() error) error {
	deadline := time.Now().Add(w.length)
	for n := 0; err != nil; n++ {
		_, unavailable := errors.AsType[*dedup.ErrUnavailable](err)
		switch {
		case errors.Is(err, dedup.ErrLeaseLost), errors.Is(err, dedup.ErrFailed):
			return err
		case unavailable:
			deadline = time.Now().Add(w.length)
		case errors.Is(err, dedup.ErrClosed), errors.Is(err, dedup.ErrNotFound), time.Now().After(deadline):
			return err
		}
		if n == 0 {
			run.log().Warn("the outcome is not recorded yet; retrying", "err", err)
		}
		if !pause(w.ended, min(backoff(storeRetryBase, storeRetryCap, n, rand.Int64N), w.length/6)) {
			return err
		}
		err = record()
	}
	return nil
}
