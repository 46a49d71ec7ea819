package receiver

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/eyelet-dev/eyelet/dedup"
	"github.com/eyelet-dev/eyelet/receiver/internal/executor"
)

const (
	// stopGrace is how long handlers may take to return once stop has ended their contexts, and
	// then the store to return from its calls.
	stopGrace = 2 * time.Second
	// storeRetryBase and storeRetryCap bound the backoff after a failed call of the store.
	storeRetryBase = 50 * time.Millisecond
	storeRetryCap  = 2 * time.Second
)

// errStopping is the cause of contexts that end because the receiver stops.
var errStopping = errors.New("the receiver is stopping")

// dispatcher takes tasks from the store and runs them, at most Config.Workers at once. One
// goroutine takes, the workers run handlers, the reporter records what they return, and the
// watchdog extends the leases of all tasks.
//
// Taking a task and recording its outcome are durable steps that take longer than many handlers.
// Tasks share these steps in two ways: a worker is free again once its handler has returned,
// while the outcome is still being recorded, and a few tasks are prefetched (see runEstimate).
//
// It stops in three steps: no new tasks, the end of the contexts of handlers, and no more calls of
// the store (leaseCtx), after which handlers that still run are abandoned.
type dispatcher struct {
	cfg      Config // with its defaults
	registry *registry
	log      *slog.Logger
	want     dedup.Want // without the capacity of the moment
	random   func(int64) int64
	control  *control

	takeCtx    context.Context
	endTake    context.CancelFunc
	leaseCtx   context.Context
	stopLeases context.CancelFunc

	workers  *executor.Pool[*attempt]
	watchdog *watchdog
	reporter reporter
	prefetch prefetcher
	taking   chan struct{}  // closed once no task is taken any more
	open     sync.WaitGroup // the taking goroutine and the tasks without an outcome
	done     chan struct{}  // closed once open is done
}

func newDispatcher(cfg Config, b *registry, log *slog.Logger) *dispatcher {
	d := &dispatcher{
		cfg: cfg, registry: b, log: log, random: rand.Int64N,
		want: dedup.Want{
			Lease: cfg.Lease, Handlers: b.names(), OrphanAfter: max(0, cfg.OrphanAfter),
		},
		prefetch: prefetcher{workers: cfg.Workers, freed: make(chan struct{}, 1)},
		taking:   make(chan struct{}), done: make(chan struct{}),
	}
	d.takeCtx, d.endTake = context.WithCancel(context.Background())
	d.leaseCtx, d.stopLeases = context.WithCancel(context.Background())
	d.watchdog = newWatchdog(d.leaseCtx, &d.cfg)
	d.reporter.d = d
	d.control = &control{cfg: &d.cfg, log: log}
	d.control.configure(b.byName)
	d.workers = executor.New(executor.Config[*attempt]{
		Goroutines: cfg.Workers, Run: (*attempt).run, Ended: (*attempt).goexit,
		Patience: min(workerPatience, cfg.Lease/3),
		Expired: func(a *attempt, waited time.Duration) {
			d.prefetch.observeWait(waited)
			a.release(reasonWaited)
		},
	})
	return d
}

func (d *dispatcher) start() {
	d.open.Go(func() {
		defer close(d.taking)
		d.take()
	})
	go func() {
		d.open.Wait()
		d.stopTake()
		close(d.done)
	}()
}

// stopTake stops taking tasks, and returns to the store those that wait for a worker.
func (d *dispatcher) stopTake() {
	d.endTake()
	for _, a := range d.workers.Stop() {
		a.release(reasonStopped)
	}
}

// stop stops taking tasks, waits until ctx ends for those that run, then ends their contexts and
// waits a little more. It must follow start and may be called more than once. Its error counts
// the tasks without a recorded outcome, because a handler did not return or the store did not
// record it. They run again after the next start.
func (d *dispatcher) stop(ctx context.Context) error {
	d.stopTake() //nolint:contextcheck // releases are observed even after ctx
	select {
	case <-d.done:
		return nil
	case <-ctx.Done():
	}
	d.watchdog.stop()
	if !pause(d.done, stopGrace) {
		return nil
	}
	tasks := d.prefetch.unfinished()
	d.stopLeases()
	d.open.Add(-d.watchdog.abandon())
	if pause(d.done, stopGrace) {
		return errors.New("the store does not return from its calls, which are abandoned")
	}
	return fmt.Errorf("tasks without an outcome, which run again after the next start: %d", tasks)
}

// take takes as many tasks as there is capacity for, and starts them, until the dispatcher
// stops. It logs when the store begins to fail and when it works again, not every failure.
func (d *dispatcher) take() {
	failures := 0
	for {
		n, bytes := d.waitForCapacity()
		if n == 0 {
			return
		}
		want := d.want
		want.Tasks, want.Bytes = n, bytes
		ctx, end, most := d.control.begin(d.takeCtx)
		want.Most = most
		works, err := d.cfg.Store.Take(ctx, want)
		ended := ctx.Err() != nil // with takeCtx, or to take more
		end()
		if !ended {
			failures = d.noteTake(failures, err)
		}
		for _, w := range works {
			d.add(newAttempt(d, w))
		}
		switch {
		case ended:
		case errors.Is(err, dedup.ErrClosed), errors.Is(err, dedup.ErrFailed):
			return
		case err != nil:
			pause(d.takeCtx.Done(), backoff(storeRetryBase, storeRetryCap, failures, d.random))
		case len(works) == 0: // do not spin on a store that does not block
			pause(d.takeCtx.Done(), storeRetryBase)
		}
	}
}

// add gives a task to the workers, unless its handler was paused meanwhile.
func (d *dispatcher) add(a *attempt) {
	d.prefetch.add(a.size)
	d.open.Add(1)
	switch ok := d.control.start(a); {
	case !ok && isUnverified(&a.rec): // verified events may wait for what it would take
		after := backoff(trialBase, trialCap, a.task().Postponed, d.random)
		a.unstarted(dedup.Result{Kind: dedup.ResultRetry, Postponed: true, After: after}, reasonPaused)
	case !ok:
		a.release(reasonPaused)
	case !d.workers.Add(a):
		a.release(reasonStopped)
	}
}

// noteTake logs a change between working and failing, and returns the number of failures in a row.
func (d *dispatcher) noteTake(failures int, err error) int {
	switch {
	case err == nil:
		if failures > 0 {
			d.log.Info("the store returns tasks again", "failures", failures)
		}
		return 0
	case errors.Is(err, dedup.ErrClosed):
		d.log.Error("the store was closed before the receiver: no more tasks run")
	case errors.Is(err, dedup.ErrFailed):
		d.log.Error("the store has failed: no more tasks run", "err", err)
	case failures == 0:
		d.log.Error("the store returns no tasks; retrying", "err", err)
	}
	return failures + 1
}

// waitForCapacity waits until another task may be taken, and returns how many tasks and bytes;
// zero when the dispatcher stops.
func (d *dispatcher) waitForCapacity() (tasks int, bytes int64) {
	for d.takeCtx.Err() == nil {
		if tasks, bytes = d.prefetch.capacity(); tasks > 0 && bytes > 0 {
			return tasks, bytes
		}
		select {
		case <-d.prefetch.freed:
		case <-d.takeCtx.Done():
		}
	}
	return 0, 0
}

// pause waits, or until done is closed; it reports whether done is still open.
func pause(done <-chan struct{}, wait time.Duration) bool {
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-done:
		return false
	}
}
