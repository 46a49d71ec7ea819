package receiver

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/eyelet-dev/eyelet/dedup"
	"github.com/eyelet-dev/eyelet/dedup/memstore"
	"github.com/eyelet-dev/eyelet/producer"
)

// testTx is a transaction of a txStore: what is put into it counts once it is committed.
type testTx struct{ put []string }

// txStore is the store of the fixture with transactions.
type txStore struct {
	dedup.Store

	mu       sync.Mutex
	effects  []string
	begin    error        // of the next transaction
	fails    error        // of all outcomes
	fenced   func() error // called between the outcome and the answer of the commit
	extended int
}

func (s *txStore) set(change func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	change()
}

func (s *txStore) TxTypes() []reflect.Type { return []reflect.Type{reflect.TypeFor[*testTx]()} }

func (s *txStore) InTx(
	ctx context.Context, l dedup.Lease, _ reflect.Type, fn func(context.Context, any) (dedup.Result, error),
) error {
	var err error
	if s.set(func() { err, s.begin = s.begin, nil }); err != nil {
		return err
	}
	tx := &testTx{}
	r, err := fn(ctx, tx)
	if err != nil {
		return err
	}
	var fenced func() error
	if s.set(func() { err, fenced = s.fails, s.fenced }); err != nil {
		return err
	}
	if err := s.Finish(context.WithoutCancel(ctx), l, r); err != nil {
		return err
	}
	s.set(func() { s.effects = append(s.effects, tx.put...) })
	if fenced != nil {
		return fenced()
	}
	return nil
}

func (s *txStore) Extend(ctx context.Context, l dedup.Lease, d time.Duration) error {
	s.set(func() { s.extended++ })
	return s.Store.Extend(ctx, l, d)
}

// txFixture is onFixture with transactions.
func txFixture(t *testing.T, h Handler, test func(*fixture, *txStore)) {
	t.Helper()
	s := &txStore{}
	onFixture(t, []Handler{h}, func(c *Config) {
		s.Store, c.Store = c.Store, s
	}, func(f *fixture) { test(f, s) })
}

// txScript makes a handler that runs one step for each attempt, after its effect.
func txScript(steps ...func(context.Context) error) Handler {
	return OnTx("gh", "*", func(ctx context.Context, tx *testTx, ev Event[[]byte]) error {
		tx.put = append(tx.put, fmt.Sprint(ev.ID, " ", ev.Attempt))
		if ev.Attempt > len(steps) {
			return nil
		}
		return steps[ev.Attempt-1](ctx)
	})
}

func TestEffectsOfFailedAttemptsAreUndone(t *testing.T) {
	h := txScript(returns(errBoom), func(context.Context) error { panic("boom") },
		func(context.Context) error { runtime.Goexit(); return nil })
	txFixture(t, h, func(f *fixture, s *txStore) {
		f.ends(f.outcome(f.accept("1", "x")), dedup.Done, "", 4)
		f.same("effects", []string{"1 4"}, s.effects)
		f.same("attempts", []string{
			"attempt gh/* 1 pending failed", "attempt gh/* 2 pending panicked", "attempt gh/* 3 pending panicked",
			"attempt gh/* 4 done",
		}, f.attempts())
	})
}

func TestRejectedEventHasNoEffect(t *testing.T) {
	txFixture(t, txScript(returns(Reject(errBoom))), func(f *fixture, s *txStore) {
		f.ends(f.outcome(f.accept("1", "x")), dedup.Dead, reasonRejected, 1)
		f.same("effects", []string(nil), s.effects)
	})
}

// The first run outlasts its lease, and a second one is done before it.
func TestEffectUnderALostLeaseIsUndone(t *testing.T) {
	slow := func(context.Context) error { time.Sleep(3 * time.Minute); return nil }
	txFixture(t, txScript(slow), func(f *fixture, s *txStore) {
		f.store.set(func() { f.store.failExtend = func() error { return &dedup.ErrUnavailable{Reason: "test"} } })
		f.ends(f.outcome(f.accept("1", "x")), dedup.Done, "", 2)
		time.Sleep(5 * time.Minute)
		f.same("effects", []string{"1 2"}, s.effects)
		f.same("attempts", []string{
			"attempt gh/* 2 done", "hanging gh/* 1 running hanging", "attempt gh/* 1 pending lease_lost",
		}, f.attempts())
	})
}

