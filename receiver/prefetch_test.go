package receiver

import (
	"context"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/eyelet-dev/eyelet/dedup"
)

// sleeps is a handler that takes the given time and counts its runs.
func sleeps(runs *atomic.Int64, long *atomic.Int64) Handler {
	return On("gh", "*", func(context.Context, Event[[]byte]) error {
		runs.Add(1)
		time.Sleep(time.Duration(long.Load()))
		return nil
	})
}

func (f *fixture) acceptMany(name string, n int) []string {
	claims := make([]dedup.Claim, n)
	for i := range claims {
		claims[i] = f.claim(fmt.Sprint(name, i), "x")
	}
	return f.acceptAll(claims...)
}

// states counts the tasks of the events by state, and their attempts.
func (f *fixture) states(events []string) (states map[dedup.State]int, attempts int) {
	states = map[dedup.State]int{}
	for _, e := range events {
		t := f.record(e).Tasks[0]
		states[t.State]++
		attempts += t.Attempt
	}
	return states, attempts
}

func TestWorkerIsFreeWhileTheOutcomeIsRecorded(t *testing.T) {
	var runs, long atomic.Int64
	onFixture(t, []Handler{sleeps(&runs, &long)}, func(c *Config) { c.Workers = 1 }, func(f *fixture) {
		f.store.slowFinish = 3 * time.Second
		events := f.acceptMany("e", 20)
		time.Sleep(time.Second)
		f.same("runs before the first outcome", int64(20), runs.Load())
		states, _ := f.states(events)
		f.same("running for the store", 20, states[dedup.Running])
		for _, e := range events {
			f.ends(f.outcome(e), dedup.Done, "", 1)
		}
	})
}

// It stops when every handler has returned, but no outcome is recorded.
func TestStopWaitsForUnrecordedOutcomes(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var runs, long atomic.Int64
		f := newFixture(t, []Handler{sleeps(&runs, &long)}, func(c *Config) { c.Workers = 2 })
		f.store.slowFinish = 3 * time.Second
		events := f.acceptMany("e", 20)
		f.d.start()
		synctest.Wait()
		f.same("runs", int64(20), runs.Load())
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		if err := f.d.stop(ctx); err != nil {
			t.Error(err)
		}
		states, _ := f.states(events)
		f.same("done", 20, states[dedup.Done])
	})
}

func TestStopCountsOutcomesThatTheStoreDidNotRecord(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var runs, long atomic.Int64
		f := newFixture(t, []Handler{sleeps(&runs, &long)}, func(c *Config) { c.Workers = 2 })
		f.store.failFinish = func() error { return &dedup.ErrUnavailable{Reason: "test"} }
		f.acceptMany("e", 7)
		f.d.start()
		synctest.Wait()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		began := time.Now()
		f.same("error", "tasks without an outcome, which run again after the next start: 7", fmt.Sprint(f.d.stop(ctx)))
		if took := time.Since(began); took > time.Second+2*stopGrace {
			t.Errorf("it took %v", took)
		}
		f.same("attempts", slices.Repeat([]string{"attempt gh/* 1 pending unrecorded"}, 7), f.attempts())
	})
}

func TestUnrecordedOutcomesAreBounded(t *testing.T) {
	var runs, long atomic.Int64
	onFixture(t, []Handler{sleeps(&runs, &long)}, func(c *Config) { c.Workers = 2 }, func(f *fixture) {
		outage := time.Now().Add(time.Minute)
		f.store.set(func() {
			f.store.failFinish = func() error {
				if time.Now().Before(outage) {
					return &dedup.ErrUnavailable{Reason: "test"}
				}
				return nil
			}
		})
		events := f.acceptMany("e", 2*unrecordedMax)
		time.Sleep(10 * time.Second)
		f.same("runs", int64(2+unrecordedMax), runs.Load())
		for _, e := range events {
			f.ends(f.outcome(e), dedup.Done, "", 1)
		}
	})
}

func TestTasksArePrefetchedForFastHandlersOnly(t *testing.T) {
	for _, c := range []struct {
		long time.Duration
		over int // so many are requested at once
		upTo int
	}{
		{0, 200, 4 + prefetchMax}, {time.Millisecond, 100, 4 + 200}, {20 * time.Millisecond, 4, 4 + 10},
		{time.Second, 0, 4},
	} {
		t.Run(c.long.String(), func(t *testing.T) {
			var runs, long atomic.Int64
			long.Store(int64(c.long))
			onFixture(t, []Handler{sleeps(&runs, &long)}, nil, func(f *fixture) {
				for _, e := range f.acceptMany("e", 500) {
					f.ends(f.outcome(e), dedup.Done, "", 1)
				}
				most := 0
				f.store.set(func() {
					for _, n := range f.store.taken {
						most = max(most, n)
					}
				})
				if most <= c.over || most > c.upTo {
					t.Errorf("requested %d tasks, want more than %d and at most %d", most, c.over, c.upTo)
				}
			})
		})
	}
}

