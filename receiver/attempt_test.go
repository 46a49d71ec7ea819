package receiver

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/eyelet-dev/eyelet/dedup"
	"github.com/eyelet-dev/eyelet/dedup/memstore"
	"github.com/eyelet-dev/eyelet/producer"
)

// fixture is a dispatcher over a store that can be made to fail, in a synctest bubble, where
// hours of backoff take no time.
type fixture struct {
	t     *testing.T
	store *faultyStore
	d     *dispatcher
	logs  *syncBuffer

	mu   sync.Mutex
	seen []Observation
}

// onFixture runs the test in a bubble, which also fails when a goroutine is left.
func onFixture(t *testing.T, hs []Handler, change func(*Config), test func(*fixture)) {
	t.Helper()
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, hs, change)
		f.d.start()
		defer f.close() // also after Fatal, to end the bubble
		test(f)
	})
}

func (f *fixture) close() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if err := f.d.stop(ctx); err != nil {
		f.t.Errorf("stop: %v", err)
	}
	if err := f.store.Close(); err != nil {
		f.t.Errorf("close: %v", err)
	}
}

func newFixture(t *testing.T, hs []Handler, change func(*Config)) *fixture {
	t.Helper()
	f := &fixture{t: t, logs: &syncBuffer{}, store: &faultyStore{Store: memstore.New(memstore.Options{})}}
	cfg := Config{
		Store: f.store, Decode: decodeJSON, Attempts: 4, Workers: 4,
		BackoffBase: DefaultBackoffBase, BackoffCap: DefaultBackoffCap, PostponeMax: DefaultPostponeMax,
		HandlerTimeout: DefaultHandlerTimeout, Lease: DefaultLease, OrphanAfter: DefaultOrphanAfterAlone,
		Observe: func(_ context.Context, o Observation) {
			f.mu.Lock()
			defer f.mu.Unlock()
			f.seen = append(f.seen, o)
		},
	}
	if change != nil {
		change(&cfg)
	}
	b, err := newRegistry(hs, twoProducers, cfg.Decode)
	if err != nil {
		t.Fatal(err)
	}
	log := slog.New(slog.NewTextHandler(f.logs, &slog.HandlerOptions{Level: slog.LevelDebug}))
	f.d = newDispatcher(cfg, b, log)
	return f
}

// accept stores an event for the producer "gh", as the pipeline does, and returns its id.
func (f *fixture) accept(id, body string, tasks ...dedup.NewTask) string {
	f.t.Helper()
	return f.acceptAll(f.claim(id, body, tasks...))[0]
}

// acceptAll stores several events at once.
func (f *fixture) acceptAll(claims ...dedup.Claim) []string {
	f.t.Helper()
	out, err := f.store.Claim(context.Background(), claims...)
	if err != nil {
		f.t.Fatal(err)
	}
	var events []string
	for _, decision := range out {
		if decision.Verdict != dedup.New {
			f.t.Fatalf("%s is %v", decision.Record.Key.ID, decision.Verdict)
		}
		events = append(events, decision.Record.Event)
	}
	return events
}

// claim describes an event. Its tasks default to those of its handlers.
func (f *fixture) claim(id, body string, tasks ...dedup.NewTask) dedup.Claim {
	f.t.Helper()
	if tasks == nil {
		on, _ := f.d.registry.match("gh", "push", nil)
		for _, h := range on {
			lane, err := h.laneOf(&producer.Delivery{}, producer.Item{Body: []byte(body)}, "")
			if err != nil {
				f.t.Fatal(err)
			}
			tasks = append(tasks, dedup.NewTask{Handler: h.name, Lane: lane})
		}
	}
	return dedup.Claim{
		Key:     dedup.Key{Principal: "gh", Endpoint: "gh", ID: id},
		Payload: dedup.Payload{Producer: "gh", Endpoint: "gh", Type: "push", Body: []byte(body)},
		Tasks:   tasks,
	}
}