// The commit happened, but its answer was lost. The usual result follows, and the store refuses it.
func TestLostAnswerToACommitIsNoRetry(t *testing.T) {
	txFixture(t, txScript(), func(f *fixture, s *txStore) {
		s.set(func() { s.fenced = func() error { return &dedup.ErrUnavailable{Reason: "test"} } })
		f.ends(f.outcome(f.accept("1", "x")), dedup.Done, "", 1)
		f.same("effects", []string{"1 1"}, s.effects)
		f.same("results", 2, f.store.finished)
	})
}

// An extension that comes after the outcome finds no lease, and one that comes between would wait
// for the commit.
func TestCommitCountsWhateverAnExtensionFinds(t *testing.T) {
	txFixture(t, txScript(), func(f *fixture, s *txStore) {
		fenced := func() error {
			time.Sleep(2 * DefaultLease)
			f.d.watchdog.mu.Lock()
			runs := slices.Clone(f.d.watchdog.runs)
			f.d.watchdog.mu.Unlock()
			for _, run := range runs {
				f.d.watchdog.extend(run) // as one that began before
				run.cancel(dedup.ErrLeaseLost)
			}
			return nil
		}
		s.set(func() { s.fenced = fenced })
		f.ends(f.outcome(f.accept("1", "x")), dedup.Done, "", 1)
		time.Sleep(3 * DefaultLease)
		f.same("attempts", []string{"attempt gh/* 1 done"}, f.attempts())
		f.same("extensions", 1, s.extended)
	})
}

// The handler runs for longer than its lease, and its transaction fails.
func TestLeaseIsExtendedAgainAfterAFailedCommit(t *testing.T) {
	slow := func(context.Context) error { time.Sleep(2 * DefaultLease); return nil }
	txFixture(t, txScript(slow), func(f *fixture, s *txStore) {
		s.set(func() { s.fails = &dedup.ErrUnavailable{Reason: "test"} })
		f.store.set(func() {
			outage := time.Now().Add(10 * DefaultLease)
			f.store.failFinish = func() error {
				if time.Now().Before(outage) {
					return &dedup.ErrUnavailable{Reason: "test"}
				}
				return nil
			}
		})
		event := f.accept("1", "x")
		time.Sleep(9 * DefaultLease)
		if r := f.record(event); r.Tasks[0].Attempt != 1 || r.Tasks[0].State != dedup.Running {
			t.Errorf("%+v", r.Tasks)
		}
		s.set(func() {
			if s.fails = nil; s.extended < 20 {
				t.Errorf("%d extensions", s.extended)
			}
		})
		f.ends(f.outcome(event), dedup.Done, "", 2)
		f.same("effects", []string{"1 2"}, s.effects)
	})
}

func TestTransactionThatDoesNotBeginIsNoFailedAttempt(t *testing.T) {
	txFixture(t, txScript(), func(f *fixture, s *txStore) {
		s.set(func() { s.begin = &dedup.ErrUnavailable{Reason: "test"} })
		r := f.outcome(f.accept("1", "x"))
		f.ends(r, dedup.Done, "", 2)
		f.same("postponed", 1, r.Tasks[0].Postponed)
		f.same("effects", []string{"1 2"}, s.effects)
	})
}

// A new run of an event is another one for the database too.
func TestANewRunHasItsEffectAgain(t *testing.T) {
	txFixture(t, txScript(), func(f *fixture, s *txStore) {
		event := f.accept("1", "x")
		f.ends(f.outcome(event), dedup.Done, "", 1)
		if _, err := f.store.Rerun(t.Context(), event, dedup.Rerun{}); err != nil {
			t.Fatal(err)
		}
		f.ends(f.outcome(event), dedup.Done, "", 1)
		f.same("effects", []string{"1 1", "1 1"}, s.effects)
	})
}

func TestMiddlewareThatReplacesTheContextIsAnError(t *testing.T) {
	replaces := func(next Next) Next {
		return func(_ context.Context, ev Event[any]) (*Response, error) { return next(context.Background(), ev) }
	}
	txFixture(t, txScript().With(replaces), func(f *fixture, s *txStore) {
		r := f.outcome(f.accept("1", "x"))
		if task := r.Tasks[0]; task.State != dedup.Dead || !strings.Contains(task.Err, "context has no transaction") {
			t.Errorf("%+v", task)
		}
		f.same("effects", []string(nil), s.effects)
	})
}

