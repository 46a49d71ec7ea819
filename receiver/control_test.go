package receiver

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/eyelet-dev/eyelet/dedup"
	"github.com/eyelet-dev/eyelet/dedup/badgerstore"
	"github.com/eyelet-dev/eyelet/producer"
)

// runs records what a handler did.
type runs struct {
	mu      sync.Mutex
	bodies  []string
	at      []time.Time
	now     int
	most    int
	fails   map[string]bool // bodies that fail
	failAll bool
	takes   time.Duration
}

func (r *runs) handle(_ context.Context, ev Event[[]byte]) error {
	r.mu.Lock()
	r.bodies, r.at = append(r.bodies, string(ev.Data)), append(r.at, time.Now())
	r.now++
	r.most = max(r.most, r.now)
	takes := r.takes
	r.mu.Unlock()
	time.Sleep(takes)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.now--
	if r.failAll || r.fails[string(ev.Data)] {
		return errors.New("no")
	}
	return nil
}

func (r *runs) set(change func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	change()
}

// seen returns how many ran at once at most, and when each began.
func (r *runs) seen() (most int, at []time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.most, slices.Clone(r.at)
}

func (r *runs) count() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.bodies)
}

// controlled is a receiver with only the dispatcher of the fixture.
func (f *fixture) controlled() *Receiver { return &Receiver{workers: f.d} }

func (f *fixture) must(err error) {
	f.t.Helper()
	if err != nil {
		f.t.Fatal(err)
	}
}

// state returns the state of the handler "h", and that after a moment in which others could run.
func (f *fixture) state() Control {
	synctest.Wait()
	for _, s := range f.controlled().Controls() {
		if s.Handler == "h" {
			return s
		}
	}
	return Control{}
}

func (f *fixture) many(n int) (events []string) {
	for i := range n {
		events = append(events, f.accept(fmt.Sprint("e", i), fmt.Sprint(i)))
	}
	return events
}

func TestConcurrencyBoundsAHandlerAndNoOther(t *testing.T) {
	a, b := &runs{takes: time.Second}, &runs{takes: time.Second}
	hs := []Handler{On("gh", "*", a.handle).Named("h").Concurrency(2), On("gh", "*", b.handle).Named("other")}
	onFixture(t, hs, func(c *Config) { c.Workers = 20 }, func(f *fixture) {
		for _, event := range f.many(10) {
			f.outcome(event)
		}
		most, at := a.seen()
		others, _ := b.seen()
		f.same("runs at once", []int{2, 10}, []int{most, others})
		f.same("seconds of all", 4*time.Second, at[9].Sub(at[0]))
	})
}

func TestRateSpreadsTheStartsOfAHandlerAndNoOther(t *testing.T) {
	a, b := &runs{}, &runs{}
	hs := []Handler{
		On("gh", "*", a.handle).Named("h").Rate(producer.Rate{Events: 2, Burst: 3}),
		On("gh", "*", b.handle).Named("other"),
	}
	onFixture(t, hs, nil, func(f *fixture) {
		began := time.Now()
		for _, event := range f.many(9) {
			f.outcome(event)
		}
		var at []time.Duration
		_, starts := a.seen()
		_, others := b.seen()
		for _, started := range starts {
			at = append(at, started.Sub(began).Round(time.Millisecond))
		}
		half := time.Second / 2
		f.same("starts", []time.Duration{0, 0, 0, half, 2 * half, 3 * half, 4 * half, 5 * half, 6 * half}, at)
		f.same("the other took", time.Duration(0), others[8].Sub(began))
	})
}

func TestAPausedHandlerWaitsAndTheOthersRun(t *testing.T) {
	a, b := &runs{}, &runs{}
	hs := []Handler{On("gh", "*", a.handle).Named("h"), On("gh", "*", b.handle).Named("other")}
	onFixture(t, hs, func(c *Config) { c.OrphanAfter = 0 }, func(f *fixture) {
		rx := f.controlled()
		synctest.Wait() // a Take without limits waits
		f.must(rx.Pause(t.Context(), "h", "the shop moves"))
		events := f.many(5)
		time.Sleep(100 * time.Hour)
		f.same("runs", []int{0, 5}, []int{a.count(), b.count()})
		f.same("attempts of the paused", 0, f.record(events[4]).Tasks[0].Attempt)
		s := f.state()
		f.same("state", "true operator the shop moves", fmt.Sprint(s.Paused, " ", s.By, " ", s.Reason))
		f.must(rx.Resume(t.Context(), "h"))
		for _, event := range events {
			f.ends(f.outcome(event), dedup.Done, "", 1)
		}
		f.same("state", Control{Handler: "h"}, f.state())
		if len(f.d.control.limits) != 0 {
			t.Errorf("limits are left: %v", f.d.control.limits)
		}
	})
}