func TestBusyWorkersTakeManyTasksAtOnce(t *testing.T) {
	for _, c := range []struct {
		run               time.Duration
		tasks, unrecorded int
		want              int
	}{
		{time.Millisecond, 0, 0, 4 + 200}, {time.Millisecond, 3, 0, 1 + 200}, // a worker is idle
		{time.Millisecond, 3, unrecordedMax, 1}, {time.Millisecond, 3, unrecordedMax + 1, 0},
		{time.Millisecond, 4, 0, 200}, {time.Millisecond, 104, 0, 100}, {time.Millisecond, 105, 0, 0},
		{time.Millisecond, 4, unrecordedMax - 100, 100}, {time.Millisecond, 4, unrecordedMax - 99, 0},
		{time.Second, 3, 0, 1}, {time.Second, 4, 0, 0},
	} {
		p := prefetcher{workers: 4, freed: make(chan struct{}, 1)}
		p.observeRun(c.run)
		for i := range c.tasks + c.unrecorded {
			if p.add(1); i < c.unrecorded {
				p.release(1)
			}
		}
		if got, _ := p.capacity(); got != c.want {
			t.Errorf("%v, %d tasks, %d outcomes: may take %d, want %d", c.run, c.tasks, c.unrecorded, got, c.want)
		}
		select {
		case <-p.freed:
		default:
		}
		if p.release(0); c.tasks > 0 && p.free() > 0 && len(p.freed) == 0 {
			t.Errorf("%v, %d tasks: not signalled", c.run, c.tasks)
		}
	}
}

// Handlers become slow after tasks were prefetched for fast ones.
func TestTasksThatFindNoWorkerAreReleased(t *testing.T) {
	var runs, long atomic.Int64
	onFixture(t, []Handler{sleeps(&runs, &long)}, func(c *Config) { c.HandlerTimeout = time.Hour }, func(f *fixture) {
		for _, e := range f.acceptMany("fast", 50) {
			f.outcome(e)
		}
		runs.Store(0)
		long.Store(int64(10 * time.Second))
		events := f.acceptMany("slow", 50)
		synctest.Wait()
		states, _ := f.states(events)
		f.same("taken at first", 50, states[dedup.Running])
		// A Take in flight may return some of them once more.
		time.Sleep(3 * workerPatience)
		states, attempts := f.states(events)
		f.same("running", 4, states[dedup.Running])
		f.same("given back", 46, states[dedup.Pending])
		f.same("attempts that count", 4, attempts)
		f.same("runs", int64(4), runs.Load())
		for _, e := range events {
			f.ends(f.outcome(e), dedup.Done, "", 1)
		}
		f.same("all runs", int64(50), runs.Load())
	})
}

func TestTasksThatWaitForAWorkerAreReleasedOnStop(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var runs, long atomic.Int64
		f := newFixture(t, []Handler{sleeps(&runs, &long)}, nil)
		f.d.prefetch.observeRun(0) // as if handlers were fast
		long.Store(int64(5 * time.Second))
		events := f.acceptMany("e", 50)
		f.d.start()
		synctest.Wait()
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if err := f.d.stop(ctx); err != nil {
			t.Error(err)
		}
		states, attempts := f.states(events)
		f.same("done", 4, states[dedup.Done])
		f.same("given back", 46, states[dedup.Pending])
		f.same("attempts that count", 4, attempts)
		f.same("runs", int64(4), runs.Load())
	})
}

// A task that may have crashed the process must not lose its mark.
func TestReleasedTaskKeepsItsHistory(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, []Handler{script()}, nil)
		event := f.accept("1", "x")
		if _, err := f.store.Take(t.Context(), dedup.Want{Tasks: 1, Bytes: 1, Lease: time.Second}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute) // the lease ends
		f.store.failTake = func() error { f.d.stopTake(); return nil }
		f.d.cfg.Store = uncancelled{f.store}
		f.d.start()
		synctest.Wait()
		if err := f.d.stop(t.Context()); err != nil {
			t.Error(err)
		}
		f.ends(f.record(event), dedup.Pending, dedup.ReasonInterrupted, 1)
	})
}
