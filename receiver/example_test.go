package receiver_test

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"log"
	"net/http"
	"net/http/httptest"
	"strings"

	"github.com/eyelet-dev/eyelet/dedup"
	"github.com/eyelet-dev/eyelet/producer"
	"github.com/eyelet-dev/eyelet/receiver"
)

// Push is the part of GitHub's push event that these programs need.
type Push struct{ Ref string }

func Example() {
	store := dedup.NewMemory(dedup.MemoryOptions{}) // badgerstore.Open("data") keeps events over restarts
	done := make(chan struct{})
	rx, err := receiver.Open(receiver.Config{
		Store:     store,
		Producers: []producer.Producer{producer.GitHub("a long random secret")}, // os.Getenv("GITHUB_SECRET")
		Handlers: []receiver.Handler{receiver.On("github", "push", func(_ context.Context, ev receiver.Event[Push]) error {
			fmt.Println("pushed to", ev.Data.Ref)
			close(done)
			return nil
		})},
	})
	if err != nil {
		log.Fatal(err)
	}
	defer func() { _ = rx.Close() }()
	http.Handle("/webhooks/github", rx.HTTP("github"))

	// GitHub delivers the same push twice.
	for range 2 {
		w := httptest.NewRecorder()
		http.DefaultServeMux.ServeHTTP(w, githubPush(`{"ref":"refs/heads/main"}`))
		fmt.Println(w.Code, "replayed:", w.Header().Get("Idempotency-Replayed") == "true")
		<-done
	}
	// Unordered output:
	// pushed to refs/heads/main
	// 200 replayed: false
	// 200 replayed: true
}

func ExampleAnswer() {
	rx, err := receiver.Open(receiver.Config{
		Store:     dedup.NewMemory(dedup.MemoryOptions{}),
		Producers: []producer.Producer{producer.GitHub("a long random secret")},
		Handlers: []receiver.Handler{receiver.Answer("github", "push",
			func(_ context.Context, ev receiver.Event[Push]) (receiver.Response, error) {
				return receiver.Response{Body: []byte(`{"deployed":"` + ev.Data.Ref + `"}`)}, nil
			})},
	})
	if err != nil {
		log.Fatal(err)
	}
	defer func() { _ = rx.Close() }()
	w := httptest.NewRecorder()
	rx.Handler().ServeHTTP(w, githubPush(`{"ref":"v1"}`))
	fmt.Println(w.Code, w.Body)
	// Output: 200 {"deployed":"v1"}
}

// githubPush is what GitHub sends.
func githubPush(body string) *http.Request {
	mac := hmac.New(sha256.New, []byte("a long random secret"))
	mac.Write([]byte(body))
	r := httptest.NewRequest(http.MethodPost, "/webhooks/github", strings.NewReader(body))
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("X-GitHub-Event", "push")
	r.Header.Set("X-GitHub-Delivery", "72d3162e-cc78-11e3-81ab-4c9367dc0958")
	r.Header.Set("X-Hub-Signature-256", "sha256="+hex.EncodeToString(mac.Sum(nil)))
	return r
}
