package receiver

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/eyelet-dev/eyelet/dedup"
	"github.com/eyelet-dev/eyelet/dedup/memstore"
	"github.com/eyelet-dev/eyelet/producer"
)

type raw = json.RawMessage

// countingAnswer counts its runs. Once released it returns an empty response.
func countingAnswer(c *counter, release <-chan struct{}) Handler {
	return Answer("shop", "*", func(context.Context, Event[[]byte]) (Response, error) {
		c.add()
		<-release
		return Response{}, nil
	})
}

func inFlightStatus(p producer.Producer) int {
	return map[producer.Contract]int{producer.API: 409, producer.Webhook: 503}[p.Contract]
}

func TestAnswerIsStoredAndRepeated(t *testing.T) {
	t.Parallel()
	rows := []struct {
		name     string
		response Response
		status   map[producer.Contract]int
		header   map[string]string
	}{
		{"body", Response{Body: []byte(`{"ok":true}`)}, map[producer.Contract]int{0: 200, 1: 200},
			map[string]string{"Content-Type": "application/json"}},
		{"nothing", Response{}, map[producer.Contract]int{0: 204, 1: 200}, nil},
		{
			"created", Response{Status: 201,
				Header: http.Header{"location": {"/o/1"}, "Content-Type": {"text/xml"}, "Connection": {"x"},
					"Idempotency-Replayed": {"true"}, "Content-Length": {"99"}}, Body: []byte("<a/>")},
			map[producer.Contract]int{0: 201, 1: 201},
			map[string]string{"Location": "/o/1", "Content-Type": "text/xml"},
		},
		{"refusal", Response{Status: 409, Body: []byte(`{}`)}, map[producer.Contract]int{0: 409, 1: 409}, nil},
		{"largest", Response{Body: make([]byte, 1<<20)}, map[producer.Contract]int{0: 200, 1: 200}, nil},
	}
	contracts(t, func(t *testing.T, p producer.Producer) {
		runs := newCounter()
		s := serve(t, p, nil, Answer("shop", "*", func(_ context.Context, ev Event[[]byte]) (Response, error) {
			runs.add()
			for _, row := range rows {
				if row.name == ev.Type {
					return row.response, nil
				}
			}
			return Response{}, errors.New("no row")
		}))
		for _, row := range rows {
			var first got
			for i := range 3 {
				g := s.send(req{id: row.name, typ: row.name, body: row.name})
				if i == 0 {
					first = g
				}
				if g.status != row.status[p.Contract] || g.body != first.body || g.replayed() != (i > 0) ||
					len(g.body) != len(row.response.Body) {
					t.Fatalf("%s: %d %v", row.name, g.status, g.header)
				}
				for name, want := range row.header {
					if g.header.Get(name) != want {
						t.Errorf("%s: %s %q", row.name, name, g.header.Get(name))
					}
				}
			}
		}
		if runs.count() != len(rows) {
			t.Errorf("%d runs", runs.count())
		}
	})
}

func TestFinalRefusalIsStored(t *testing.T) {
	t.Parallel()
	contracts(t, func(t *testing.T, p producer.Producer) {
		runs := newCounter()
		s := serve(t, p, nil, Answer("shop", "*", func(context.Context, Event[struct{ N int }]) (Response, error) {
			runs.add()
			return Response{}, Reject(errors.New("private-cause"))
		}))
		for body, code := range map[string]string{`{"N":1}`: "rejected", `{"N":"x"}`: "undecodable"} {
			for i := range 2 {
				g := s.send(req{id: code, body: body})
				if g.replayed() != (i == 1) {
					t.Errorf("%s %d: replayed %v", code, i, g.replayed())
				}
				g.header.Del("Idempotency-Replayed")
				wantProblem(t, g, 422, code)
			}
		}
		if runs.count() != 1 {
			t.Errorf("%d runs", runs.count())
		}
		for _, rec := range s.records() {
			if rec.State() != dedup.Dead {
				t.Errorf("%s is %v", rec.Key.ID, rec.State())
			}
		}
	})
}

