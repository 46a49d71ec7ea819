package receiver

import (
	"bytes"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/eyelet-dev/eyelet/dedup"
	"github.com/eyelet-dev/eyelet/producer"
)

func TestADeliveryToAnUnknownPathIsLoggedWithTheNearestEndpoint(t *testing.T) {
	t.Parallel()
	log, all := &syncBuffer{}, &syncBuffer{}
	store := dedup.NewMemory(dedup.MemoryOptions{})
	shop, other := apiProducer(), apiProducer()
	other.Name = "github"
	rx, err := Open(Config{
		Store: store, Producers: []producer.Producer{shop, other}, URL: "https://hooks.example",
		Logger: slog.New(slog.NewMultiHandler(slog.NewTextHandler(log, nil),
			slog.NewTextHandler(all, &slog.HandlerOptions{Level: slog.LevelDebug}))),
	})
	if err != nil {
		t.Fatal(err)
	}
	send := func(method, target string) {
		w := httptest.NewRecorder()
		rx.Handler().ServeHTTP(w, httptest.NewRequest(method, target, bytes.NewReader(nil)))
		if w.Code != http.StatusNotFound {
			t.Errorf("%s: status %d", target, w.Code)
		}
	}
	for target, want := range map[string]string{
		"/webhooks/githb?key=s3cret": "/webhooks/github", "/api/webhooks/shop": "/webhooks/shop",
		"/webhook/shop": "/webhooks/shop", "/" + strings.Repeat("x", 9000): "/webhooks/",
	} {
		send(http.MethodPost, target)
		path, _, _ := strings.Cut(target[:min(len(target), maxLoggedPath)], "?")
		line := "code=not_found peer=192.0.2.1 method=POST path=" + path + " size=0 nearest=" + want
		if !strings.Contains(log.String(), line) {
			t.Errorf("no line %q in\n%s", line, log)
		}
	}
	send(http.MethodGet, "/favicon.ico")
	for range 20 {
		send(http.MethodGet, "/webhooks/githb?hub.challenge=s3cret")
	}
	if err := rx.Close(); err != nil {
		t.Fatal(err)
	}
	text := log.String()
	if n := strings.Count(text, "unknown path"); n != sampledLines+1 || strings.Contains(text, "favicon") ||
		strings.Contains(text, "s3cret") || !strings.Contains(text, "more=14 ") {
		t.Errorf("%d lines:\n%s", n, text)
	}
	if !strings.Contains(all.String(), "method=GET path=/favicon.ico") || strings.Contains(all.String(), "s3cret") {
		t.Errorf("at level DEBUG:\n%s", all)
	}
}