func TestOnlyKnownHandlersOfStoredEventsCanBePaused(t *testing.T) {
	answer := func(context.Context, Event[[]byte]) (Response, error) { return Response{}, nil }
	hs := []Handler{On("gh", "a", (&runs{}).handle).Named("h"), Answer("gh", "b", answer).Named("answers")}
	onFixture(t, hs, nil, func(f *fixture) {
		rx := f.controlled()
		err := rx.Pause(t.Context(), "g", "")
		if !errors.Is(err, ErrUnknownHandler) || !strings.Contains(err.Error(), "there are: answers, h") {
			t.Error(err)
		}
		if err := rx.Pause(t.Context(), "answers", ""); !errors.Is(err, ErrAnswering) {
			t.Error(err)
		}
		if err := rx.Pause(t.Context(), "h", strings.Repeat("x", dedup.MaxNote)); !errors.Is(err, dedup.ErrInvalid) {
			t.Error(err)
		}
		f.same("state", Control{Handler: "h"}, f.state())
	})
	for _, h := range []Handler{hs[1].Concurrency(1), hs[1].Breaker(2), hs[1].Rate(producer.Rate{Events: 1}),
		hs[0].Concurrency(-1), hs[0].Breaker(1), hs[0].Rate(producer.Rate{Events: -1})} {
		if _, err := newRegistry([]Handler{h}, twoProducers, decodeJSON); err == nil {
			t.Errorf("no mistake in %+v", h)
		}
	}
}

func TestOnePoisonEventNeverTripsTheBreaker(t *testing.T) {
	a := &runs{fails: map[string]bool{`{"Lane":"x"}`: true, `{"Lane":"y","N":1}`: true, `{"Lane":"y","N":2}`: true}}
	h := On("gh", "*", a.handle).Named("h").Breaker(2).Lane(producer.JSON("Lane")).LaneYields()
	onFixture(t, []Handler{h}, func(c *Config) { c.Attempts = 50 }, func(f *fixture) {
		event := f.accept("x", `{"Lane":"x"}`)
		f.ends(f.outcome(event), dedup.Dead, reasonExhausted, 50)
		f.same("paused by one event", false, f.state().Paused)
		f.outcome(f.accept("good", `{"Lane":"z"}`))
		one, two := f.accept("1", `{"Lane":"y","N":1}`), f.accept("2", `{"Lane":"y","N":2}`)
		f.outcome(one)
		f.outcome(two)
		f.same("paused by one lane", false, f.state().Paused)
	})
}

func TestASuccessBetweenFailuresKeepsTheBreakerClosed(t *testing.T) {
	a := &runs{fails: map[string]bool{"bad": true}}
	onFixture(t, []Handler{On("gh", "*", a.handle).Named("h").Breaker(2)}, func(c *Config) { c.Attempts = 1 },
		func(f *fixture) {
			for i := range 10 {
				f.outcome(f.accept(fmt.Sprint(i), []string{"bad", "good"}[i%2]))
			}
			f.same("paused", false, f.state().Paused)
			f.outcome(f.accept("x", "bad"))
			f.outcome(f.accept("y", "bad"))
			f.same("paused by two in a row", true, f.state().Paused)
		})
}

// TestABrokenHandlerTriesOneEventAtATimeAndRecovers also sees that nothing is lost.
func TestABrokenHandlerTriesOneEventAtATimeAndRecovers(t *testing.T) {
	a := &runs{failAll: true, takes: time.Second}
	onFixture(t, []Handler{On("gh", "*", a.handle).Named("h").Breaker(3)}, nil, func(f *fixture) {
		events := f.many(20)
		time.Sleep(20 * time.Second)
		s, before := f.state(), a.count()
		f.same("state", "breaker 3 events failed in a row, the last: failed", s.By+" "+s.Reason)
		a.set(func() { a.most = 0 })
		time.Sleep(20 * time.Minute)
		most, starts := a.seen()
		f.same("runs at once", 1, most)
		var waits []time.Duration
		last := s.Since
		for _, at := range starts[before:] {
			waits = append(waits, at.Sub(last).Round(time.Second))
			last = at.Add(time.Second)
		}
		minute := time.Minute
		f.same("waits", []time.Duration{minute / 2, minute, 2 * minute, 4 * minute, 8 * minute}, waits)
		a.set(func() { a.failAll = false })
		for _, event := range events {
			if r := f.outcome(event); r.State() != dedup.Done {
				t.Errorf("%s is %v", event, r.State())
			}
		}
		f.same("state", Control{Handler: "h"}, f.state())
	})
}

