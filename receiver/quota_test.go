package receiver

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/dunglas/httpsfv"

	"github.com/eyelet-dev/eyelet/dedup"
	"github.com/eyelet-dev/eyelet/producer"
)

// rateFields parses both fields as structured fields and returns the parameters of their only
// item.
func rateFields(t *testing.T, g got) (policy, state *httpsfv.Params) {
	t.Helper()
	var params []*httpsfv.Params
	for _, name := range []string{"RateLimit-Policy", "RateLimit"} {
		list, err := httpsfv.UnmarshalList(g.header.Values(name))
		if err != nil || len(list) != 1 {
			t.Fatalf("%s: %v, %v in %v", name, list, err, g.header)
		}
		it, ok := list[0].(httpsfv.Item)
		if !ok || it.Value != "default" {
			t.Fatalf("%s: %v", name, list[0])
		}
		params = append(params, it.Params)
	}
	return params[0], params[1]
}

func number(t *testing.T, p *httpsfv.Params, name string) int64 {
	t.Helper()
	v, _ := p.Get(name)
	n, ok := v.(int64)
	if !ok {
		t.Fatalf("%s is %v", name, v)
	}
	return n
}

func TestDeliveriesOverTheRateGetRetryAfter(t *testing.T) {
	t.Parallel()
	contracts(t, func(t *testing.T, p producer.Producer) {
		p.Rate = producer.Rate{Events: 3, Per: time.Hour}
		s := serve(t, p, nil)
		for i := range 3 {
			if g := s.send(req{id: fmt.Sprint("k", i), body: fmt.Sprint(i)}); g.status/100 != 2 || g.replayed() {
				t.Fatalf("%+v", g)
			}
		}
		for _, id := range []string{"new", "k0"} { // the store is not asked, so duplicates are refused too
			g := s.send(req{id: id})
			wantProblem(t, g, 429, "rate_limited")
			policy, state := rateFields(t, g)
			if number(t, policy, "q") != 3 || number(t, policy, "w") != 3600 || number(t, state, "r") != 0 {
				t.Errorf("%v", g.header)
			}
			reset := number(t, state, "t")
			if after, err := strconv.ParseInt(g.header.Get("Retry-After"), 10, 64); err != nil || reset < 1 ||
				reset > 1200 || after < reset {
				t.Errorf("%v: Retry-After before the reset, or no reset", g.header)
			}
			var body struct {
				Violated []string `json:"violated-policies"`
			}
			if err := json.Unmarshal([]byte(g.body), &body); err != nil || len(body.Violated) != 1 ||
				body.Violated[0] != "default" {
				t.Errorf("%s: %v", g.body, err)
			}
			if g.header.Get("RateLimit-Limit") != "" {
				t.Error("a field of older drafts")
			}
		}
		if n := len(s.records()); n != 3 {
			t.Errorf("%d records", n)
		}
	})
}

func TestOnlyNewEventsOfTheProducerUseItsRate(t *testing.T) {
	t.Parallel()
	contracts(t, func(t *testing.T, p producer.Producer) {
		p.Rate = producer.Rate{Events: 2, Per: time.Hour}
		s := serve(t, p, nil)
		for range 5 { // a forged delivery, and a captured one
			wantProblem(t, s.send(req{id: "x", header: map[string][]string{"Sig": {"signature_mismatch"}}}), 401,
				"signature_invalid")
			if g := s.send(req{id: "k1", body: "1"}); g.status/100 != 2 {
				t.Fatalf("%+v", g)
			}
			if p.Contract == producer.Webhook {
				s.send(req{id: "another", body: "1"}) // the captured bytes under an unsigned identifier
			}
			s.send(req{id: "k1", body: "another"})
		}
		if g := s.send(req{id: "k2", body: "2"}); g.status/100 != 2 || g.replayed() {
			t.Fatalf("%+v", g)
		}
		wantProblem(t, s.send(req{id: "k3", body: "3"}), 429, "rate_limited")
	})
}

func TestEventsThatTheStoreDoesNotTakeUseNoRate(t *testing.T) {
	t.Parallel()
	contracts(t, func(t *testing.T, p producer.Producer) {
		p.Rate = producer.Rate{Events: 2, Per: time.Hour}
		broken := &brokenStore{claim: dedup.ErrClosed}
		s := serve(t, p, func(c *Config) { broken.Store, c.Store = c.Store, broken })
		for range 5 {
			wantProblem(t, s.send(req{id: "k1", body: "1"}), 503, "store_unavailable")
		}
		broken.claim = nil
		for _, id := range []string{"k1", "k2"} {
			if g := s.send(req{id: id, body: id}); g.status/100 != 2 || g.replayed() {
				t.Errorf("%+v", g)
			}
		}
		wantProblem(t, s.send(req{id: "k3", body: "3"}), 429, "rate_limited")
	})
}

func TestBatchCountsItsEvents(t *testing.T) {
	t.Parallel()
	p := webhookProducer()
	p.Rate = producer.Rate{Events: 3, Per: time.Hour}
	p.Split = func(d *producer.Delivery) ([]producer.Item, error) {
		var items []producer.Item
		for i := range len(d.Body) {
			items = append(items, producer.Item{ID: string(d.Body[i : i+1]), Body: d.Body[i : i+1]})
		}
		return items, nil
	}
	s := serve(t, p, nil)
	if g := s.send(req{body: "ab"}); g.status != 200 {
		t.Fatalf("%+v", g)
	}
	g := s.send(req{body: "cd"})
	wantProblem(t, g, 429, "rate_limited")
	if _, state := rateFields(t, g); number(t, state, "r") != 1 {
		t.Errorf("%v", g.header)
	}
	if g := s.send(req{body: "e"}); g.status != 200 {
		t.Errorf("%+v", g)
	}
}

func TestDeliveriesAtOnceAreBounded(t *testing.T) {
	t.Parallel()
	contracts(t, func(t *testing.T, p producer.Producer) {
		p.Concurrency = 2
		runs, release := newCounter(), make(chan struct{})
		s := serve(t, p, func(c *Config) { c.AnswerTimeout = 20 * time.Millisecond },
			Answer("shop", "*", func(context.Context, Event[[]byte]) (Response, error) {
				runs.add()
				<-release
				return Response{}, nil
			}))
		open := sync.OnceFunc(func() { close(release) })
		defer open() // else the receiver cannot close
		// The producers no longer wait, but the handlers still hold their slots.
		for _, id := range []string{"k1", "k2"} {
			wantProblem(t, s.send(req{id: id, body: id}), 503, "answer_timeout")
		}
		wantProblem(t, s.send(req{id: "k3", body: "3"}), 503, "at_capacity")
		wantProblem(t, s.send(req{id: "k3", header: map[string][]string{"Sig": {"signature_mismatch"}}}), 401,
			"signature_invalid")
		open()
		waitFor(t, func() bool { return s.send(req{id: "k3", body: "3"}).status/100 == 2 })
		if runs.count() != 3 {
			t.Errorf("%d runs", runs.count())
		}
	})
}
