package forward_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"time"

	"github.com/eyelet-dev/eyelet/cmd/eyelet/internal/forward"
)

// A busy target asks for a wait; the caller keeps the event and waits at least that long.
func ExampleTarget_Deliver() {
	busy := true
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Println("the target sees", r.Header.Get("Idempotency-Key"))
		if busy {
			w.Header().Set("Retry-After", "1")
			w.WriteHeader(http.StatusServiceUnavailable)
		}
		busy = false
	}))
	defer server.Close()
	target, err := forward.New(forward.Config{Name: "deploy", URL: server.URL})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer target.Close()

	event := forward.Event{Key: `"8e03978e"`, Body: []byte(`{"ref":"main"}`), Accepted: time.Now()}
	for range 2 {
		r := target.Deliver(context.Background(), event)
		fmt.Println(r.Outcome, r.Status, r.NotBefore)
	}
	// Output:
	// the target sees "8e03978e"
	// transient 503 1s
	// the target sees "8e03978e"
	// accepted 200 0s
}