func TestTransientAnswerIsSentNotStored(t *testing.T) {
	t.Parallel()
	rows := map[string]struct {
		do     func() (Response, error)
		status int
		code   string // of the problem; empty for the handler's own response
	}{
		"error": {func() (Response, error) { return Response{}, errors.New("private-cause") }, 503,
			"answer_failed"},
		"panic": {func() (Response, error) { panic("secret-payload") }, 503, "answer_failed"},
		"postponed": {func() (Response, error) { return Response{}, Postpone(90*time.Second, nil) }, 503,
			"answer_postponed"},
		"408": {func() (Response, error) { return Response{Status: 408, Body: []byte("x")}, nil }, 408, ""},
		"425": {func() (Response, error) { return Response{Status: 425}, nil }, 425, ""},
		"429": {func() (Response, error) { return Response{Status: 429}, nil }, 429, ""},
		"500": {func() (Response, error) { return Response{Status: 500}, nil }, 500, ""},
		"503": {func() (Response, error) { return Response{Status: 503}, nil }, 503, ""},
		"101": {func() (Response, error) { return Response{Status: 101}, nil }, 503, "answer_failed"},
		"302": {func() (Response, error) { return Response{Status: 302}, nil }, 503, "answer_failed"},
		"207": {func() (Response, error) { return Response{Status: 207}, nil }, 503, "answer_failed"},
		"600": {func() (Response, error) { return Response{Status: 600}, nil }, 503, "answer_failed"},
		"too-large": {func() (Response, error) { return Response{Body: make([]byte, 1<<20+1)}, nil }, 503,
			"answer_failed"},
	}
	contracts(t, func(t *testing.T, p producer.Producer) {
		var again sync.Map
		s := serve(t, p, omitErrors, Answer("shop", "*", func(_ context.Context, ev Event[[]byte]) (Response, error) {
			if _, second := again.LoadOrStore(ev.ID, true); second {
				return Response{Body: fmt.Appendf(nil, "%d", ev.Attempt)}, nil
			}
			return rows[ev.Type].do()
		}))
		for name, row := range rows {
			g := s.send(req{id: name, typ: name, body: name})
			t.Log(name)
			if row.code != "" {
				wantProblem(t, g, row.status, row.code)
			} else if g.status != row.status || g.header.Get("Retry-After") == "" ||
				g.header.Get("Cache-Control") != "no-store" {
				t.Fatalf("%+v", g)
			}
			if name == "postponed" && len(g.header.Get("Retry-After")) < 2 {
				t.Errorf("retry-after %q", g.header.Get("Retry-After"))
			}
			if g := s.send(req{id: name, typ: name, body: name}); g.status != 200 || g.replayed() || g.body != "2" {
				t.Fatalf("the next delivery: %+v", g)
			}
		}
		if log := s.log.String(); strings.Contains(log, "secret-payload") || strings.Contains(log, "private-cause") {
			t.Error("the text of the error is in the log")
		}
	})
}

func TestConcurrentDuplicatesAreOneRun(t *testing.T) {
	t.Parallel()
	contracts(t, func(t *testing.T, p producer.Producer) {
		runs := newCounter()
		release := make(chan struct{})
		s := serve(t, p, nil, Answer("shop", "*", func(context.Context, Event[raw]) (Response, error) {
			runs.add()
			<-release
			return Response{Body: []byte(`"one"`)}, nil
		}))
		answers := s.sendAtOnce(32, req{id: "k1", body: "1"}, func() {
			runs.await(t)
			close(release)
		})
		firsts := 0
		for _, g := range answers {
			if g.status != 200 || g.body != `"one"` {
				t.Errorf("%+v", g)
			}
			if !g.replayed() {
				firsts++
			}
		}
		if firsts != 1 || runs.count() != 1 {
			t.Errorf("%d responses are not marked as replayed, %d runs", firsts, runs.count())
		}
	})
}

// sendAtOnce sends n copies of a delivery at once and calls meanwhile while they are in flight.
func (s *site) sendAtOnce(n int, a req, meanwhile func()) []got {
	s.t.Helper()
	answers := make([]got, n)
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() {
			g, err := s.try(a)
			if err != nil {
				s.t.Error(err)
			}
			answers[i] = g
		})
	}
	meanwhile()
	wg.Wait()
	return answers
}