// outcome waits until every task of the event is done or dead.
func (f *fixture) outcome(event string) dedup.Record {
	f.t.Helper()
	for range 100_000 {
		r := f.record(event)
		if !r.Open() {
			synctest.Wait()
			return r
		}
		time.Sleep(time.Second)
	}
	f.t.Fatalf("%s has no outcome: %+v", event, f.record(event).Tasks)
	return dedup.Record{}
}

func (f *fixture) record(event string) dedup.Record {
	f.t.Helper()
	r, err := f.store.Get(context.Background(), event)
	if err != nil {
		f.t.Fatal(err)
	}
	return r
}

// attempts returns the observed attempts as lines of text.
func (f *fixture) attempts() []string {
	synctest.Wait()
	f.mu.Lock()
	defer f.mu.Unlock()
	var lines []string
	for _, o := range f.seen {
		lines = append(lines, strings.TrimSpace(fmt.Sprintf("%s %s %d %v %s", o.Kind, o.Handler, o.Attempt, o.State,
			o.Reason)))
	}
	return lines
}

// same compares and reports the difference.
func (f *fixture) same(what string, want, got any) {
	f.t.Helper()
	if d := cmp.Diff(want, got); d != "" {
		f.t.Errorf("%s: -want +got\n%s", what, d)
	}
}

// ends checks the outcome of the only task of a record.
func (f *fixture) ends(r dedup.Record, state dedup.State, reason string, attempt int) {
	f.t.Helper()
	if task := r.Tasks[0]; task.State != state || task.Reason != reason || task.Attempt != attempt {
		f.t.Errorf("%s: %v %q after %d attempts, want %v %q after %d (%s)", task.Handler,
			task.State, task.Reason, task.Attempt, state, reason, attempt, task.Err)
	}
}

// faultyStore is the memory store with hooks that may fail a call before it happens.
type faultyStore struct {
	*memstore.Store

	mu         sync.Mutex
	failTake   func() error
	failExtend func() error
	failFinish func() error
	extended   int
	finished   int
	together   []int // results of each call of FinishMany
	taken      []int // requested numbers of tasks
	slowFinish time.Duration
}

func (s *faultyStore) set(change func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	change()
}

func (s *faultyStore) hook(which *func() error, count func()) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	count()
	if *which == nil {
		return nil
	}
	return (*which)()
}

func (s *faultyStore) Take(ctx context.Context, want dedup.Want) ([]dedup.Work, error) {
	if err := s.hook(&s.failTake, func() { s.taken = append(s.taken, want.Tasks) }); err != nil {
		return nil, err
	}
	return s.Store.Take(ctx, want)
}

func (s *faultyStore) Extend(ctx context.Context, l dedup.Lease, d time.Duration) error {
	if err := s.hook(&s.failExtend, func() { s.extended++ }); err != nil {
		return err
	}
	return s.Store.Extend(ctx, l, d)
}

func (s *faultyStore) Finish(ctx context.Context, l dedup.Lease, r dedup.Result) error {
	if s.slowFinish > 0 {
		time.Sleep(s.slowFinish)
	}
	if err := s.hook(&s.failFinish, func() { s.finished++ }); err != nil {
		return err
	}
	return s.Store.Finish(ctx, l, r)
}

// FinishMany is Finish for each result, after the end of its context too.
func (s *faultyStore) FinishMany(ctx context.Context, results ...dedup.LeaseResult) []error {
	if s.slowFinish > 0 {
		time.Sleep(s.slowFinish)
	}
	s.set(func() { s.together = append(s.together, len(results)) })
	errs := make([]error, len(results))
	for i, r := range results {
		if errs[i] = s.hook(&s.failFinish, func() { s.finished++ }); errs[i] == nil {
			errs[i] = s.Store.Finish(context.WithoutCancel(ctx), r.Lease, r.Result)
		}
	}
	return errs
}

var errBoom = errors.New("boom")

// script is a handler that takes one step per attempt, and then succeeds.
func script(steps ...func(context.Context) error) Handler {
	var mu sync.Mutex
	next := 0
	return On("gh", "*", func(ctx context.Context, _ Event[[]byte]) error {
		mu.Lock()
		if next == len(steps) {
			mu.Unlock()
			return nil
		}
		step := steps[next]
		next++
		mu.Unlock()
		return step(ctx)
	})
}