// A run that the store starts again gets the event as it was.
func TestRunAgainGetsTheEventAsItWas(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var bodies []string
		h := OnTx("gh", "*", func(_ context.Context, _ *testTx, ev Event[[]byte]) error {
			bodies = append(bodies, string(ev.Body))
			ev.Body[0], ev.Header["Changed"] = '!', []string{"yes"}
			return nil
		})
		rec := recordOf("text/plain", "body")
		rec.Tasks = []dedup.Task{{Handler: "it", State: dedup.Running, Attempt: 1}}
		w := newWatchdog(t.Context(), &Config{Store: again{}, Lease: time.Minute})
		r := only(t, h, decodeJSON).runLeased(t.Context(), w, &leasedRun{rec: rec},
			func(returned) dedup.Result { return dedup.Result{Kind: dedup.ResultDone} })
		changed := rec.Payload.Header.Get("Changed") != ""
		if r.committed == nil || !slices.Equal(bodies, []string{"body", "body"}) || changed {
			t.Errorf("%+v, bodies %q", r, bodies)
		}
	})
}

// again is a store that runs each handler twice.
type again struct{ dedup.Store }

func (again) TxTypes() []reflect.Type { return nil }

func (again) InTx(
	ctx context.Context, _ dedup.Lease, _ reflect.Type, fn func(context.Context, any) (dedup.Result, error),
) error {
	_, _ = fn(ctx, &testTx{})
	_, err := fn(ctx, &testTx{})
	return err
}

func TestAnswerEffectAndOutcomeAreOneCommit(t *testing.T) {
	t.Parallel()
	contracts(t, func(t *testing.T, p producer.Producer) {
		store, runs := &txStore{}, newCounter()
		s := serve(t, p, func(c *Config) { store.Store, c.Store = c.Store, store },
			AnswerTx("shop", "*", func(_ context.Context, tx *testTx, ev Event[[]byte]) (Response, error) {
				tx.put = append(tx.put, ev.Type+" "+fmt.Sprint(ev.Attempt))
				runs.add()
				switch {
				case ev.Attempt > 1:
				case ev.Type == "fails":
					return Response{}, errBoom
				case ev.Type == "busy":
					return Response{Status: http.StatusServiceUnavailable}, nil
				case ev.Type == "exits":
					runtime.Goexit()
				case ev.Type == "rejects":
					return Response{}, Reject(errBoom)
				case ev.Type == "lost":
					store.set(func() { store.fenced = func() error { return errors.New("cut") } })
				}
				return Response{Status: 201, Body: []byte(`"made"`)}, nil
			}))
		for _, row := range []struct {
			typ           string
			first, second int
			runs          int
			effects       []string
		}{
			{"works", 201, 201, 1, []string{"works 1"}},
			{"fails", 503, 201, 2, []string{"fails 2"}},
			{"busy", 503, 201, 2, []string{"busy 2"}},
			{"exits", 503, 201, 2, []string{"exits 2"}},
			{"rejects", 422, 422, 1, nil},
			{"lost", inFlightStatus(p), 201, 1, []string{"lost 1"}},
		} {
			before := runs.count()
			first := s.send(req{id: row.typ, typ: row.typ, body: row.typ})
			second := s.send(req{id: row.typ, typ: row.typ, body: row.typ})
			if first.status != row.first || second.status != row.second || runs.count()-before != row.runs {
				t.Errorf("%s: %d, then %d after %d runs: %s", row.typ, first.status, second.status, runs.count()-before,
					second.body)
			}
			store.set(func() {
				if !slices.Equal(store.effects, row.effects) {
					t.Errorf("%s: effects %q", row.typ, store.effects)
				}
				store.effects, store.fenced = nil, nil
			})
		}
	})
}

func TestTransactionsThatTheStoreLacksAreRefused(t *testing.T) {
	t.Parallel()
	store := memstore.New(memstore.Options{})
	defer store.Close()
	handlers := []Handler{
		OnTx("shop", "a", func(context.Context, *testTx, Event[[]byte]) error { return nil }),
		AnswerTx("shop", "b", func(context.Context, string, Event[[]byte]) (Response, error) {
			return Response{}, nil
		}),
	}
	c := Config{Producers: []producer.Producer{apiProducer()}, Handlers: handlers, URL: "https://hooks.example"}
	for store, wants := range map[dedup.Store][]string{
		store: {`handler "shop/a"`, `handler "shop/b"`, "use On or Answer, or a store in PostgreSQL"},
		&txStore{Store: store}: {
			`handler "shop/b": it joins a transaction of type string`, "offers [*receiver.testTx]",
		},
	} {
		c.Store = store
		_, err := Open(c)
		for _, want := range wants {
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%v; want %q", err, want)
			}
		}
	}
}
