package receiver

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/eyelet-dev/eyelet/dedup"
)

func goexit() { runtime.Goexit() }

// gate blocks handlers. It must be made inside the bubble, else waiting for it does not advance
// the time.
type gate struct{ open chan struct{} }

// waits is a handler that waits for its gate or, if polite, for the end of its context.
func waits(g *gate, polite bool) func(context.Context, Event[[]byte]) error {
	return func(ctx context.Context, _ Event[[]byte]) error {
		if !polite {
			<-g.open
			return nil
		}
		select {
		case <-g.open:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func TestHandlersRunAtOnceUpToTheNumberOfWorkers(t *testing.T) {
	g := &gate{}
	var now, most atomic.Int64
	h := On("gh", "*", func(context.Context, Event[[]byte]) error {
		n := now.Add(1)
		for m := most.Load(); n > m && !most.CompareAndSwap(m, n); m = most.Load() {
		}
		<-g.open
		now.Add(-1)
		return nil
	})
	onFixture(t, []Handler{h}, func(c *Config) { c.Workers = 3 }, func(f *fixture) {
		g.open = make(chan struct{})
		events := []string{f.accept("first", "x")}
		synctest.Wait() // one worker is busy, and the dispatcher waits for work for two
		var claims []dedup.Claim
		for i := range 10 {
			claims = append(claims, f.claim(fmt.Sprint(i), "x"))
		}
		events = append(events, f.acceptAll(claims...)...)
		synctest.Wait()
		f.same("at once", int64(3), now.Load())
		f.store.set(func() {
			for _, n := range f.store.taken {
				if n < 1 || n > 3 {
					t.Errorf("requested %d tasks before any handler had returned", n)
				}
			}
		})
		close(g.open)
		for _, e := range events {
			f.outcome(e)
		}
		f.same("most", int64(3), most.Load())
	})
}

func TestPayloadsOfRunningTasksAreBounded(t *testing.T) {
	g := &gate{}
	var now atomic.Int64
	h := On("gh", "*", func(context.Context, Event[[]byte]) error { now.Add(1); <-g.open; return nil })
	onFixture(t, []Handler{h}, nil, func(f *fixture) {
		g.open = make(chan struct{})
		big := strings.Repeat("x", prefetchBytes/2)
		events := []string{f.accept("1", big), f.accept("2", big), f.accept("3", big), f.accept("4", "")}
		synctest.Wait()
		f.same("at once", int64(2), now.Load())
		close(g.open)
		for _, e := range events {
			f.outcome(e)
		}
	})
}

func TestHungHandlerKeepsOnlyItsOwnTask(t *testing.T) {
	g := &gate{}
	h := On("gh", "*", waits(g, false)).Named("hangs")
	onFixture(t, []Handler{h, script().Named("works")}, func(c *Config) { c.Workers = 2 }, func(f *fixture) {
		g.open = make(chan struct{})
		first := f.accept("1", "x", dedup.NewTask{Handler: "hangs"})
		time.Sleep(time.Hour)
		synctest.Wait()
		f.ends(f.record(first), dedup.Running, "", 1)
		f.same("observed", []string{"hanging hangs 1 running hanging"}, f.attempts())
		for i := range 5 {
			f.ends(f.outcome(f.accept(fmt.Sprint("w", i), "x", dedup.NewTask{Handler: "works"})), dedup.Done, "", 1)
		}
		f.same("times in the log", 1, strings.Count(f.logs.String(), "the handler hangs"))
		close(g.open)
		f.ends(f.outcome(first), dedup.Done, "", 1)
		f.same("last observation", "attempt hangs 1 done", f.attempts()[6])
	})
}

func TestTimeoutEndsTheContext(t *testing.T) {
	h := On("gh", "*", waits(&gate{}, true))
	onFixture(t, []Handler{h}, func(c *Config) { c.Attempts, c.HandlerTimeout = 2, 3*time.Second }, func(f *fixture) {
		start := time.Now()
		event := f.accept("1", "x")
		time.Sleep(3 * time.Second)
		synctest.Wait()
		f.same("attempts", []string{"attempt gh/* 1 pending timeout"}, f.attempts())
		f.ends(f.outcome(event), dedup.Dead, reasonExhausted, 2)
		if took := time.Since(start); took < 6*time.Second || took > 8*time.Second {
			t.Errorf("two attempts took %v", took)
		}
		f.same("hanging", false, strings.Contains(f.logs.String(), "hangs"))
	})
}

func TestLeaseIsExtendedWhileTheHandlerRuns(t *testing.T) {
	g := &gate{}
	onFixture(t, []Handler{On("gh", "*", waits(g, false))}, func(c *Config) { c.HandlerTimeout = time.Hour },
		func(f *fixture) {
			g.open = make(chan struct{})
			event := f.accept("1", "x")
			for range 99 {
				time.Sleep(time.Second)
				task := f.record(event).Tasks[0]
				if left := time.Until(task.Until); left < DefaultLease/2 {
					t.Fatalf("the lease has %v left", left)
				}
			}
			f.ends(f.record(event), dedup.Running, "", 1)
			f.same("extensions in 99 s", 9, f.store.extended)
			close(g.open)
			f.ends(f.outcome(event), dedup.Done, "", 1)
		})
}

func TestExtensionIsTriedAgainBeforeTheLeaseEnds(t *testing.T) {
	g := &gate{}
	onFixture(t, []Handler{On("gh", "*", waits(g, false))}, func(c *Config) { c.HandlerTimeout = time.Hour },
		func(f *fixture) {
			g.open = make(chan struct{})
			event := f.accept("1", "x")
			time.Sleep(time.Second)
			outage := time.Now().Add(25 * time.Second)
			f.store.set(func() {
				f.store.failExtend = func() error {
					if time.Now().Before(outage) {
						return &dedup.ErrUnavailable{Reason: "test"}
					}
					return nil
				}
			})
			time.Sleep(2 * time.Minute)
			f.ends(f.record(event), dedup.Running, "", 1)
			close(g.open)
			f.ends(f.outcome(event), dedup.Done, "", 1)
		})
}

// Extensions fail until the task is taken again. The first run ends after the second one has
// begun, and its result must not count.
func TestLostLeaseDiscardsTheResult(t *testing.T) {
	var mu sync.Mutex
	runs, ended := 0, error(nil)
	h := On("gh", "*", func(ctx context.Context, ev Event[[]byte]) error {
		mu.Lock()
		runs++
		n := runs
		mu.Unlock()
		if n == 1 {
			<-ctx.Done()
			ended = context.Cause(ctx)
			return Reject(errBoom)
		}
		time.Sleep(20 * time.Second)
		return nil
	})
	onFixture(t, []Handler{h}, func(c *Config) { c.HandlerTimeout = time.Hour }, func(f *fixture) {
		event := f.accept("1", "x")
		time.Sleep(time.Second)
		outage := time.Now().Add(31 * time.Second)
		f.store.set(func() {
			f.store.failExtend = func() error {
				if time.Now().Before(outage) {
					return &dedup.ErrUnavailable{Reason: "test"}
				}
				return nil
			}
		})
		f.ends(f.outcome(event), dedup.Done, "", 2)
		f.same("runs", 2, runs)
		f.same("cause of the end", dedup.ErrLeaseLost.Error(), fmt.Sprint(ended))
		f.same("attempts", []string{"attempt gh/* 1 pending lease_lost", "attempt gh/* 2 done"}, f.attempts())
		if !strings.Contains(f.logs.String(), "the lease was lost") {
			t.Error("nothing is in the log")
		}
	})
}

func TestResultAfterALostLeaseIsDiscarded(t *testing.T) {
	onFixture(t, []Handler{script()}, nil, func(f *fixture) {
		f.store.set(func() { f.store.failFinish = func() error { return dedup.ErrLeaseLost } })
		event := f.accept("1", "x")
		synctest.Wait()
		f.same("attempts", []string{"attempt gh/* 1 pending lease_lost"}, f.attempts())
		f.same("calls", 1, f.store.finished)
		f.store.set(func() { f.store.failFinish = nil })
		f.ends(f.outcome(event), dedup.Done, "", 2)
	})
}

// The store refuses results for ten leases. The handler must not run again because of that.
func TestOutcomeSurvivesAnOutageOfTheStore(t *testing.T) {
	onFixture(t, []Handler{script()}, nil, func(f *fixture) {
		outage := time.Now().Add(10 * DefaultLease)
		f.store.set(func() {
			f.store.failFinish = func() error {
				if time.Now().Before(outage) {
					return fmt.Errorf("finish: %w", &dedup.ErrUnavailable{Reason: "test"})
				}
				return nil
			}
		})
		event := f.accept("1", "x")
		f.ends(f.outcome(event), dedup.Done, "", 1)
		f.same("attempts", []string{"attempt gh/* 1 done"}, f.attempts())
		f.same("times in the log", 1, strings.Count(f.logs.String(), "not recorded yet"))
		if f.store.extended < 20 {
			t.Errorf("%d extensions in ten leases", f.store.extended)
		}
	})
}

func TestResultThatTheStoreNeverRecordsIsAbandoned(t *testing.T) {
	onFixture(t, []Handler{script()}, nil, func(f *fixture) {
		var broken atomic.Bool
		broken.Store(true)
		f.store.set(func() {
			f.store.failFinish = func() error {
				if broken.Load() {
					return errors.New("record is damaged")
				}
				return nil
			}
		})
		event := f.accept("1", "x")
		time.Sleep(DefaultLease + 10*time.Second)
		synctest.Wait()
		f.same("first attempt", "attempt gh/* 1 pending unrecorded", f.attempts()[0])
		broken.Store(false)
		f.outcome(event)
	})
}

// The store fails permanently while a handler runs: nothing can be recorded.
func TestFailedStoreIsNotCalledAgain(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g := &gate{open: make(chan struct{})}
		f := newFixture(t, []Handler{On("gh", "*", waits(g, false))}, func(c *Config) { c.HandlerTimeout = time.Hour })
		f.accept("1", "x")
		f.d.start()
		synctest.Wait()
		gone := func() error {
			return fmt.Errorf("over: %w",
				&dedup.ErrUnavailable{Reason: "a commit failed", Err: fmt.Errorf("%w: I/O", dedup.ErrFailed)})
		}
		f.store.set(func() { f.store.failTake, f.store.failExtend, f.store.failFinish = gone, gone, gone })
		time.Sleep(DefaultLease * 9 / 10)
		synctest.Wait()
		f.same("extensions", 1, f.store.extended)
		close(g.open)
		synctest.Wait()
		f.same("attempts", []string{"attempt gh/* 1 pending unrecorded"}, f.attempts())
		f.same("results", 1, f.store.finished)
		if err := f.d.stop(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

func TestAStoreThatIsOverEndsTheWorkers(t *testing.T) {
	t.Parallel()
	for text, err := range map[string]error{
		"the store has failed":       &dedup.ErrUnavailable{Reason: "a commit failed", Err: dedup.ErrFailed},
		"closed before the receiver": dedup.ErrClosed,
	} {
		synctest.Test(t, func(t *testing.T) {
			f := newFixture(t, []Handler{script()}, nil)
			f.store.failTake = func() error { return err }
			f.d.start()
			<-f.d.done
			if !strings.Contains(f.logs.String(), text) {
				t.Errorf("no %q in the log", text)
			}
			if err := f.d.stop(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestOutageOfTakeIsLoggedOnceAndEnds(t *testing.T) {
	onFixture(t, []Handler{script()}, nil, func(f *fixture) {
		event := f.accept("1", "x")
		f.outcome(event)
		f.store.set(func() { f.store.failTake = func() error { return &dedup.ErrUnavailable{Reason: "test"} } })
		second := f.accept("2", "x")
		synctest.Wait()
		third := f.accept("3", "x")
		time.Sleep(10 * time.Minute)
		f.store.set(func() {
			if n := len(f.store.taken); n < 100 || n > 2000 {
				t.Errorf("%d calls in ten minutes", n)
			}
			f.store.failTake = nil
		})
		f.outcome(second)
		f.outcome(third)
		f.same("failures in the log", 1, strings.Count(f.logs.String(), "returns no tasks"))
		f.same("recoveries in the log", 1, strings.Count(f.logs.String(), "returns tasks again"))
	})
}

func TestStopDrainsWhatRuns(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g := &gate{open: make(chan struct{})}
		f := newFixture(t, []Handler{On("gh", "*", waits(g, true))}, func(c *Config) { c.Workers = 2 })
		events := []string{f.accept("1", "x"), f.accept("2", "x"), f.accept("3", "x")}
		f.d.start()
		synctest.Wait()
		time.AfterFunc(10*time.Second, func() { close(g.open) })
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		defer cancel()
		if err := f.d.stop(ctx); err != nil {
			t.Error(err)
		}
		f.ends(f.record(events[0]), dedup.Done, "", 1)
		f.ends(f.record(events[1]), dedup.Done, "", 1)
		f.ends(f.record(events[2]), dedup.Pending, "", 0)
		if err := f.d.stop(ctx); err != nil {
			t.Errorf("second stop: %v", err)
		}
	})
}

func TestStopInterruptsWhatDoesNotEndInTime(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, []Handler{On("gh", "*", waits(&gate{}, true))},
			func(c *Config) { c.HandlerTimeout = time.Hour })
		event := f.accept("1", "x")
		f.d.start()
		synctest.Wait()
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		if err := f.d.stop(ctx); err != nil {
			t.Error(err)
		}
		f.ends(f.record(event), dedup.Pending, reasonStopped, 0)
	})
}

func TestStopAbandonsAHungHandler(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g := &gate{open: make(chan struct{})}
		f := newFixture(t, []Handler{On("gh", "*", waits(g, false))}, nil)
		event := f.accept("1", "x")
		f.d.start()
		synctest.Wait()
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		err := f.d.stop(ctx)
		if err == nil || !strings.Contains(err.Error(), "without an outcome, which run again after the next start: 1") {
			t.Errorf("got %v", err)
		}
		f.ends(f.record(event), dedup.Running, "", 1)
		before := f.store.extended
		time.Sleep(time.Minute)
		f.same("extensions after the end", before, f.store.extended)
		close(g.open)
	})
}

// The store returns a task although the call was cancelled.
func TestTasksTakenWhileStoppingAreReleased(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		runs := 0
		f := newFixture(t, []Handler{On("gh", "*", func(context.Context, Event[[]byte]) error { runs++; return nil })},
			nil)
		event := f.accept("1", "x")
		f.store.failTake = func() error { f.d.stopTake(); return nil }
		f.d.cfg.Store = uncancelled{f.store}
		f.d.start()
		synctest.Wait()
		if err := f.d.stop(t.Context()); err != nil {
			t.Error(err)
		}
		f.ends(f.record(event), dedup.Pending, reasonStopped, 0)
		f.same("runs", 0, runs)
	})
}

// uncancelled is a store whose Take ignores the end of its context.
type uncancelled struct{ *faultyStore }

func (s uncancelled) Take(ctx context.Context, want dedup.Want) ([]dedup.Work, error) {
	return s.faultyStore.Take(context.WithoutCancel(ctx), want)
}
