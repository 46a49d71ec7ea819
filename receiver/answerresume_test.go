package receiver

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/eyelet-dev/eyelet/dedup"
	"github.com/eyelet-dev/eyelet/producer"
)

// failsOnce is an Answer handler whose first run fails. It appends the event of each run to
// seen.
func failsOnce(seen *[]Event[[]byte]) func(context.Context, Event[[]byte]) (Response, error) {
	return func(_ context.Context, ev Event[[]byte]) (Response, error) {
		if *seen = append(*seen, ev); len(*seen) == 1 {
			return Response{}, errors.New("not yet")
		}
		return Response{Body: []byte(ev.Header.Get("Shop"))}, nil
	}
}

// Unsigned fields of a later delivery of the same bytes must not reach the handler.
func TestFailedAnswerRunsAgainWithTheFirstDelivery(t *testing.T) {
	t.Parallel()
	for _, typ := range []string{"paid", "noted", "unheard"} { // of the delivery that triggers the second run
		t.Run(typ, func(t *testing.T) {
			t.Parallel()
			p := webhookProducer()
			p.Attributes = func(d *producer.Delivery) (map[string]string, error) {
				return map[string]string{"shop": d.Request.Header.Get("Shop")}, nil
			}
			var seen []Event[[]byte]
			other := newCounter()
			s := serve(t, p, nil, Answer("shop", "paid", failsOnce(&seen)),
				On("shop", "noted", func(context.Context, Event[[]byte]) error {
					other.add()
					return nil
				}))
			wantProblem(t, s.send(req{id: "k1", typ: "paid", body: "1", header: http.Header{"Shop": {"ours"}}}), 503,
				"answer_failed")
			for i := range 2 {
				g := s.send(req{id: "k1", typ: typ, body: "1", header: http.Header{"Shop": {"evil"}}})
				if g.status != 200 || g.body != "ours" || g.replayed() != (i == 1) {
					t.Errorf("%d: %+v", i, g)
				}
			}
			if len(seen) != 2 || other.count() != 0 {
				t.Fatalf("%d runs, %d of another handler", len(seen), other.count())
			}
			again := seen[1]
			if again.Header.Get("Shop") != "ours" || again.Attributes["shop"] != "ours" || again.Type != "paid" ||
				again.Attempt != 2 || string(again.Body) != "1" {
				t.Errorf("the second run got %+v", again)
			}
			if rec := s.records()[0]; rec.Payload.Header.Get("Shop") != "ours" || rec.Payload.Type != "paid" {
				t.Errorf("record %+v", rec)
			}
		})
	}
}

// The handler may have another name by then, or not exist.
func TestFailedAnswerResumesUnderAnotherConfiguration(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		name     string
		handlers func(seen *[]Event[[]byte]) []Handler
		runs     int
		state    dedup.State
	}{
		{"renamed", func(seen *[]Event[[]byte]) []Handler {
			return []Handler{Answer("shop", "*", failsOnce(seen)).Named("renamed")}
		}, 2, dedup.Done},
		{"stored first", func(seen *[]Event[[]byte]) []Handler {
			return []Handler{On("shop", "*", func(_ context.Context, ev Event[[]byte]) error {
				*seen = append(*seen, ev)
				return nil
			}).Named("stored")}
		}, 1, dedup.Dead},
		{"gone", func(*[]Event[[]byte]) []Handler { return nil }, 1, dedup.Dead},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			var seen []Event[[]byte]
			s := serve(t, webhookProducer(), nil, Answer("shop", "*", failsOnce(&seen)))
			a := req{id: "k1", typ: "paid", body: "1"}
			wantProblem(t, s.send(a), 503, "answer_failed")
			later := serve(t, webhookProducer(), func(c *Config) { c.Store = s.store }, row.handlers(&seen)...)
			if g := later.send(a); g.status != 200 || g.replayed() {
				t.Errorf("%+v", g)
			}
			if g := later.send(a); g.status != 200 || !g.replayed() {
				t.Errorf("again: %+v", g)
			}
			if rec := s.records()[0]; len(seen) != row.runs || rec.State() != row.state ||
				row.state == dedup.Dead && rec.Tasks[0].Reason != reasonGone {
				t.Errorf("%d runs, record %+v", len(seen), rec)
			}
		})
	}
}

// The producer of a retired Answer handler may begin to send batches. The first run of the event
// failed before, and the second one fails in the batch.
func TestFailedAnswerIsResumedInABatch(t *testing.T) {
	t.Parallel()
	contracts(t, func(t *testing.T, p producer.Producer) {
		var runs atomic.Int32
		answer := Answer("shop", "*", func(context.Context, Event[[]byte]) (Response, error) {
			switch runs.Add(1) {
			case 1:
				return Response{}, errors.New("not yet")
			case 2:
				return Response{Status: http.StatusBadGateway}, nil
			}
			return Response{Body: []byte("real")}, nil
		}).Named("relay")
		s := serve(t, p, nil, answer)
		wantProblem(t, s.send(req{id: "k1", body: "k1"}), 503, "answer_failed")
		others := newCounter()
		s.p.Split, s.p.Key, s.p.KeyRequired = splitLines, nil, false
		s.replace(func(c *Config) {
			c.Handlers = []Handler{answer.Retired(), On("shop", "*", func(context.Context, Event[[]byte]) error {
				others.add()
				return nil
			}).Named("batches")}
		})
		if g := s.send(req{body: "k2\nk1"}); g.status != http.StatusBadGateway || runs.Load() != 2 {
			t.Errorf("%d runs, %+v", runs.Load(), g)
		}
		for i := range 2 {
			g := s.send(req{body: "k2\nk1"})
			if g.status/100 != 2 || !strings.Contains(g.body, `"events":2`) || g.replayed() != (i == 1) {
				t.Errorf("%d: %+v", i, g)
			}
		}
		others.await(t)
		for _, rec := range s.records() {
			if rec.Key.ID == "k1" && (rec.State() != dedup.Done || string(rec.Response.Body) != "real") {
				t.Errorf("record %+v", rec)
			}
		}
		if runs.Load() != 3 || others.count() != 1 {
			t.Errorf("%d runs, %d of the other handler", runs.Load(), others.count())
		}
	})
}

// The store recorded the second run, but the answer of the call was lost.
func TestAnAnswerThatIsResumedInABatchMayBeInFlight(t *testing.T) {
	t.Parallel()
	contracts(t, func(t *testing.T, p producer.Producer) {
		var seen []Event[[]byte]
		fickle := &fickleStore{after: true}
		answer := Answer("shop", "*", failsOnce(&seen)).Named("relay")
		s := serve(t, p, func(c *Config) { fickle.Store, c.Store = c.Store, fickle }, answer)
		wantProblem(t, s.send(req{id: "k1", body: "k1"}), 503, "answer_failed")
		s.p.Split, s.p.Key, s.p.KeyRequired = splitLines, nil, false
		s.replace(func(c *Config) { c.Store, c.Handlers = fickle, []Handler{answer.Retired()} })
		fickle.set(1)
		wantProblem(t, s.send(req{body: "k2\nk1"}), inFlightStatus(p), "in_flight")
		if g := s.send(req{body: "k2\nk1"}); g.status/100 != 2 || !g.replayed() || len(seen) != 2 {
			t.Errorf("%d runs, %+v", len(seen), g)
		}
	})
}