// A duplicate gets the response once it is stored, and not at its next look into the store.
func TestAResultWakesTheDuplicates(t *testing.T) {
	t.Parallel()
	inBubbles(t, func(t *testing.T, p producer.Producer) {
		s := serve(t, p, nil, Answer("shop", "*", func(context.Context, Event[raw]) (Response, error) {
			time.Sleep(pollInterval / 4)
			return Response{}, nil
		}))
		began := time.Now()
		s.sendAtOnce(2, req{id: "k1"}, func() {})
		if took := time.Since(began); took != pollInterval/4 {
			t.Errorf("both have their responses after %v", took)
		}
	})
}

func TestReleasedClaimGoesToExactlyOneWaitingDelivery(t *testing.T) {
	t.Parallel()
	inBubbles(t, func(t *testing.T, p producer.Producer) {
		runs := newCounter()
		var inside, most atomic.Int32
		s := serve(t, p, nil, Answer("shop", "*", func(_ context.Context, ev Event[raw]) (Response, error) {
			most.Store(max(most.Load(), inside.Add(1)))
			defer inside.Add(-1)
			time.Sleep(20 * time.Millisecond)
			if runs.add() < 4 {
				return Response{}, errors.New("not yet")
			}
			return Response{Body: fmt.Appendf(nil, "%d", ev.Attempt)}, nil
		}))
		failed, first, repeated := 0, 0, 0
		for _, g := range s.sendAtOnce(16, req{id: "k1", body: "1"}, func() {}) {
			switch {
			case g.status == 503:
				failed++
			case g.replayed():
				repeated++
			default:
				first++
			}
			if g.status == 200 && g.body != "4" {
				t.Errorf("%+v", g)
			}
		}
		if failed != 3 || first != 1 || repeated != 12 || runs.count() != 4 || most.Load() != 1 {
			t.Errorf("%d failed, %d first, %d replayed, %d runs, %d at once", failed, first, repeated, runs.count(),
				most.Load())
		}
	})
}

func TestDuplicateThatWaitedLongEnoughGetsRetryAfter(t *testing.T) {
	t.Parallel()
	inBubbles(t, func(t *testing.T, p producer.Producer) {
		for _, wait := range []time.Duration{-1, 50 * time.Millisecond} {
			runs, release := newCounter(), make(chan struct{})
			s := serve(t, p, func(c *Config) { c.InFlightWait = wait },
				Answer("shop", "*", func(context.Context, Event[raw]) (Response, error) {
					runs.add()
					<-release
					return Response{Body: []byte("1")}, nil
				}))
			s.sendAtOnce(1, req{id: "k1", body: "1"}, func() {
				runs.await(t)
				wantProblem(t, s.send(req{id: "k1", body: "1"}), inFlightStatus(p), "in_flight")
				conflict := s.send(req{id: "k1", body: "2"})
				if p.Contract == producer.API {
					wantProblem(t, conflict, 422, "idempotency_key_reused") // takes precedence over 409
				} else if conflict.status != 200 {
					t.Errorf("%+v", conflict)
				}
				close(release)
			})
			if g := s.send(req{id: "k1", body: "1"}); g.body != "1" || !g.replayed() {
				t.Errorf("%+v", g)
			}
		}
	})
}

func TestHeldEventIsNotAcknowledgedByAReceiverThatWouldNotAnswerIt(t *testing.T) {
	t.Parallel()
	contracts(t, func(t *testing.T, p producer.Producer) {
		runs, release := newCounter(), make(chan struct{})
		s := serve(t, p, nil, countingAnswer(runs, release))
		// The same store with another configuration, as during a rollout.
		later := serve(t, p, func(c *Config) { c.Store = s.store }, mustNotRun(t))
		batches := p
		batches.Split, batches.Key = splitLines, nil
		batching := serve(t, batches, func(c *Config) { c.Store = s.store })
		s.sendAtOnce(1, req{id: "k1", body: "k1"}, func() {
			runs.await(t)
			wantProblem(t, later.send(req{id: "k1", body: "k1"}), inFlightStatus(p), "in_flight")
			wantProblem(t, batching.send(req{body: "k2\nk1"}), inFlightStatus(p), "in_flight")
			close(release)
		})
		if g := later.send(req{id: "k1", body: "k1"}); g.status/100 != 2 || !g.replayed() {
			t.Errorf("%+v", g)
		}
	})
}

