package receiver

import (
	"context"
	"encoding/json"
	"fmt"
	"testing"

	"github.com/eyelet-dev/eyelet/dedup"
	"github.com/eyelet-dev/eyelet/producer"
)

func countingOn(c *counter) Handler {
	return On("shop", "*", func(context.Context, Event[json.RawMessage]) error { c.add(); return nil })
}

func TestNewEventIsAcceptedOnceAndItsAnswerRepeated(t *testing.T) {
	t.Parallel()
	contracts(t, func(t *testing.T, p producer.Producer) {
		runs := newCounter()
		s := serve(t, p, nil, countingOn(runs))
		want := map[producer.Contract]int{producer.API: 202, producer.Webhook: 200}[p.Contract]
		first := s.send(req{id: "k1", body: `{"n":1}`})
		if first.status != want || first.replayed() {
			t.Fatalf("first: %+v", first)
		}
		runs.await(t)
		again := s.send(req{id: "k1", body: `{"n":1}`})
		if again.status != want || !again.replayed() || again.body != first.body {
			t.Fatalf("again: %+v, first %+v", again, first)
		}
		if other := s.send(req{id: "k2", body: `{"n":2}`}); other.replayed() || other.body == first.body {
			t.Fatalf("other: %+v", other)
		}
		runs.await(t)
		recs := s.records()
		if len(recs) != 2 || runs.count() != 2 {
			t.Fatalf("%d records, %d runs", len(recs), runs.count())
		}
		if body := fmt.Sprintf("{\"event\":%q,\"status\":\"accepted\"}\n", recs[1].Event); first.body != body {
			t.Errorf("body %q, want %q", first.body, body)
		}
		if got := recs[1].Key; got != (dedup.Key{Principal: "shop", Endpoint: "shop", ID: "k1"}) {
			t.Errorf("key %+v", got)
		}
	})
}
