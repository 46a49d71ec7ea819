//go:build !race

// Under the race detector a sync.Pool drops entries at random, so allocations cannot be counted.

package receiver

import (
	"bytes"
	"context"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

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

func (s *instantStore) Take(ctx context.Context, _ int, _ int64, _ time.Duration) ([]dedup.Work, error) {
	<-ctx.Done()
	return nil, ctx.Err()
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

// deliveryAllocations returns how many allocations a delivery needs before and after the store.
func deliveryAllocations(t *testing.T, p producer.Producer, r *http.Request, body string, v dedup.Verdict) float64 {
	t.Helper()
	store := &instantStore{verdict: v}
	rx, err := Open(Config{
		Store: store, Producers: []producer.Producer{p}, Logger: slog.New(slog.DiscardHandler),
		URL:      "https://hooks.example.com",
		Handlers: []Handler{On(p.Name, "*", func(context.Context, Event[[]byte]) error { return nil })},
	})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := rx.Close(); err != nil {
			t.Error(err)
		}
	}()
	text := bytes.NewReader([]byte(body))
	r.Body, r.ContentLength = io.NopCloser(text), int64(len(body))
	w := &discard{header: http.Header{}}
	handler := rx.Handler()
	return testing.AllocsPerRun(100, func() {
		text.Reset([]byte(body))
		clear(w.header)
		if handler.ServeHTTP(w, r); w.status != http.StatusOK {
			t.Fatal(w.status, w.header)
		}
	})
}

func gitHubRequest(secret, body string) *http.Request {
	return &http.Request{
		Method: http.MethodPost, URL: &url.URL{Path: "/webhooks/github"}, RequestURI: "/webhooks/github",
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Host: "hooks.example.com", RemoteAddr: "192.0.2.1:40000",
		Header: http.Header{
			"User-Agent": {"GitHub-Hookshot/f2a3b4c"}, "Accept": {"*/*"}, "Content-Type": {"application/json"},
			"X-Github-Event": {"push"}, "X-Github-Delivery": {"72d3162e-cc78-11e3-81ab-4c9367dc0958"},
			"X-Hub-Signature-256": {sign(secret, body)},
		},
	}
}

// TestAllocationsOfADelivery bounds what a request costs the garbage collector. The bounds may only
// fall.
func TestAllocationsOfADelivery(t *testing.T) {
	const secret = "0123456789abcdef0123"
	body := `{"action":"opened","text":"` + strings.Repeat("lorem ipsum ", 80) + `"}`
	for _, row := range []struct {
		verdict dedup.Verdict
		most    float64
	}{{dedup.New, 24}, {dedup.Known, 25}} {
		n := deliveryAllocations(t, preset.GitHub(secret), gitHubRequest(secret, body), body, row.verdict)
		if n > row.most {
			t.Errorf("%s: %v allocations, want at most %v", row.verdict, n, row.most)
		}
		t.Log(row.verdict, n)
	}
}
