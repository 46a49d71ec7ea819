package receiver

import (
	"context"
	"fmt"
	"log/slog"
	"math"
	"net/http"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/eyelet-dev/eyelet/dedup"
)

func TestResultsThatComeMeanwhileAreRecordedTogether(t *testing.T) {
	onFixture(t, []Handler{script()}, nil, func(f *fixture) {
		f.store.slowFinish = time.Second
		for _, e := range f.acceptMany("e", 100) {
			f.ends(f.outcome(e), dedup.Done, "", 1)
		}
		calls := 0
		f.store.set(func() { calls = len(f.store.together) })
		if calls < 1 || calls > 4 {
			t.Errorf("%d calls for 100 results: %v", calls, f.store.together)
		}
	})
}

// The store refuses one result for a while, as for want of space. The others do not wait for it.
func TestAResultThatTheStoreRefusesHoldsUpNoOther(t *testing.T) {
	onFixture(t, []Handler{script()}, nil, func(f *fixture) {
		first := f.accept("first", "x")
		outage := time.Now().Add(10 * time.Minute)
		refused := 0
		f.store.set(func() {
			f.store.failFinish = func() error { // the first result of all, and then every retry
				if f.store.finished == 1 || time.Now().Before(outage) && f.store.finished > 31 {
					refused++
					return &dedup.ErrUnavailable{Reason: "test"}
				}
				return nil
			}
		})
		synctest.Wait()
		for _, e := range f.acceptMany("e", 30) {
			f.ends(f.outcome(e), dedup.Done, "", 1)
		}
		f.ends(f.record(first), dedup.Running, "", 1)
		f.ends(f.outcome(first), dedup.Done, "", 1)
		if refused < 10 {
			t.Errorf("refused %d times", refused)
		}
	})
}

// A call that takes longer than three leases must not make the task run again.
func TestLeaseIsExtendedWhileTheOutcomeIsRecorded(t *testing.T) {
	onFixture(t, []Handler{script()}, nil, func(f *fixture) {
		f.store.slowFinish = 100 * time.Second
		for _, e := range f.acceptMany("e", 3) {
			f.ends(f.outcome(e), dedup.Done, "", 1)
		}
		f.same("attempts", 3, len(f.attempts()))
		if strings.Contains(f.logs.String(), "lease") {
			t.Error(f.logs.String())
		}
	})
}

func TestAnObserverThatEndsItsGoroutineLosesNoOutcome(t *testing.T) {
	onFixture(t, []Handler{script()}, func(c *Config) {
		c.Observe = func(context.Context, Observation) { runtime.Goexit() }
	}, func(f *fixture) {
		for _, e := range f.acceptMany("e", 30) {
			f.ends(f.outcome(e), dedup.Done, "", 1)
		}
	})
}

// The handler returns while the observer learns that it hangs.
func TestTheOutcomeIsObservedAfterTheHang(t *testing.T) {
	g := &gate{}
	onFixture(t, []Handler{On("gh", "*", waits(g, false))}, func(c *Config) {
		keep := c.Observe
		c.Observe = func(ctx context.Context, o Observation) {
			if o.Kind == KindHanging {
				close(g.open)
				for range 10_000 {
					runtime.Gosched()
				}
			}
			keep(ctx, o)
		}
	}, func(f *fixture) {
		g.open = make(chan struct{})
		f.ends(f.outcome(f.accept("1", "x")), dedup.Done, "", 1)
		f.same("order", []string{"hanging gh/* 1 running hanging", "attempt gh/* 1 done"}, f.attempts())
	})
}

func TestTheContextEndsWithTheAttempt(t *testing.T) {
	var asked, unasked context.Context
	h := On("gh", "*", func(ctx context.Context, _ Event[[]byte]) error {
		if asked == nil {
			asked = ctx
			return context.Cause(ctx)
		}
		unasked = ctx
		return nil
	})
	onFixture(t, []Handler{h}, nil, func(f *fixture) {
		f.ends(f.outcome(f.accept("1", "x")), dedup.Done, "", 1)
		f.ends(f.outcome(f.accept("2", "x")), dedup.Done, "", 1)
		for _, ctx := range []context.Context{asked, unasked} {
			<-ctx.Done()
			f.same("error", context.Canceled.Error(), fmt.Sprint(ctx.Err()))
			f.same("cause", context.Canceled.Error(), fmt.Sprint(context.Cause(ctx)))
		}
	})
}

