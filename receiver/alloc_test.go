//go:build !race

// Under the race detector a sync.Pool drops entries at random, so allocations cannot be counted.

package receiver

import (
	"bytes"
	"context"
	"io"
	"iter"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"time"

	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/noop"

	"github.com/eyelet-dev/eyelet/dedup"
	"github.com/eyelet-dev/eyelet/producer"
	"github.com/eyelet-dev/eyelet/producer/preset"
)

// instantStore accepts every claim and keeps nothing.
type instantStore struct {
	dedup.Store
	verdict  dedup.Verdict
	decision [1]dedup.Decision
}

func (s *instantStore) Claim(_ context.Context, claims ...dedup.Claim) ([]dedup.Decision, error) {
	s.decision[0] = dedup.Decision{Verdict: s.verdict, Record: dedup.Record{
		Key: claims[0].Key, Event: "0199c1a2b3c4d5e6f708192a3b4c5d6e", Response: claims[0].Response,
	}}
	return s.decision[:], nil
}

func (s *instantStore) Take(ctx context.Context, _ dedup.Want) ([]dedup.Work, error) {
	<-ctx.Done()
	return nil, ctx.Err()
}

func (s *instantStore) Notes(context.Context, string) iter.Seq2[dedup.Note, error] {
	return func(func(dedup.Note, error) bool) {}
}

func (s *instantStore) Guarantees() dedup.Guarantees { return dedup.Guarantees{} }

// discard is a response writer without memory.
type discard struct {
	header http.Header
	status int
}

func (w *discard) Header() http.Header             { return w.header }
func (w *discard) WriteHeader(status int)          { w.status = status }
func (w *discard) Write(p []byte) (int, error)     { return len(p), nil }
func (w *discard) SetReadDeadline(time.Time) error { return nil }

// deliveryAllocations returns how many allocations a delivery needs before and after the store,
// which answers with the verdict. The response has the status.
func deliveryAllocations(
	t *testing.T, tracer trace.Tracer, r *http.Request, body string, v dedup.Verdict, status int,
	change ...func(*Handler),
) float64 {
	t.Helper()
	store, p := &instantStore{verdict: v}, preset.GitHub(testSecret)
	h := On(p.Name, "*", func(context.Context, Event[[]byte]) error { return nil })
	for _, f := range change {
		f(&h)
	}
	rx, err := Open(Config{
		Store: store, Producers: []producer.Producer{p}, Logger: slog.New(slog.DiscardHandler),
		URL: "https://hooks.example.com", Tracer: tracer, Handlers: []Handler{h},
	})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := rx.Close(); err != nil {
			t.Error(err)
		}
	}()
	raw := []byte(body)
	text := bytes.NewReader(raw)
	r.Body, r.ContentLength = io.NopCloser(text), int64(len(body))
	w := &discard{header: http.Header{}}
	handler := rx.Handler()
	return testing.AllocsPerRun(100, func() {
		text.Reset(raw)
		clear(w.header)
		if handler.ServeHTTP(w, r); w.status != status {
			t.Fatal(w.status, w.header)
		}
	})
}

// TestAllocationsOfADelivery bounds what a request costs the garbage collector. The bounds may only
// fall.
func TestAllocationsOfADelivery(t *testing.T) {
	body := `{"action":"opened","text":"` + strings.Repeat("lorem ipsum ", 80) + `"}`
	for _, row := range []struct {
		name    string
		secret  string
		verdict dedup.Verdict
		status  int
		most    float64
		when    string // the condition of the handler
	}{
		{"new", testSecret, dedup.New, 200, 11, ""},
		{"known", testSecret, dedup.Known, 200, 12, ""},
		{"refused", "another secret of 24 bytes", 0, 401, 19, ""},
		{"new, with a condition", testSecret, dedup.New, 200, 11 + 2, `json:action == "opened"`},
		{"new, whose condition does not hold", testSecret, dedup.New, 200, 11 + 4, `json:action == "x"`},
		{"refused, with a condition", "another secret of 24 bytes", 0, 401, 19, `json:action == "opened"`},
	} {
		change := func(h *Handler) {
			if row.when != "" {
				*h = h.When(when(row.when))
			}
		}
		n := deliveryAllocations(t, nil, gitHubRequest(row.secret, body), body, row.verdict, row.status, change)
		if n > row.most {
			t.Errorf("%s: %v allocations, want at most %v", row.name, n, row.most)
		}
		t.Log(row.name, n)
	}
}

// TestTracerOff checks that a delivery without Config.Tracer allocates nothing for spans: one with
// a tracer that does nothing allocates more. The bound is that of TestAllocationsOfADelivery.
func TestTracerOff(t *testing.T) {
	body := `{"action":"opened"}`
	off := deliveryAllocations(t, nil, gitHubRequest(testSecret, body), body, dedup.New, 200)
	none := noop.NewTracerProvider().Tracer("")
	on := deliveryAllocations(t, none, gitHubRequest(testSecret, body), body, dedup.New, 200)
	if off > 11 || on <= off {
		t.Errorf("%v allocations without a tracer, want at most 11; %v with one", off, on)
	}
	t.Log(off, on)
}

// TestNoFenceAllocatesNothing checks that a handler with a lane allocates for Newest only if it has
// it. The bound is that of before there was a fence.
func TestNoFenceAllocatesNothing(t *testing.T) {
	body := `{"lane":"a","v":1}`
	count := func(change func(*Handler)) float64 {
		return deliveryAllocations(t, nil, gitHubRequest(testSecret, body), body, dedup.New, 200, change)
	}
	lane := func(h *Handler) { *h = h.Lane(producer.JSON("lane")) }
	none := count(lane)
	fence := count(func(h *Handler) { lane(h); *h = h.Newest(producer.JSON("v")) })
	if none > 13 || fence <= none {
		t.Errorf("%v allocations without a fence, want at most 13; %v with one", none, fence)
	}
}
