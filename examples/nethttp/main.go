// Command nethttp is a webhook endpoint in a net/http program, for a producer of your own that
// signs with RFC 9421 and sends Idempotency-Key.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"log"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/eyelet-dev/eyelet/dedup/badgerstore"
	"github.com/eyelet-dev/eyelet/producer"
	"github.com/eyelet-dev/eyelet/receiver"
	"github.com/eyelet-dev/eyelet/verify"
)

// Order is the payload of the shop's events.
type Order struct {
	Number string
	Total  float64
}

// onOrder runs once for each order. Its response is stored, and repeated when the shop sends again.
func onOrder(w http.ResponseWriter, r *http.Request) {
	ev, err := receiver.EventOf[Order](r)
	if err == nil && ev.Data.Total < 0 {
		err = receiver.Reject(errors.New("a total below zero"))
	}
	if err != nil {
		receiver.Respond(r, receiver.Response{}, err)
		return
	}
	log.Printf("%s: order %s", ev.ID, ev.Data.Number)
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(map[string]string{"booked": ev.Data.Number})
}

func routes(rx *receiver.Receiver) *http.ServeMux {
	mux := http.NewServeMux()
	mux.Handle("POST /orders", rx.Verified("shop")(http.HandlerFunc(onOrder)))
	mux.Handle("GET /policy", rx.Policy())
	return mux
}

func run(ctx context.Context) error {
	key, err := verify.NewHMACKey("k1", []byte(os.Getenv("SHOP_SECRET")))
	if err != nil {
		return err
	}
	store, err := badgerstore.Open("data", badgerstore.Options{})
	if err != nil {
		return err
	}
	rx, err := receiver.Open(receiver.Config{
		Store:     store,
		URL:       "https://hooks.example",
		Producers: []producer.Producer{producer.Signed("shop", verify.StaticKeys(key))},
		Handlers:  []receiver.Handler{receiver.Inline("shop", "*")},
	})
	if err != nil {
		return errors.Join(err, store.Close())
	}
	srv := &http.Server{Addr: "127.0.0.1:8080", Handler: routes(rx), ReadHeaderTimeout: 10 * time.Second}
	served := make(chan error, 1)
	if err = rx.Bind(srv.Handler); err == nil {
		go func() { served <- srv.ListenAndServe() }()
		select {
		case err = <-served:
		case <-ctx.Done():
		}
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 30*time.Second)
	defer cancel()
	return errors.Join(err, rx.Shutdown(ctx), srv.Shutdown(ctx), store.Close())
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx); err != nil {
		log.Fatal(err)
	}
}