func returns(err error) func(context.Context) error {
	return func(context.Context) error { return err }
}

func TestHandlerThatFailsTwiceRunsThreeTimes(t *testing.T) {
	var runs []int
	h := On("gh", "*", func(_ context.Context, ev Event[[]byte]) error {
		runs = append(runs, ev.Attempt)
		if len(runs) < 3 {
			return errBoom
		}
		return nil
	})
	onFixture(t, []Handler{h}, nil, func(f *fixture) {
		r := f.outcome(f.accept("1", "x"))
		f.ends(r, dedup.Done, "", 3)
		f.same("runs", []int{1, 2, 3}, runs)
		f.same("attempts", []string{
			"attempt gh/* 1 pending failed", "attempt gh/* 2 pending failed", "attempt gh/* 3 done",
		}, f.attempts())
	})
}

func TestHandlerThatAlwaysFailsEndsAsADeadLetter(t *testing.T) {
	h := On("gh", "*", func(context.Context, Event[[]byte]) error { return errBoom })
	onFixture(t, []Handler{h}, nil, func(f *fixture) {
		event := f.accept("1", "x")
		f.outcome(event)
		listed := 0
		for r, err := range f.store.List(t.Context(), dedup.Filter{States: []dedup.State{dedup.Dead}}) {
			if err != nil {
				t.Fatal(err)
			}
			listed++
			f.ends(r, dedup.Dead, reasonExhausted, 4)
			f.same("text", "boom", r.Tasks[0].Err)
			f.same("event", event, r.Event)
		}
		f.same("dead letters", 1, listed)

		if _, err := f.store.Reopen(t.Context(), event); err != nil {
			t.Fatal(err)
		}
		f.ends(f.outcome(event), dedup.Dead, reasonExhausted, 4)
		f.same("attempts before and after reopening", 8, len(f.attempts()))
	})
}

func TestRetriesWaitWithinTheBoundsOfFullJitter(t *testing.T) {
	var starts []time.Time
	h := On("gh", "*", func(context.Context, Event[[]byte]) error {
		starts = append(starts, time.Now())
		return errBoom
	})
	onFixture(t, []Handler{h}, func(c *Config) { c.Attempts, c.BackoffCap = 6, 5*time.Second }, func(f *fixture) {
		f.d.random = func(n int64) int64 { return n - 1 } // goroutines that start later read it
		f.outcome(f.accept("1", "x"))
		var waits []string
		for i := 1; i < len(starts); i++ {
			waits = append(waits, starts[i].Sub(starts[i-1]).String())
		}
		f.same("waits", []string{"1s", "2s", "4s", "5s", "5s"}, waits)
	})
}

func TestPanicIsAFailedAttempt(t *testing.T) {
	h := script(func(context.Context) error { panic("pan") }, returns(nil))
	onFixture(t, []Handler{h}, nil, func(f *fixture) {
		r := f.outcome(f.accept("1", "x"))
		f.ends(r, dedup.Done, "", 2)
		f.same("attempts", []string{"attempt gh/* 1 pending panicked", "attempt gh/* 2 done"}, f.attempts())
		if logs := f.logs.String(); !strings.Contains(logs, "attempt_test.go:") {
			t.Errorf("the log has no stack of the panic:\n%s", logs)
		}
	})
}

func TestGoexitEndsTheAttemptAndNotTheWorker(t *testing.T) {
	steps := []func(context.Context) error{}
	for range 3 {
		steps = append(steps, func(context.Context) error { goexit(); return nil })
	}
	onFixture(t, []Handler{script(steps...)}, func(c *Config) { c.Workers = 1 }, func(f *fixture) {
		f.ends(f.outcome(f.accept("1", "x")), dedup.Done, "", 4)
		f.ends(f.outcome(f.accept("2", "x")), dedup.Done, "", 1)
	})
}

