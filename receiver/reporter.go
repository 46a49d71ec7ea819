package receiver

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/eyelet-dev/eyelet/dedup"
)

// reporter records the results of attempts. Its goroutine, which exists while there are any,
// records those together that came while it recorded the ones before.
type reporter struct {
	d *dispatcher

	mu      sync.Mutex
	waiting []*attempt
	running bool

	// These belong to the goroutine.
	batch []*attempt
	errs  []error // of batch
}

func (r *reporter) add(a *attempt) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.waiting = append(r.waiting, a)
	if !r.running {
		r.running = true
		go r.run()
	}
}

func (r *reporter) run() {
	ended := false
	defer func() {
		if !ended { // Config.Observe called runtime.Goexit
			go r.run()
		}
	}()
	for len(r.batch) > 0 || r.next() {
		a, err := r.batch[0], r.errs[0]
		r.batch, r.errs = r.batch[1:], r.errs[1:]
		if err == nil {
			a.report()
		} else {
			go a.settle(err)
		}
	}
	ended = true
}

// next records the results that wait. It returns false, and the goroutine has to end, if there
// are none.
func (r *reporter) next() bool {
	if !r.gather() {
		return false
	}
	results := make([]dedup.LeaseResult, len(r.batch))
	for i, a := range r.batch {
		results[i] = dedup.LeaseResult{Lease: a.lease, Result: a.result}
	}
	ctx, cancel := r.d.storeContext()
	defer cancel()
	r.errs = r.d.cfg.Store.FinishMany(ctx, results...)
	return true
}

func (r *reporter) gather() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.running = len(r.waiting) > 0; r.running { // else the next goroutine may have begun
		r.batch, r.waiting = r.waiting, nil
	}
	return r.running
}

// storeContext is the context of one call that records results.
func (d *dispatcher) storeContext() (context.Context, context.CancelFunc) {
	return context.WithTimeout(d.leaseCtx, max(d.cfg.Lease/3, time.Millisecond))
}

// record records the result alone.
func (a *attempt) record() error {
	ctx, cancel := a.d.storeContext()
	defer cancel()
	return a.d.cfg.Store.Finish(ctx, a.lease, a.result)
}

// settle follows a call that recorded the result, or failed to.
func (a *attempt) settle(err error) {
	if err != nil {
		err = a.d.record(a.log, a.d.leaseCtx.Done(), err, a.record)
	}
	switch {
	case err == nil:
		a.report()
	case errors.Is(err, dedup.ErrLeaseLost):
		a.drop()
	default:
		a.abandon(err)
	}
}

// record records a result by calls of once, which follow a failed one if err is not nil. While the
// store is unavailable it tries again, so that the handler need not run again for a fault of the
// store; the lease is extended meanwhile. It returns nil once the result is recorded,
// [dedup.ErrLeaseLost] if the lease is lost or an earlier call recorded it, and else the error with
// which it is abandoned: when the store has failed for good, when ended is closed because the
// receiver stops, and after one more lease on errors that promise no end.
func (d *dispatcher) record(log func() *slog.Logger, ended <-chan struct{}, err error, once func() error) error {
	if err == nil {
		err = once()
	}
	deadline := time.Now().Add(d.cfg.Lease)
	for n := 0; err != nil; n++ {
		var unavailable *dedup.ErrUnavailable
		switch {
		case errors.Is(err, dedup.ErrLeaseLost):
			return err
		case errors.As(err, &unavailable) && !errors.Is(err, dedup.ErrFailed):
			deadline = time.Now().Add(d.cfg.Lease)
		case errors.Is(err, dedup.ErrFailed), errors.Is(err, dedup.ErrClosed), errors.Is(err, dedup.ErrNotFound),
			time.Now().After(deadline):
			return err
		}
		if n == 0 {
			log().Warn("the outcome is not recorded yet; retrying", "err", err)
		}
		if !pause(ended, min(backoff(storeRetryBase, storeRetryCap, n, d.random), d.cfg.Lease/6)) {
			return err
		}
		err = once()
	}
	return nil
}

// drop discards the result: the lease was lost, or an earlier call recorded the outcome although
// it returned an error.
func (a *attempt) drop() {
	defer a.close()
	a.log().Warn("the lease was lost: the result of this attempt is discarded", a.errorAttr())
	a.observe(KindAttempt, dedup.Pending, reasonLeaseLost, nil)
}

func (a *attempt) abandon(err error) {
	defer a.close()
	a.log().Error("the outcome could not be recorded: the task runs again after its lease", "err", err)
	a.observe(KindAttempt, dedup.Pending, reasonUnrecorded, err)
}

// report logs and observes the recorded outcome.
func (a *attempt) report() {
	defer a.close()
	state, res := dedup.Pending, &a.result
	switch res.Kind {
	case dedup.ResultDone:
		if state = dedup.Done; res.Reason == dedup.ReasonStale {
			a.log().Info("task is stale: a newer event of its lane was handled")
		} else if a.d.log.Enabled(a.d.leaseCtx, slog.LevelDebug) {
			a.log().Debug("task done", "took", time.Since(a.began))
		}
	case dedup.ResultDead:
		state = dedup.Dead
		a.log().Error("task is a dead letter", slog.String("reason", res.Reason), a.errorAttr())
	case dedup.ResultRetry:
		a.log().Warn("task runs again", slog.String("reason", res.Reason), slog.Duration("after", res.After),
			a.errorAttr())
	case dedup.ResultRelease:
		a.log().Info("task released", "reason", res.Reason)
	}
	a.observe(KindAttempt, state, res.Reason, typeOnly(a.cause))
	a.d.control.report(a)
}

// errorAttr is why the attempt failed: what the handler returned, else what was recorded.
func (a *attempt) errorAttr() slog.Attr {
	if a.cause == nil && !a.d.cfg.OmitErrors && a.result.Err != "" {
		return slog.String("error", a.result.Err)
	}
	return a.d.cfg.errorAttr(a.cause)
}

// close ends the attempt, whose outcome is recorded or abandoned.
func (a *attempt) close() {
	a.d.control.close(a)
	a.d.watchdog.remove(&a.leasedRun)
	a.d.prefetch.finish()
	a.d.open.Done()
}