func TestInFlightStatusIsTheProducers(t *testing.T) {
	t.Parallel()
	p := apiProducer()
	p.InFlight = 503
	runs, release := newCounter(), make(chan struct{})
	s := serve(t, p, func(c *Config) { c.InFlightWait = -1 }, countingAnswer(runs, release))
	s.sendAtOnce(1, req{id: "k1"}, func() {
		runs.await(t)
		wantProblem(t, s.send(req{id: "k1"}), 503, "in_flight")
		close(release)
	})
}

func TestTimedOutAnswerContinuesAndItsResultIsRecorded(t *testing.T) {
	t.Parallel()
	inBubbles(t, func(t *testing.T, p producer.Producer) {
		runs, release := newCounter(), make(chan struct{})
		s := serve(t, p, func(c *Config) {
			c.AnswerTimeout, c.InFlightWait = 50*time.Millisecond, -1
		}, Answer("shop", "*", func(ctx context.Context, _ Event[raw]) (Response, error) {
			runs.add()
			<-release // ignores its context
			return Response{Body: []byte("real")}, nil
		}))
		wantProblem(t, s.send(req{id: "k1", body: "1"}), 503, "answer_timeout")
		time.Sleep(3 * DefaultLease) // which is extended
		wantProblem(t, s.send(req{id: "k1", body: "1"}), inFlightStatus(p), "in_flight")
		close(release)
		waitFor(t, func() bool { return s.records()[0].Response.Status == 200 })
		if g := s.send(req{id: "k1", body: "1"}); g.body != "real" || !g.replayed() {
			t.Errorf("%+v", g)
		}
		if runs.count() != 1 {
			t.Errorf("%d runs", runs.count())
		}
	})
}

// slowStore acknowledges claims late, as a database does during a failover.
type slowStore struct {
	dedup.Store
	asked chan time.Time
}

func (s *slowStore) Claim(ctx context.Context, claims ...dedup.Claim) ([]dedup.Decision, error) {
	s.asked <- time.Now()
	decisions, err := s.Store.Claim(ctx, claims...)
	time.Sleep(20 * time.Millisecond)
	return decisions, err
}

// Otherwise the lease ends before it is extended, and a second run starts beside the first.
func TestTheLeaseOfAnAnswerCountsFromBeforeItsClaim(t *testing.T) {
	t.Parallel()
	inBubbles(t, func(t *testing.T, p producer.Producer) {
		store := &slowStore{Store: memstore.New(memstore.Options{}), asked: make(chan time.Time, 1)}
		t.Cleanup(func() { _ = store.Close() })
		leased := make(chan time.Time, 1)
		var s *site
		s = serve(t, p, func(c *Config) { c.Store = store },
			Answer("shop", "*", func(context.Context, Event[raw]) (Response, error) {
				w := s.rx.answers
				w.mu.Lock()
				defer w.mu.Unlock()
				leased <- w.runs[0].extendAt.Add(-w.length / 3)
				return Response{}, nil
			}))
		s.send(req{id: "k1", body: "1"})
		if from, asked := <-leased, <-store.asked; from.After(asked) {
			t.Errorf("the lease counts from %s after the claim", from.Sub(asked))
		}
	})
}

func TestAnswerThatObeysItsContextFreesTheEvent(t *testing.T) {
	t.Parallel()
	inBubbles(t, func(t *testing.T, p producer.Producer) {
		runs := newCounter()
		s := serve(t, p, func(c *Config) { c.AnswerTimeout = 30 * time.Millisecond },
			Answer("shop", "*", func(ctx context.Context, ev Event[raw]) (Response, error) {
				if runs.add() > 1 {
					return Response{}, nil
				}
				<-ctx.Done()
				return Response{}, ctx.Err()
			}))
		wantProblem(t, s.send(req{id: "k1"}), 503, "answer_timeout")
		waitFor(t, func() bool { return s.send(req{id: "k1"}).status/100 == 2 })
	})
}

