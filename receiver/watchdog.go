package receiver

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/eyelet-dev/eyelet/dedup"
)

// hungGrace is how long a handler may take to return after its context ended before it counts
// as hung.
const hungGrace = time.Second

// watchdog extends the leases of all runs of handlers and notices handlers that hang. The runs
// share one timer, which fires when the first of them needs something.
//
// It extends a lease even long after the handler's context ended, and while the store does not
// record the outcome: no second run may start beside the first.
type watchdog struct {
	ctx    context.Context //nolint:containedctx // of the calls of the store; nothing happens after its end
	store  dedup.Store
	length time.Duration // of a lease

	mu       sync.Mutex
	runs     []*leasedRun
	stopping bool
	timer    *time.Timer
	fires    time.Time // when timer fires; zero if it does not
}

func newWatchdog(ctx context.Context, c *Config) *watchdog {
	return &watchdog{ctx: ctx, store: c.Store, length: c.Lease}
}

// add watches a run until remove. The lease was taken at the given time.
func (w *watchdog) add(run *leasedRun, taken time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.runs = append(w.runs, run)
	run.at, run.extendAt = len(w.runs), taken.Add(w.length/3)
	if w.stopping {
		run.cancel(errStopping)
	}
	w.arm(run)
}

// finish notes that the handler of a run has returned. It returns false if abandon came first.
func (w *watchdog) finish(run *leasedRun) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	run.returned, run.hungAt = true, time.Time{}
	return run.at > 0
}

// finishing notes that the transaction of a handler begins to record the outcome, or that it failed
// to. The lease is not extended meanwhile.
func (w *watchdog) finishing(run *leasedRun, finishes bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	run.finishes = finishes
	if run.at > 0 {
		w.arm(run)
	}
}

func (w *watchdog) remove(run *leasedRun) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.drop(run)
}

// drop removes a run; w.mu is held.
func (w *watchdog) drop(run *leasedRun) {
	if run.at == 0 {
		return
	}
	last := len(w.runs) - 1
	w.runs[last].at = run.at
	w.runs[run.at-1], w.runs[last] = w.runs[last], nil
	w.runs = w.runs[:last]
	run.at = 0
}

// stop ends the contexts of all handlers, also of those that begin later.
func (w *watchdog) stop() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.stopping = true
	for _, run := range w.runs {
		if !run.returned {
			run.cancel(errStopping)
		}
	}
}

// abandon removes the runs whose handlers have not returned, and returns how many.
func (w *watchdog) abandon() (n int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for i := len(w.runs) - 1; i >= 0; i-- {
		if run := w.runs[i]; !run.returned {
			w.drop(run)
			n++
		}
	}
	return n
}

// arm makes the timer fire when a run needs it; w.mu is held.
func (w *watchdog) arm(run *leasedRun) {
	at := run.extendAt
	if at.IsZero() || !run.hungAt.IsZero() && run.hungAt.Before(at) {
		at = run.hungAt
	}
	switch {
	case run.finishes || at.IsZero() || !w.fires.IsZero() && !at.Before(w.fires):
		return
	case w.timer == nil:
		w.timer = time.AfterFunc(time.Until(at), w.watch)
	default:
		w.timer.Reset(time.Until(at))
	}
	w.fires = at
}

// watch serves the runs that need something now.
func (w *watchdog) watch() {
	if w.ctx.Err() != nil {
		return
	}
	extend, hung := w.due(time.Now())
	for _, run := range extend {
		go w.extend(run)
	}
	for _, run := range hung {
		run.hung()
	}
}

// due returns the runs that need something. A look that is later than a grace follows a pause of
// the process, which ended contexts too: handlers then get another grace.
func (w *watchdog) due(now time.Time) (extend, hung []*leasedRun) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.fires = time.Time{}
	passed := func(at *time.Time) bool {
		if at.IsZero() || now.Before(*at) {
			return false
		}
		*at = time.Time{}
		return true
	}
	for _, run := range w.runs {
		if run.finishes {
			continue
		}
		if passed(&run.extendAt) {
			extend = append(extend, run)
		}
		if late := now.Sub(run.hungAt); !run.hungAt.IsZero() && late > hungGrace {
			run.hungAt = now.Add(hungGrace)
		}
		if passed(&run.hungAt) {
			hung = append(hung, run)
		}
		w.arm(run)
	}
	return extend, hung
}

// extend extends a lease. The next extension is due after a third of its length, sooner after an
// error, which is the store's. When the lease is lost, the handler's context ends, because another
// process may have the event.
func (w *watchdog) extend(run *leasedRun) {
	ctx, cancel := context.WithTimeout(w.ctx, w.length/3)
	defer cancel()
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
	if run.at == 0 || lost && (run.returned || run.finishes) {
		return false
	}
	switch {
	case err == nil:
		run.extendAt = time.Now().Add(w.length / 3)
	case !lost && !errors.Is(err, dedup.ErrFailed): // after these no extension can succeed
		run.extendAt = time.Now().Add(w.length / 12)
	}
	w.arm(run)
	return true
}