func TestEveryHandlerHasItsOwnOutcome(t *testing.T) {
	onFixture(t, []Handler{
		script(returns(errBoom)).Named("heals"),
		On("gh", "*", func(context.Context, Event[[]byte]) error { return errBoom }).Named("fails"),
		On("gh", "*", func(context.Context, Event[[]byte]) error { return Reject(errBoom) }).Named("rejects"),
		script().Named("works"),
	}, nil, func(f *fixture) {
		r := f.outcome(f.accept("1", "x"))
		got := map[string]string{}
		for _, task := range r.Tasks {
			got[task.Handler] = fmt.Sprintf("%v %s %d", task.State, task.Reason, task.Attempt)
		}
		f.same("outcomes", map[string]string{
			"heals": "done  2", "fails": "dead exhausted 4", "rejects": "dead rejected 1", "works": "done  1",
		}, got)
		f.same("state of the event", dedup.Dead, r.State())
	})
}

func TestPostponementsAreNotFailedAttempts(t *testing.T) {
	later := returns(Postpone(time.Hour, nil))
	steps := []func(context.Context) error{}
	for range 10 {
		steps = append(steps, later)
	}
	steps = append(steps, returns(errBoom), later, returns(errBoom), returns(errBoom))
	onFixture(t, []Handler{script(steps...)}, nil, func(f *fixture) {
		start := time.Now()
		r := f.outcome(f.accept("1", "x"))
		f.ends(r, dedup.Done, "", 15)
		f.same("postponed", 11, r.Tasks[0].Postponed)
		if took := time.Since(start); took < 11*time.Hour || took > 11*time.Hour+time.Minute {
			t.Errorf("it took %v", took)
		}
	})
}

func TestPostponementsAreBounded(t *testing.T) {
	tests := []struct{ ask, want time.Duration }{
		{time.Minute, time.Minute},
		{30 * 24 * time.Hour, DefaultPostponeMax},
		{0, DefaultBackoffBase},
		{-time.Hour, DefaultBackoffBase},
	}
	for _, tt := range tests {
		t.Run(tt.ask.String(), func(t *testing.T) {
			onFixture(t, []Handler{script(returns(Postpone(tt.ask, errBoom)))}, nil, func(f *fixture) {
				event := f.accept("1", "x")
				synctest.Wait()
				task := f.record(event).Tasks[0]
				f.same("wait", tt.want, task.Due.Sub(task.Ended))
				f.same("reason", reasonPostponed, task.Reason)
				f.same("postponed", 1, task.Postponed)
			})
		})
	}
}

func TestUndecodablePayloadIsDeadWithoutRetries(t *testing.T) {
	h := On("gh", "*", func(context.Context, Event[struct{ N int }]) error { return errBoom })
	onFixture(t, []Handler{h}, nil, func(f *fixture) {
		f.ends(f.outcome(f.accept("1", `{"N":"seven"}`)), dedup.Dead, reasonUndecodable, 1)
	})
}

