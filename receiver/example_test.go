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
	mux := http.NewServeMux()
	mux.Handle("/webhooks/github", rx.HTTP("github"))

	// GitHub delivers the same push twice.
	for range 2 {
		w := httptest.NewRecorder()
		mux.ServeHTTP(w, githubPush(`{"ref":"refs/heads/main"}`))
		fmt.Println(w.Code, "replayed:", w.Header().Get("Idempotency-Replayed") == "true")
		<-done
	}
	// Unordered output:
	// pushed to refs/heads/main
	// 200 replayed: false
	// 200 replayed: true
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
