package receiver

import (
	"context"
	"errors"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/eyelet-dev/eyelet/dedup"
	"github.com/eyelet-dev/eyelet/dedup/deduptest"
	"github.com/eyelet-dev/eyelet/producer"
)

// fickleStore fails to record results, in the way of the test.
type fickleStore struct {
	dedup.Store
	mu    sync.Mutex
	fails int  // this many calls fail
	after bool // they record the result all the same
}

func (s *fickleStore) set(fails int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.fails = fails
}

func (s *fickleStore) Finish(ctx context.Context, l dedup.Lease, r dedup.Result) error {
	s.mu.Lock()
	fails := s.fails > 0
	if fails {
		s.fails--
	}
	s.mu.Unlock()
	if !fails {
		return s.Store.Finish(ctx, l, r)
	}
	if s.after {
		_ = s.Store.Finish(ctx, l, r)
	}
	return &dedup.ErrUnavailable{Reason: "the connection was reset"}
}

// FinishMany implements dedup.Store.
func (s *fickleStore) FinishMany(ctx context.Context, results ...dedup.LeaseResult) []error {
	return deduptest.FinishEach(ctx, s, results)
}

// serveFickle serves an Answer handler that creates something, and counts its runs. The receiver
// has a store that fails as often as fickle says.
func serveFickle(
	t *testing.T, p producer.Producer, fickle *fickleStore, change func(*Config),
) (s *site, runs *counter) {
	t.Helper()
	runs = newCounter()
	return serve(t, p, func(c *Config) {
		fickle.Store, c.Store, c.InFlightWait = c.Store, fickle, -1
		if change != nil {
			change(c)
		}
	}, Answer("shop", "*", func(context.Context, Event[raw]) (Response, error) {
		runs.add()
		return Response{Status: http.StatusCreated, Body: []byte("{}")}, nil
	})), runs
}

// wantCreated expects the stored response of the only run.
func wantCreated(t *testing.T, g got, replayed bool, runs *counter) {
	t.Helper()
	if g.status != http.StatusCreated || g.replayed() != replayed || runs.count() != 1 {
		t.Errorf("%d runs, %+v", runs.count(), g)
	}
}

func TestAnswerIsRecordedAgainWhileTheStoreFails(t *testing.T) {
	t.Parallel()
	contracts(t, func(t *testing.T, p producer.Producer) {
		s, runs := serveFickle(t, p, &fickleStore{fails: 3}, nil)
		wantCreated(t, s.send(req{id: "k1"}), false, runs)
		wantCreated(t, s.send(req{id: "k1"}), true, runs)
		if n := s.rx.answers.watched(); n != 0 {
			t.Errorf("%d leases are extended", n)
		}
	})
}

// The producer waits for less time than the store fails, and the store fails for longer than a
// lease.
func TestAnswerKeepsItsLeaseUntilItIsRecorded(t *testing.T) {
	t.Parallel()
	inBubbles(t, func(t *testing.T, p producer.Producer) {
		fickle := &fickleStore{fails: 1 << 30}
		s, runs := serveFickle(t, p, fickle, func(c *Config) {
			c.AnswerTimeout = 50 * time.Millisecond
		})
		wantProblem(t, s.send(req{id: "k1"}), 503, "store_unavailable")
		for range 30 {
			time.Sleep(DefaultLease / 10)
			wantProblem(t, s.send(req{id: "k1"}), inFlightStatus(p), "in_flight")
		}
		fickle.set(0)
		waitFor(t, func() bool { return s.records()[0].Response.Status == http.StatusCreated })
		wantCreated(t, s.send(req{id: "k1"}), true, runs)
	})
}

// The answer of the call that recorded the result was lost: the next call gets ErrLeaseLost.
func TestAnswerThatIsRecordedInSpiteOfAnErrorIsRepeated(t *testing.T) {
	t.Parallel()
	contracts(t, func(t *testing.T, p producer.Producer) {
		s, runs := serveFickle(t, p, &fickleStore{fails: 1, after: true}, nil)
		wantProblem(t, s.send(req{id: "k1"}), inFlightStatus(p), "in_flight")
		wantCreated(t, s.send(req{id: "k1"}), true, runs)
	})
}

// Without it, the next delivery would wait for the end of the lease, which is 30 seconds.
func TestAReleaseIsRecordedAgainWhileTheStoreFails(t *testing.T) {
	t.Parallel()
	var seen []Event[[]byte]
	fickle := &fickleStore{fails: 2}
	s := serve(t, webhookProducer(), func(c *Config) { fickle.Store, c.Store = c.Store, fickle },
		Answer("shop", "*", failsOnce(&seen)))
	wantProblem(t, s.send(req{id: "k1", body: "1"}), 503, "answer_failed")
	fickle.set(2)
	// A receiver without the handler, whose result is that it is gone.
	later := serve(t, webhookProducer(), func(c *Config) { c.Store = fickle })
	if g := later.send(req{id: "k1", body: "1"}); g.status != 200 || g.replayed() || len(seen) != 1 {
		t.Errorf("%d runs, %+v", len(seen), g)
	}
}

func TestShutdownEndsWhileTheStoreDoesNotRecordAnAnswer(t *testing.T) {
	t.Parallel()
	fickle := &fickleStore{fails: 1 << 30}
	s, runs := serveFickle(t, apiProducer(), fickle, nil)
	answers := s.sendAtOnce(1, req{id: "k1"}, func() {
		runs.await(t)
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
		defer cancel()
		if err := s.rx.Shutdown(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Error(err)
		}
	})
	wantProblem(t, answers[0], 503, "store_unavailable")
	waitFor(t, func() bool { return s.rx.answers.watched() == 0 })
}

// watched is the number of runs whose leases are extended.
func (w *watchdog) watched() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.runs)
}
