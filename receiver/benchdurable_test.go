package receiver

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/eyelet-dev/eyelet/dedup/badgerstore"
	"github.com/eyelet-dev/eyelet/producer"
	"github.com/eyelet-dev/eyelet/producer/preset"
)

// BenchmarkHandled measures the whole life of new events without network: 64 clients deliver them
// to a durable store, and it ends when the handler has run for each.
func BenchmarkHandled(b *testing.B) {
	const secret = "0123456789abcdef0123"
	store, err := badgerstore.Open(b.TempDir(), badgerstore.Options{Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		b.Fatal(err)
	}
	defer store.Close() //nolint:errcheck // the benchmark has ended
	var handled sync.WaitGroup
	handled.Add(b.N)
	rx, err := Open(Config{
		Store: store, Producers: []producer.Producer{preset.GitHub(secret)}, Logger: slog.New(slog.DiscardHandler),
		Handlers: []Handler{On("github", "*", func(context.Context, Event[[]byte]) error {
			handled.Done()
			return nil
		})},
	})
	if err != nil {
		b.Fatal(err)
	}
	h := rx.HTTP("github")
	var next atomic.Int64
	b.ReportAllocs()
	b.ResetTimer()
	var clients sync.WaitGroup
	for range 64 {
		clients.Go(func() {
			for n := next.Add(1); n <= int64(b.N); n = next.Add(1) {
				body := fmt.Appendf(make([]byte, 0, 1100), `{"action":"opened","n":%d,"pad":"%01000d"}`, n, n)
				r := httptest.NewRequest(http.MethodPost, "/webhooks/github", bytes.NewReader(body))
				r.Header.Set("Content-Type", "application/json")
				r.Header.Set("X-Github-Event", "push")
				r.Header.Set("X-Github-Delivery", fmt.Sprint("id", n))
				r.Header.Set("X-Hub-Signature-256", sign(secret, string(body)))
				w := httptest.NewRecorder()
				if h.ServeHTTP(w, r); w.Code != http.StatusOK {
					b.Error(w.Code, w.Body)
				}
			}
		})
	}
	clients.Wait()
	handled.Wait()
	if err := rx.Close(); err != nil {
		b.Error(err)
	}
}