// The lease of a task runs out each time, as when the event crashes the process.
func TestInterruptedAttemptsUseUpTheBudget(t *testing.T) {
	t.Parallel()
	for left, want := range []struct {
		state  dedup.State
		reason string
		runs   int
	}{{dedup.Dead, reasonExhausted, 0}, {dedup.Done, "", 1}} {
		synctest.Test(t, func(t *testing.T) {
			runs := 0
			h := On("gh", "*", func(context.Context, Event[[]byte]) error { runs++; return nil })
			f := newFixture(t, []Handler{h}, nil)
			event, interrupted := f.accept("1", "x"), f.d.cfg.Attempts-left
			for range interrupted {
				want := dedup.Want{Tasks: 1, Bytes: 1 << 20, Lease: time.Second}
				if _, err := f.store.Store.Take(t.Context(), want); err != nil {
					t.Fatal(err)
				}
				time.Sleep(2 * time.Second)
			}
			f.d.start()
			f.ends(f.outcome(event), want.state, want.reason, interrupted+1)
			f.same("runs", want.runs, runs)
			if err := f.d.stop(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestReopenedAnswerIsClassifiedByItsResponse(t *testing.T) {
	tests := []struct {
		status int
		state  dedup.State
		reason string
	}{
		{0, dedup.Done, ""},
		{204, dedup.Done, ""},
		{422, dedup.Dead, reasonRejected},
		{503, dedup.Dead, reasonExhausted},
		{429, dedup.Dead, reasonExhausted},
		{207, dedup.Dead, reasonExhausted},
		{302, dedup.Dead, reasonExhausted},
	}
	for _, tt := range tests {
		t.Run(fmt.Sprint(tt.status), func(t *testing.T) {
			h := Answer("gh", "*", func(context.Context, Event[[]byte]) (Response, error) {
				return Response{Status: tt.status, Body: []byte("new")}, nil
			})
			onFixture(t, []Handler{h}, func(c *Config) { c.Attempts = 2 }, func(f *fixture) {
				out, err := f.store.Claim(t.Context(), dedup.Claim{
					Key: dedup.Key{Endpoint: "gh", ID: "1"}, Hold: true, Lease: time.Minute,
					Tasks: []dedup.NewTask{{Handler: "gh/*"}},
				})
				if err != nil {
					t.Fatal(err)
				}
				old := dedup.Response{Status: 422, Body: []byte("old")}
				if err := f.store.Finish(t.Context(), out[0].Lease,
					dedup.Result{Kind: dedup.ResultDead, Response: old}); err != nil {
					t.Fatal(err)
				}
				if _, err := f.store.Reopen(t.Context(), out[0].Record.Event); err != nil {
					t.Fatal(err)
				}
				r := f.outcome(out[0].Record.Event)
				f.same("state", tt.state, r.Tasks[0].State)
				f.same("reason", tt.reason, r.Tasks[0].Reason)
				f.same("stored answer", old.Status, r.Response.Status)
				f.same("stored body", "old", string(r.Response.Body))
			})
		})
	}
}

// Handlers fail in every way with the payload in their errors.
func TestPayloadsStayOutOfLogs(t *testing.T) {
	const secret = `{"Number":4111111111111111.5}`
	const digits = "411111"
	type card struct{ Number int }
	with := func(name string, fn func(body string) error) Handler {
		return On("gh", "*", func(_ context.Context, ev Event[[]byte]) error { return fn(string(ev.Body)) }).Named(name)
	}
	var observed sync.Map
	onFixture(t, []Handler{
		with("error", func(b string) error { return errors.New(b) }),
		with("wrapped", func(b string) error { return fmt.Errorf("a: %w", errors.New(b)) }),
		with("reject", func(b string) error { return Reject(errors.New(b)) }),
		with("postpone", func(b string) error { return Postpone(time.Hour, errors.New(b)) }),
		with("panic", func(b string) error { panic(b) }),
		with("panic with an error", func(b string) error { panic(errors.New(b)) }),
		On("gh", "*", func(context.Context, Event[card]) error { return nil }).Named("undecodable"),
	}, func(c *Config) {
		keep := c.Observe
		c.OmitErrors = true
		c.Observe = func(ctx context.Context, o Observation) {
			keep(ctx, o)
			observed.Store(fmt.Sprintf("%+v", o), true)
		}
	}, func(f *fixture) {
		event := f.accept("1", secret)
		time.Sleep(30 * time.Minute)
		synctest.Wait()
		texts := 0
		for _, task := range f.record(event).Tasks {
			if strings.Contains(task.Err, digits) {
				texts++
			}
		}
		f.same("errors whose text is in the store", 7, texts)
		logs := f.logs.String()
		for _, name := range []string{"error", "wrapped", "reject", "postpone", `"panic with an error"`,
			"undecodable"} {
			if !strings.Contains(logs, "handler="+name) {
				t.Errorf("handler %s is not in the log", name)
			}
		}
		observed.Range(func(o, _ any) bool { logs += o.(string); return true })
		if strings.Contains(logs, digits) {
			t.Errorf("the payload is in the log:\n%s", logs)
		}
	})
}