func TestProducerThatHangsUpCancelsNothing(t *testing.T) {
	t.Parallel()
	runs, release, saw := newCounter(), make(chan struct{}), make(chan error, 1)
	s := serve(t, apiProducer(), nil, Answer("shop", "*", func(ctx context.Context, _ Event[raw]) (Response, error) {
		runs.add()
		<-release
		saw <- ctx.Err()
		return Response{Body: []byte("kept")}, nil
	}))
	noticed := make(chan struct{})
	s.srv.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Hangs-Up") != "" {
			defer context.AfterFunc(r.Context(), func() { close(noticed) })()
		}
		s.rx.Handler().ServeHTTP(w, r)
	})
	ctx, hangUp := context.WithCancel(t.Context())
	gone := make(chan struct{})
	go func() {
		defer close(gone)
		resp, err := client.Do(s.request(req{id: "k1", header: http.Header{"Hangs-Up": {"1"}}}).WithContext(ctx))
		if err == nil {
			_ = resp.Body.Close()
			t.Error("the client got a response")
		}
	}()
	runs.await(t)
	hangUp()
	<-gone
	<-noticed // by the server
	close(release)
	if err := <-saw; err != nil {
		t.Error("the handler's context:", err)
	}
	waitFor(t, func() bool { return s.records()[0].Response.Status == 200 })
	if g := s.send(req{id: "k1"}); g.body != "kept" || !g.replayed() {
		t.Errorf("%+v", g)
	}
}

func TestAnswerIsDurableBeforeItIsSent(t *testing.T) {
	t.Parallel()
	inBubbles(t, func(t *testing.T, p producer.Producer) {
		for _, row := range []struct {
			err    error
			status int
			code   string
		}{
			{errors.New("disk gone"), 503, "store_unavailable"}, {dedup.ErrLeaseLost, inFlightStatus(p), "in_flight"},
			{&dedup.ErrUnavailable{Reason: "a test", Err: dedup.ErrFailed}, 503, "store_unavailable"},
		} {
			s := serve(t, p, func(c *Config) {
				c.Store = &brokenStore{Store: c.Store, finish: row.err}
				c.AnswerTimeout, c.Lease = 50*time.Millisecond, time.Second
			}, Answer("shop", "*", func(context.Context, Event[raw]) (Response, error) {
				return Response{Body: []byte("1")}, nil
			}))
			wantProblem(t, s.send(req{id: "k1"}), row.status, row.code)
		}
	})
}

func TestShutdownAnswersWhatItAccepted(t *testing.T) {
	t.Parallel()
	runs, release := newCounter(), make(chan struct{})
	s := serve(t, apiProducer(), nil, Answer("shop", "*", func(context.Context, Event[raw]) (Response, error) {
		runs.add()
		<-release
		return Response{Body: []byte("late")}, nil
	}))
	down := make(chan error, 1)
	answers := s.sendAtOnce(1, req{id: "k1"}, func() {
		runs.await(t)
		go func() { down <- s.rx.Shutdown(t.Context()) }()
		waitFor(t, func() bool { return s.rx.Ready(t.Context()) != nil })
		wantProblem(t, s.send(req{id: "k2"}), 503, "shutting_down")
		close(release)
	})
	if answers[0].status != 200 || answers[0].body != "late" {
		t.Errorf("%+v", answers[0])
	}
	if err := <-down; err != nil {
		t.Error(err)
	}
}

func TestShutdownAbandonsAHungHandler(t *testing.T) {
	t.Parallel()
	runs, saw := newCounter(), make(chan struct{})
	s := serve(t, apiProducer(), nil, Answer("shop", "*", func(ctx context.Context, _ Event[raw]) (Response, error) {
		runs.add()
		<-ctx.Done()
		close(saw)
		return Response{}, ctx.Err()
	}))
	s.sendAtOnce(1, req{id: "k1"}, func() {
		runs.await(t)
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
		defer cancel()
		if err := s.rx.Shutdown(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Error(err)
		}
		<-saw // its context has ended
	})
}