// TestReceiversOfAStoreTryOneEventTogether has two receivers, of which each has workers for more.
func TestReceiversOfAStoreTryOneEventTogether(t *testing.T) {
	a := &runs{failAll: true, takes: time.Second}
	hs := []Handler{On("gh", "*", a.handle).Named("h").Breaker(3)}
	onFixture(t, hs, func(c *Config) { c.Attempts = 100 }, func(f *fixture) {
		second := newDispatcher(f.d.cfg, f.d.registry, f.d.log)
		ctx, end := context.WithCancel(f.t.Context())
		time.Sleep(300 * time.Millisecond) // so that neither reads just when a trial is due
		for _, d := range []*dispatcher{f.d, second} {
			go d.control.watch(ctx)
		}
		second.start()
		defer func() {
			end()
			f.must(second.stop(f.t.Context()))
		}()
		events := f.many(30)
		time.Sleep(10 * time.Second)
		before, s := a.count(), f.state()
		a.set(func() { a.most = 0 })
		time.Sleep(8 * time.Minute)
		f.same("by", ByBreaker, s.By)
		most, _ := a.seen()
		f.same("runs at once", 1, most)
		f.same("tried", 4, a.count()-before)
		a.set(func() { a.failAll = false })
		for _, event := range events {
			f.outcome(event)
		}
		time.Sleep(2 * time.Second)
		f.same("state of the second", "false", fmt.Sprint(second.control.list()[0].Paused))
	})
}

func TestAnOperatorsPauseOutlivesABreakersAndResumeEndsBoth(t *testing.T) {
	a := &runs{failAll: true}
	onFixture(t, []Handler{On("gh", "*", a.handle).Named("h").Breaker(2)}, nil, func(f *fixture) {
		events := f.many(4)
		time.Sleep(time.Second)
		f.same("by", ByBreaker, f.state().By)
		f.must(f.controlled().Pause(t.Context(), "h", "I know"))
		before := a.count()
		a.set(func() { a.failAll = false })
		time.Sleep(time.Hour)
		f.same("by", ByOperator, f.state().By)
		f.same("runs", before, a.count())
		f.must(f.controlled().Resume(t.Context(), "h"))
		for _, event := range events {
			f.outcome(event)
		}
	})
}

func TestATrialThatSaysNothingIsFollowedByAnother(t *testing.T) {
	a := &runs{failAll: true}
	var postpones atomic.Bool
	h := On("gh", "*", func(ctx context.Context, ev Event[[]byte]) error {
		if postpones.CompareAndSwap(true, false) {
			return Postpone(time.Hour, nil)
		}
		return a.handle(ctx, ev)
	})
	onFixture(t, []Handler{h.Named("h").Breaker(2)}, nil, func(f *fixture) {
		f.many(4)
		time.Sleep(time.Second)
		synctest.Wait()
		s := f.state()
		postpones.Store(true)
		a.set(func() { a.failAll = false })
		time.Sleep(time.Until(s.Next) + time.Second)
		f.same("paused", false, f.state().Paused)
	})
}

func TestHandlersWithoutLimitsCostNothing(t *testing.T) {
	hs := []Handler{On("gh", "*", (&runs{}).handle).Named("h")}
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, hs, nil)
		defer f.close()
		a := newAttempt(f.d, dedup.Work{Record: dedup.Record{Tasks: []dedup.Task{{Handler: "h"}}}})
		ctx := t.Context()
		f.d.control.begin(ctx)
		n := testing.AllocsPerRun(100, func() {
			got, end, most := f.d.control.begin(ctx)
			if got != f.d.control.taking || most != nil || !f.d.control.start(a) {
				t.Error("a limit")
			}
			f.d.control.free(a)
			f.d.control.report(a)
			f.d.control.close(a)
			end()
		})
		f.same("allocations", 0.0, n)
		f.d.start()
	})
}

// TestAPauseSurvivesARestart opens a store on disk twice.
func TestAPauseSurvivesARestart(t *testing.T) {
	t.Parallel()
	dir, a := t.TempDir(), &runs{}
	during := func(do func(rx *Receiver)) {
		s, err := badgerstore.Open(dir, badgerstore.Options{})
		if err != nil {
			t.Fatal(err)
		}
		rx, err := Open(Config{
			Store: s, Producers: []producer.Producer{webhookProducer()},
			Handlers: []Handler{On("shop", "*", a.handle).Named("h")},
		})
		if err != nil {
			t.Fatal(err)
		}
		do(rx)
		if err := errors.Join(rx.Close(), s.Close()); err != nil {
			t.Fatal(err)
		}
	}
	during(func(rx *Receiver) {
		if err := rx.Pause(t.Context(), "h", "moving"); err != nil {
			t.Fatal(err)
		}
	})
	during(func(rx *Receiver) {
		if s := rx.Controls()[0]; !s.Paused || s.Reason != "moving" || s.Since.IsZero() {
			t.Errorf("%+v", s)
		}
		if err := rx.Resume(t.Context(), "h"); err != nil {
			t.Fatal(err)
		}
	})
	during(func(rx *Receiver) {
		if s := rx.Controls()[0]; s.Paused {
			t.Errorf("%+v", s)
		}
	})
}

