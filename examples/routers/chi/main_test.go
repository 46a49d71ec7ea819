package main

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/eyelet-dev/eyelet/dedup/memstore"
	"github.com/eyelet-dev/eyelet/producer"
	"github.com/eyelet-dev/eyelet/producer/preset"
	"github.com/eyelet-dev/eyelet/receiver"
)

const secret = "a long random secret"

// TestRoutes sends signed deliveries through the routes of the program: each function runs once,
// with the values of the router.
func TestRoutes(t *testing.T) {
	store := memstore.New(memstore.Options{})
	rx, err := receiver.Open(receiver.Config{
		Store: store, Logger: slog.New(slog.DiscardHandler),
		Producers: []producer.Producer{preset.GitHub(secret), named("stripe")},
		Handlers:  []receiver.Handler{receiver.Inline("github", "push")},
	})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _, _ = rx.Close(), store.Close() }()
	srv := httptest.NewServer(routes(rx))
	defer srv.Close()
	for _, row := range []struct {
		path, body, secret, want string
		status                   int
	}{
		{"/teams/a/github", `{"ref":"main"}`, "wrong", "signature_invalid", 401},
		{"/teams/a/other", `{"ref":"main"}`, secret, "", 404},
		{"/teams/a/github", `{"ref":"main"}`, secret, "main of team a", 200},
		{"/teams/b/github", `{"ref":"main"}`, secret, "main of team a", 200}, // a duplicate
		{"/teams/b/github", `{"ref":1}`, secret, "undecodable", 422},
		{"/api/webhooks/stripe", `{"ref":"x"}`, secret, "accepted", 200}, // below a prefix
		{"/webhooks/stripe", `{"ref":"x"}`, secret, "", 404},
	} {
		if status, body := deliver(t, srv.URL+row.path, row.body, row.secret); status != row.status ||
			!strings.Contains(body, row.want) {
			t.Errorf("%s: %d %s", row.path, status, body)
		}
	}
}

// named is a producer that signs like GitHub, under another name.
func named(name string) producer.Producer {
	p := preset.GitHub(secret)
	p.Name = name
	return p
}

func deliver(t *testing.T, url, body, key string) (int, string) {
	t.Helper()
	mac := hmac.New(sha256.New, []byte(key))
	mac.Write([]byte(body))
	r, err := http.NewRequest(http.MethodPost, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("X-GitHub-Event", "push")
	r.Header.Set("X-GitHub-Delivery", "1")
	r.Header.Set("X-Hub-Signature-256", "sha256="+hex.EncodeToString(mac.Sum(nil)))
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(text)
}
