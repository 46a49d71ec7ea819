package receiver

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/eyelet-dev/eyelet/dedup"
	"github.com/eyelet-dev/eyelet/producer"
	"github.com/eyelet-dev/eyelet/producer/preset"
)

// BenchmarkDelivery measures deliveries without network and disk, new and repeated, compared
// with a handler that only reads the body.
func BenchmarkDelivery(b *testing.B) {
	const secret = "0123456789abcdef0123"
	body := bytes.Repeat([]byte("x"), 1024)
	field := sign(secret, string(body))
	// Every identifier has the same bytes, which must not count as replays.
	p := preset.GitHub(secret)
	p.SameSigned = producer.SameSignedOff
	store := dedup.NewMemory(dedup.MemoryOptions{})
	rx, err := Open(Config{
		Store: store, Producers: []producer.Producer{p}, Logger: slog.New(slog.DiscardHandler),
		Handlers: []Handler{On("github", "*", func(context.Context, Event[[]byte]) error { return nil })},
	})
	if err != nil {
		b.Fatal(err)
	}
	defer func() {
		if err := rx.Close(); err != nil {
			b.Error(err)
		}
	}()
	bare := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if _, err := io.ReadAll(r.Body); err != nil {
			b.Error(err)
		}
		w.WriteHeader(http.StatusOK)
	})
	for _, way := range []struct {
		name string
		h    http.Handler
		id   func(int) string
	}{
		{"bare", bare, func(i int) string { return fmt.Sprint(i) }},
		{"new", rx.HTTP("github"), func(i int) string { return fmt.Sprint(i) }},
		{"repeated", rx.HTTP("github"), func(int) string { return "same" }},
	} {
		b.Run(way.name, func(b *testing.B) {
			b.ReportAllocs()
			for i := range b.N {
				r := httptest.NewRequest(http.MethodPost, "/webhooks/github", bytes.NewReader(body))
				r.Header.Set("X-Github-Event", "push")
				r.Header.Set("X-Github-Delivery", fmt.Sprintf("%d-%s", b.N, way.id(i)))
				r.Header.Set("X-Hub-Signature-256", field)
				w := httptest.NewRecorder()
				if way.h.ServeHTTP(w, r); w.Code != http.StatusOK {
					b.Fatal(w.Code, w.Body)
				}
			}
		})
	}
}