// A worker takes a task just before the contexts of all handlers end.
func TestAHandlerThatBeginsAfterStopHasAnEndedContext(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var cause error
		var f *fixture
		f = newFixture(t, []Handler{On("gh", "*", func(ctx context.Context, _ Event[[]byte]) error {
			f.d.stopTake()
			<-ctx.Done()
			cause = context.Cause(ctx)
			return cause
		})}, nil)
		event := f.accept("1", "x")
		f.d.watchdog.stop()
		f.d.start()
		synctest.Wait()
		f.same("cause", errStopping.Error(), fmt.Sprint(cause))
		if err := f.d.stop(t.Context()); err != nil {
			t.Error(err)
		}
		f.ends(f.record(event), dedup.Pending, reasonStopped, 0)
	})
}

// taskStore returns one task again and again, and records results at once.
type taskStore struct {
	dedup.Store
	work     dedup.Work
	n        int64 // of tasks
	left     atomic.Int64
	recorded atomic.Int64
	done     chan struct{}
}

func newTaskStore(n int) *taskStore {
	s := &taskStore{n: int64(n), done: make(chan struct{}), work: dedup.Work{
		Record: dedup.Record{
			Event: "event", Key: dedup.Key{Principal: "gh", Endpoint: "gh", ID: "id"},
			Tasks: []dedup.Task{{Handler: "gh/*", State: dedup.Running, Attempt: 1}},
			Payload: dedup.Payload{Producer: "gh", Endpoint: "gh", Type: "push", Method: http.MethodPost,
				Header: http.Header{"Content-Type": {"application/json"}}, Body: []byte("{}")},
		},
		Lease: dedup.Lease{Event: "event", Token: 1},
	}}
	s.left.Store(s.n)
	return s
}

func (s *taskStore) Take(ctx context.Context, want dedup.Want) ([]dedup.Work, error) {
	works := make([]dedup.Work, 0, 32)
	for len(works) < min(want.Tasks, cap(works)) && s.left.Add(-1) >= 0 {
		works = append(works, s.work)
	}
	if len(works) == 0 {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	return works, nil
}

func (s *taskStore) Guarantees() dedup.Guarantees { return dedup.Guarantees{} }

func (s *taskStore) FinishMany(_ context.Context, results ...dedup.LeaseResult) []error {
	if s.recorded.Add(int64(len(results))) == s.n {
		close(s.done)
	}
	return make([]error, len(results))
}

// runTasks runs n tasks, whose handler does not look at its context.
func runTasks(tb testing.TB, n int) {
	tb.Helper()
	store := newTaskStore(n)
	cfg := withDefaults(Config{Store: store, Logger: slog.New(slog.DiscardHandler), Workers: 8})
	hs := []Handler{On("gh", "*", func(context.Context, Event[[]byte]) error { return nil })}
	r, err := newRegistry(hs, twoProducers, cfg.Decode)
	if err != nil {
		tb.Fatal(err)
	}
	d := newDispatcher(cfg, r, cfg.Logger)
	d.start()
	<-store.done
	if err := d.stop(tb.Context()); err != nil {
		tb.Error(err)
	}
}

// BenchmarkTask measures what a task costs besides its handler and the store.
func BenchmarkTask(b *testing.B) {
	b.ReportAllocs()
	runTasks(b, b.N)
}

// Goroutines are not made for every task: the attempt with its context, the attributes of its
// event, and its shares of Take and of the reporter remain. Each share depends on how many tasks
// come together, which the scheduler decides, so the test takes the minimum of several runs: on a
// busy machine most may have more.
func TestATaskAllocatesLittle(t *testing.T) {
	const n, runs = 10_000, 30
	least := math.Inf(1)
	for i := 0; i < runs && least > 3; i++ {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		runTasks(t, n)
		runtime.ReadMemStats(&after)
		least = min(least, float64(after.Mallocs-before.Mallocs)/n)
	}
	if least > 3 {
		t.Errorf("%.1f allocations for each task", least)
	}
}
