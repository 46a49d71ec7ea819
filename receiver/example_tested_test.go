package receiver_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"time"

	"github.com/eyelet-dev/eyelet/dedup/memstore"
	"github.com/eyelet-dev/eyelet/producer"
	"github.com/eyelet-dev/eyelet/producer/preset"
	"github.com/eyelet-dev/eyelet/receiver"
	"github.com/eyelet-dev/eyelet/verify"
)

// Order is the shop's event.
type Order struct {
	Type  string `json:"type"`
	Total int    `json:"total"`
}

// ship is the handler under test.
func ship(_ context.Context, ev receiver.Event[Order]) error {
	if ev.Data.Total < 0 {
		return receiver.Reject(errors.New("a total below zero"))
	}
	return nil
}

// To test a handler, send signed requests to a receiver with a store in memory, and wait for the
// attempts that Observe reports. A [verify.Signer] signs like a producer of your own.
func Example_test() {
	secret := verify.GenerateSecret()
	key, err := verify.NewHMACKey("k1", secret)
	if err != nil {
		log.Fatal(err) // in a test: t.Fatal(err)
	}
	attempts := make(chan receiver.Observation, 1)
	rx, err := receiver.Open(receiver.Config{
		Store:     memstore.New(memstore.Options{}),
		URL:       "https://hooks.example",
		Producers: []producer.Producer{producer.Signed("shop", verify.StaticKeys(key))},
		Handlers:  []receiver.Handler{receiver.On("shop", "order.*", ship)},
		Logger:    slog.New(slog.DiscardHandler),
		Observe: func(_ context.Context, o receiver.Observation) {
			if o.Kind == "attempt" {
				attempts <- o
			}
		},
	})
	if err != nil {
		log.Fatal(err)
	}
	defer rx.Close() //nolint:errcheck // in a test: t.Cleanup

	// order is a delivery of the shop, signed for its URL. It must be a client's request: that of
	// httptest is a server's, without a URL to sign.
	order := func(id, body string) *http.Request {
		r, err := http.NewRequestWithContext(context.Background(), http.MethodPost,
			"https://hooks.example/webhooks/shop", strings.NewReader(body))
		if err != nil {
			log.Fatal(err)
		}
		r.Header.Set("Content-Type", "application/json")
		r.Header.Set("Idempotency-Key", `"`+id+`"`)
		signer := verify.Signer{KeyID: "k1", Secret: secret}
		if err := signer.Sign(r, []byte(body), time.Now()); err != nil {
			log.Fatal(err)
		}
		return r
	}
	for _, r := range []*http.Request{
		order("o-1", `{"type":"order.paid","total":129}`),
		order("o-2", `{"type":"order.paid","total":-1}`),
	} {
		w := httptest.NewRecorder()
		rx.HTTP("shop").ServeHTTP(w, r)
		o := <-attempts
		fmt.Printf("%d %s: %v %q\n", w.Code, o.ID, o.State, o.Reason)
	}
	// Output:
	// 202 o-1: done ""
	// 202 o-2: dead "rejected"
}

// For a vendor with a preset, a sample makes the signed request.
func Example_testWithAPreset() {
	secrets := preset.Settings{Secrets: []string{secret}}
	github, _ := preset.Find("github")
	pushes := make(chan string, 1)
	rx, err := receiver.Open(receiver.Config{
		Store:     memstore.New(memstore.Options{}),
		Producers: []producer.Producer{github.Open(secrets)},
		Handlers: []receiver.Handler{receiver.On("github", "push",
			func(_ context.Context, ev receiver.Event[Push]) error {
				pushes <- ev.Data.Ref
				return nil
			})},
		Logger: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		log.Fatal(err)
	}
	defer rx.Close() //nolint:errcheck // in a test: t.Cleanup

	r, _, err := github.Sample(secrets, "https://hooks.example/webhooks/github", "push", "d-1", time.Now())
	if err != nil {
		log.Fatal(err)
	}
	w := httptest.NewRecorder()
	rx.HTTP("github").ServeHTTP(w, r)
	fmt.Println(w.Code, <-pushes)
	// Output:
	// 200 refs/heads/main
}
