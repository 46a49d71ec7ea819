package receiver_test

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
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
)

const secret = "a secret that GitHub was given"

// deliver sends a delivery signed like GitHub's, and returns the response.
func deliver(rx *receiver.Receiver, id, typ, body string) *httptest.ResponseRecorder {
	mac := hmac.New(sha256.New, []byte(secret))
	mac.Write([]byte(body))
	r := httptest.NewRequest(http.MethodPost, "http://hooks.example/webhooks/github", strings.NewReader(body))
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("X-GitHub-Delivery", id)
	r.Header.Set("X-GitHub-Event", typ)
	r.Header.Set("X-Hub-Signature-256", "sha256="+hex.EncodeToString(mac.Sum(nil)))
	w := httptest.NewRecorder()
	rx.HTTP("github").ServeHTTP(w, r)
	return w
}

// open opens a receiver for GitHub with one handler. The channel gets the outcomes.
func open(h receiver.Handler) (*receiver.Receiver, <-chan string) {
	outcomes := make(chan string, 16)
	rx, err := receiver.Open(receiver.Config{
		Store:     memstore.New(memstore.Options{}),
		Producers: []producer.Producer{preset.GitHub(secret)},
		Handlers:  []receiver.Handler{h},
		Logger:    slog.New(slog.DiscardHandler),
		Observe: func(_ context.Context, o receiver.Observation) {
			if o.Kind == "attempt" {
				outcomes <- strings.TrimSpace(fmt.Sprintf("attempt %d: %v %s", o.Attempt, o.State, o.Reason))
			}
		},
	})
	if err != nil {
		log.Fatal(err)
	}
	return rx, outcomes
}

// Push is the part of a push event that the handlers need.
type Push struct {
	Ref string `json:"ref"`
}

func ExampleOn() {
	pushes := make(chan string)
	rx, err := receiver.Open(receiver.Config{
		Store:     memstore.New(memstore.Options{}),
		Producers: []producer.Producer{preset.GitHub(secret)},
		Handlers: []receiver.Handler{
			receiver.On("github", "push", func(_ context.Context, ev receiver.Event[Push]) error {
				pushes <- ev.VendorID + " pushed to " + ev.Data.Ref
				return nil
			}),
		},
	})
	if err != nil {
		log.Fatal(err)
	}
	defer rx.Close()

	fmt.Println(deliver(rx, "d-1", "push", `{"ref": "main"}`).Code)
	fmt.Println(<-pushes)
	again := deliver(rx, "d-1", "push", `{"ref": "main"}`)
	fmt.Println(again.Code, "replayed:", again.Header().Get("Idempotency-Replayed"))
	// Output:
	// 200
	// d-1 pushed to main
	// 200 replayed: true
}

func ExampleAnswer() {
	rx, _ := open(receiver.Answer("github", "push",
		func(_ context.Context, ev receiver.Event[Push]) (receiver.Response, error) {
			return receiver.Response{Body: []byte(`{"deployed": "` + ev.Data.Ref + `"}`)}, nil
		}))
	defer rx.Close()

	fmt.Println(deliver(rx, "d-1", "push", `{"ref": "main"}`).Body)
	fmt.Println(deliver(rx, "d-1", "push", `{"ref": "main"}`).Body)
	// Output:
	// {"deployed": "main"}
	// {"deployed": "main"}
}

func ExampleReject() {
	rx, outcomes := open(receiver.On("github", "push", func(_ context.Context, ev receiver.Event[Push]) error {
		if !strings.HasPrefix(ev.Data.Ref, "refs/") {
			return receiver.Reject(errors.New("not a ref"))
		}
		return nil
	}))
	defer rx.Close()

	deliver(rx, "d-1", "push", `{"ref": "main"}`)
	fmt.Println(<-outcomes)
	// Output:
	// attempt 1: dead rejected
}

func ExamplePostpone() {
	rx, outcomes := open(receiver.On("github", "push", func(_ context.Context, ev receiver.Event[Push]) error {
		if ev.Attempt == 1 {
			return receiver.Postpone(20*time.Millisecond, errors.New("the shop is closed"))
		}
		return nil
	}))
	defer rx.Close()

	deliver(rx, "d-1", "push", `{"ref": "main"}`)
	fmt.Println(<-outcomes)
	fmt.Println(<-outcomes)
	// Output:
	// attempt 1: pending postponed
	// attempt 2: done
}

func ExampleHandler_With() {
	logging := func(out io.Writer) func(receiver.Next) receiver.Next {
		return func(next receiver.Next) receiver.Next {
			return func(ctx context.Context, ev receiver.Event[any]) (*receiver.Response, error) {
				fmt.Fprintln(out, "begin", ev.Type, ev.VendorID, "attempt", ev.Attempt)
				resp, err := next(ctx, ev)
				fmt.Fprintln(out, "end", ev.Type, ev.VendorID, "error:", err)
				return resp, err
			}
		}
	}
	var trace strings.Builder
	rx, outcomes := open(receiver.On("github", "push", func(_ context.Context, ev receiver.Event[Push]) error {
		fmt.Fprintln(&trace, "deploy", ev.Data.Ref)
		return nil
	}).With(logging(&trace)))
	defer rx.Close()

	deliver(rx, "d-1", "push", `{"ref": "main"}`)
	<-outcomes
	fmt.Print(trace.String())
	// Output:
	// begin push d-1 attempt 1
	// deploy main
	// end push d-1 error: <nil>
}

func ExampleHandler_Otherwise() {
	ran := make(chan string)
	show := func(what string) func(context.Context, receiver.Event[[]byte]) error {
		return func(_ context.Context, ev receiver.Event[[]byte]) error { ran <- what + " " + ev.Type; return nil }
	}
	rx, err := receiver.Open(receiver.Config{
		Store:     memstore.New(memstore.Options{}),
		Producers: []producer.Producer{preset.GitHub(secret)},
		Handlers: []receiver.Handler{
			receiver.On("github", "push", show("deploy on")),
			receiver.On("github", "*", show("note")).Otherwise(),
		},
	})
	if err != nil {
		log.Fatal(err)
	}
	defer rx.Close()

	deliver(rx, "d-1", "push", `{"ref": "main"}`)
	fmt.Println(<-ran)
	deliver(rx, "d-2", "star", `{"action": "created"}`)
	fmt.Println(<-ran)
	// Output:
	// deploy on push
	// note star
}