func TestReplaceCarriesOverPausesAndWhatHandlersUse(t *testing.T) {
	a := &runs{}
	g := make(chan struct{})
	h := On("shop", "*", func(ctx context.Context, ev Event[[]byte]) error {
		err := a.handle(ctx, ev)
		<-g
		return err
	}).Named("h").Concurrency(1)
	s := serve(t, webhookProducer(), nil, h, On("shop", "x", a.handle).Named("new"))
	running := func() int { return s.rx.workers.control.limits["h"].quota.Running() }
	s.send(req{id: "1", body: "1"})
	for a.count() < 1 {
		time.Sleep(time.Millisecond)
	}
	if err := s.rx.Pause(t.Context(), "new", "later"); err != nil {
		t.Fatal(err)
	}
	s.replace(func(c *Config) { c.Handlers = c.Handlers[:1] })
	next := s.replace(func(c *Config) { c.Handlers = []Handler{h, On("shop", "x", a.handle).Named("new")} })
	if s := next.Controls()[1]; !s.Paused {
		t.Errorf("a handler that is there again: %+v", s)
	}
	s.send(req{id: "2", body: "2"})
	if n := running(); n != 1 {
		t.Errorf("%d run", n)
	}
	close(g)
	for s.state("2") != "done " {
		time.Sleep(time.Millisecond)
	}
	if n := running(); n != 0 {
		t.Errorf("%d run at the end", n)
	}
}

// TestLanesKeepTheirOrderUnderControl pauses, resumes, limits and breaks a handler at random.
func TestLanesKeepTheirOrderUnderControl(t *testing.T) {
	t.Parallel()
	for range 30 {
		seed := rand.Uint64()
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			lanesKeepTheirOrder(t, rand.New(rand.NewPCG(seed, 1))) //nolint:gosec // a test
		})
	}
}

func lanesKeepTheirOrder(t *testing.T, r *rand.Rand) {
	t.Helper()
	l, concurrency := newLaneLog(), 1+r.IntN(4)
	var mu sync.Mutex
	h := On("gh", "*", l.run(func(Event[laneEvent]) error {
		mu.Lock()
		defer mu.Unlock()
		if r.IntN(3) == 0 {
			return errors.New("no")
		}
		return nil
	})).Named("h").Lane(producer.JSON("Lane")).Breaker(2 + r.IntN(3))
	h = h.Concurrency(concurrency).Rate(producer.Rate{Events: 1 + r.IntN(30), Burst: 1 + r.IntN(3)})
	onFixture(t, []Handler{h}, func(c *Config) { c.Attempts, c.Workers = 100, 9 }, func(f *fixture) {
		var events []string
		want := map[string][]string{}
		for i := range 40 {
			mu.Lock()
			lane, wait, act := fmt.Sprint(r.IntN(5)), time.Duration(r.IntN(3000))*time.Millisecond, r.IntN(6)
			mu.Unlock()
			want[lane] = append(want[lane], fmt.Sprint(i))
			events = append(events, f.accept(fmt.Sprint(i), fmt.Sprintf(`{"Lane":%q,"N":%d}`, lane, i)))
			switch act {
			case 0:
				f.must(f.controlled().Pause(t.Context(), "h", "now"))
			case 1:
				f.must(f.controlled().Resume(t.Context(), "h"))
			}
			time.Sleep(wait)
		}
		f.must(f.controlled().Resume(t.Context(), "h"))
		for _, event := range events {
			if r := f.outcome(event); r.State() != dedup.Done {
				t.Errorf("%s is %v", event, r.State())
			}
		}
		l.mu.Lock()
		defer l.mu.Unlock()
		for lane, order := range l.order {
			f.same("order of lane "+lane, want[lane], slices.Compact(order))
		}
		f.same("events at once in a lane", 0, len(l.beside))
		if l.most > concurrency {
			t.Errorf("%d at once, want at most %d", l.most, concurrency)
		}
	})
}

func TestARetiredHandlerIsListedWhileItIsPaused(t *testing.T) {
	h := On("gh", "*", (&runs{}).handle).Named("h").Retired()
	onFixture(t, []Handler{h}, nil, func(f *fixture) {
		f.same("handlers", 0, len(f.controlled().Controls()))
		f.must(f.controlled().Pause(t.Context(), "h", "now"))
		f.same("paused handlers", 1, len(f.controlled().Controls()))
	})
}
