package receiver

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"

	"github.com/eyelet-dev/eyelet/dedup"
	"github.com/eyelet-dev/eyelet/dedup/badgerstore"
	"github.com/eyelet-dev/eyelet/producer"
	"github.com/eyelet-dev/eyelet/verify"
)

// anonymous is a scheme without key ids.
type anonymous struct{ testScheme }

func (s anonymous) Verify(r *http.Request, body func() ([]byte, error)) (verify.Identity, error) {
	id, err := s.testScheme.Verify(r, body)
	id.KeyID = ""
	return id, err
}

// TestHandlersMayChangeWhatTheyGet changes all that a handler gets while deliveries are answered.
// Neither the record, the next attempt nor what the description of the producer shares may change.
func TestHandlersMayChangeWhatTheyGet(t *testing.T) {
	t.Parallel()
	store, err := badgerstore.Open(t.TempDir(), badgerstore.Options{Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	p := webhookProducer()
	p.Scheme = anonymous{} // no attribute is added, which would need a copy in any case
	shared := map[string]string{"source": "till 7"}
	p.Attributes = func(*producer.Delivery) (map[string]string, error) { return shared, nil }
	var mu sync.Mutex
	runs := map[string]int{}
	change := func(_ context.Context, ev Event[[]byte]) error {
		if string(ev.Body) != "body "+ev.ID || ev.Attributes["source"] != "till 7" || ev.Header.Get("Type") != "t" {
			t.Errorf("%s, attempt %d: %q, %v, %v", ev.ID, ev.Attempt, ev.Body, ev.Attributes, ev.Header)
		}
		clear(ev.Body)
		clear(ev.Attributes)
		ev.Header["Type"][0] = "changed"
		clear(ev.Header)
		mu.Lock()
		defer mu.Unlock()
		if runs[ev.ID]++; ev.Attempt == 1 {
			return errBoom
		}
		return nil
	}
	rx, err := Open(Config{
		Store: store, Producers: []producer.Producer{p}, Logger: slog.New(slog.DiscardHandler), BackoffBase: 1,
		Handlers: []Handler{On("shop", "*", change).Named("one"), On("shop", "t", change).Named("two")},
	})
	if err != nil {
		t.Fatal(err)
	}
	srv := httptest.NewServer(rx.Handler())
	s := &site{t: t, rx: rx, srv: srv, p: p}
	const n = 40
	var clients sync.WaitGroup
	for i := range n {
		clients.Go(func() {
			for range 2 {
				id := fmt.Sprint(i)
				g, err := s.try(req{id: id, body: "body " + id, header: http.Header{"Type": {"t"}}})
				if err != nil || g.status != http.StatusOK {
					t.Errorf("%+v, %v", g, err)
				}
			}
		})
	}
	clients.Wait()
	srv.Close()
	waitFor(t, func() bool {
		stats, err := store.Stats(t.Context())
		return err == nil && stats.Pending+stats.Running == 0
	})
	if err := rx.Close(); err != nil {
		t.Error(err)
	}
	for r, err := range store.List(t.Context(), dedup.Filter{Body: true}) {
		if err != nil {
			t.Fatal(err)
		}
		if string(r.Payload.Body) != "body "+r.Key.ID || r.Payload.Attributes["source"] != "till 7" ||
			r.Payload.Header.Get("Type") != "t" || runs[r.Key.ID] != 4 {
			t.Errorf("%s: %d runs, %+v", r.Key.ID, runs[r.Key.ID], r.Payload)
		}
	}
	if len(runs) != n || shared["source"] != "till 7" {
		t.Errorf("%d events, %v", len(runs), shared)
	}
	if err := store.Close(); err != nil {
		t.Error(err)
	}
}
