package main

import (
	"context"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/eyelet-dev/eyelet/dedup/memstore"
	"github.com/eyelet-dev/eyelet/producer"
	"github.com/eyelet-dev/eyelet/receiver"
	"github.com/eyelet-dev/eyelet/verify"
)

const hopSecret = "hop-secret-0123456789"

// second is a receiver behind another one. Its handler ends when the test says so.
type second struct {
	url      string
	runs     atomic.Int32
	inFlight atomic.Int32 // deliveries that were answered 409
	finish   chan struct{}
}

func newSecond(t *testing.T) *second {
	t.Helper()
	s := &second{finish: make(chan struct{})}
	key, err := verify.NewHMACKey("hop", []byte(hopSecret))
	check(t, err)
	srv := httptest.NewUnstartedServer(nil)
	s.url = "http://" + srv.Listener.Addr().String()
	rx, err := receiver.Open(receiver.Config{
		URL: s.url, Store: memstore.New(memstore.Options{}),
		Producers:    []producer.Producer{producer.Signed("shop", verify.StaticKeys(key))},
		InFlightWait: time.Millisecond, RetryAfter: time.Millisecond, AnswerTimeout: time.Minute,
		Handlers: []receiver.Handler{receiver.Answer("shop", "*", func(context.Context,
			receiver.Event[[]byte]) (receiver.Response, error) {
			s.runs.Add(1)
			<-s.finish
			return receiver.Response{Status: 200}, nil
		})},
		Observe: func(_ context.Context, o receiver.Observation) {
			if o.Code == "in_flight" {
				s.inFlight.Add(1)
			}
		},
	})
	check(t, err)
	srv.Config.Handler = rx.HTTP("shop")
	srv.Start()
	t.Cleanup(func() { srv.Close(); _ = rx.Close() })
	return s
}

// TestTwoReceiversInARowLoseNoOutcome: the first one stops waiting while the second still runs its
// handler. The second answers 409 to the next attempt until it has an outcome, which becomes that
// of the event.
func TestTwoReceiversInARowLoseNoOutcome(t *testing.T) {
	t.Parallel()
	for _, mode := range []string{"relay", "store"} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			last := newSecond(t)
			file := configured(t, "limits: {backoff_base: 1ms, backoff_cap: 5ms, retry_after: 1s}\nhandlers:\n  - "+
				"{producer: gh, type: push, mode: "+mode+
				", timeout: 300ms, forward: \""+last.url+"/webhooks/shop\", sign: {id: hop, secret: "+hopSecret+"}}\n")
			r := launch(t, "serve", "--config", file)
			relays := func() bool {
				status, _ := pushOwn(t, r, "g-1")
				if status != 200 && status != 503 {
					t.Errorf("the first receiver answered %d", status)
				}
				return status == 200
			}
			if mode == "store" && !relays() {
				t.Error("the event was not accepted")
			}
			eventually(t, "the second receiver answers that it is in flight", func() bool {
				return (mode == "store" || !relays()) && last.inFlight.Load() > 0
			})
			close(last.finish)
			if mode == "relay" {
				eventually(t, "the outcome is relayed", relays)
			}
			eventually(t, "the event is done", func() bool { return strings.HasPrefix(state(t, file, "g-1"), "done") })
			if n := last.runs.Load(); n != 1 {
				t.Errorf("the handler behind both ran %d times", n)
			}
		})
	}
}
