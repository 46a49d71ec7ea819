package receiver_test

import (
	"context"
	"fmt"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"time"

	"github.com/eyelet-dev/eyelet/dedup/memstore"
	"github.com/eyelet-dev/eyelet/producer"
	"github.com/eyelet-dev/eyelet/producer/preset"
	"github.com/eyelet-dev/eyelet/receiver"
)

// A program that receives GitHub's webhooks with net/http.
func Example() {
	pushed := make(chan string, 1)
	rx, err := receiver.Open(receiver.Config{
		Store:     memstore.New(memstore.Options{}), // badgerstore.Open("data") keeps events across restarts
		Producers: []producer.Producer{preset.GitHub(secret)},
		Handlers: []receiver.Handler{receiver.On("github", "push",
			func(_ context.Context, ev receiver.Event[Push]) error {
				pushed <- ev.Data.Ref
				return nil
			})},
	})
	if err != nil {
		log.Fatal(err)
	}
	defer func() { _ = rx.Close() }()
	mux := http.NewServeMux()
	mux.Handle("/webhooks/github", rx.HTTP("github"))
	mux.Handle("/policy", rx.Policy())
	// http.ListenAndServe("127.0.0.1:8080", mux)

	// GitHub delivers a push, and delivers it again.
	const guid = "72d3162e-cc78-11e3-81ab-4c9367dc0958"
	fmt.Println(replayed(deliver(rx, guid, "push", `{"ref":"refs/heads/main"}`)))
	fmt.Println(replayed(deliver(rx, guid, "push", `{"ref":"refs/heads/main"}`)))
	fmt.Println("pushed to", <-pushed)
	// Output:
	// 200 replayed: false
	// 200 replayed: true
	// pushed to refs/heads/main
}

// A program whose connections are bounded, with the timeouts that a server on the Internet needs.
func ExampleListen() {
	rx, err := receiver.Open(receiver.Config{
		Store:     memstore.New(memstore.Options{}),
		Producers: []producer.Producer{preset.GitHub(secret)},
	})
	if err != nil {
		log.Fatal(err)
	}
	defer func() { _ = rx.Close() }()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		log.Fatal(err)
	}
	bounded := receiver.Listen(ln, receiver.Limits{Connections: 1000, PerAddress: 100})
	srv := &http.Server{Handler: rx.Handler(), ReadHeaderTimeout: 10 * time.Second, IdleTimeout: 2 * time.Minute,
		MaxHeaderBytes: 16 << 10}
	go func() { _ = srv.Serve(bounded) }()
	defer func() { _ = srv.Close() }()

	resp, err := http.Get("http://" + ln.Addr().String() + "/policy")
	if err != nil {
		log.Fatal(err)
	}
	_ = resp.Body.Close()
	fmt.Println(resp.StatusCode, bounded.Stats().Closed.PerAddress, "closed")
	// Output:
	// 200 0 closed
}

func replayed(w *httptest.ResponseRecorder) string {
	return fmt.Sprintf("%d replayed: %v", w.Code, w.Header().Get("Idempotency-Replayed") == "true")
}
