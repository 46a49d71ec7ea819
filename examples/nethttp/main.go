// Command nethttp is a webhook endpoint in a net/http program, for a producer of your own that
// signs with RFC 9421 and sends Idempotency-Key.
package main

import (
	"context"
	"errors"
	"log"
	"net/http"
	"os"

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

func onOrder(_ context.Context, ev receiver.Event[Order]) error {
	if ev.Data.Total < 0 {
		return receiver.Reject(errors.New("a total below zero"))
	}
	log.Printf("%s: order %s", ev.ID, ev.Data.Number)
	return nil
}

func main() {
	key, err := verify.NewHMACKey("k1", []byte(os.Getenv("SHOP_SECRET")))
	if err != nil {
		log.Fatal(err)
	}
	store, err := badgerstore.Open("data", badgerstore.Options{})
	if err != nil {
		log.Fatal(err)
	}
	rx, err := receiver.Open(receiver.Config{
		Store:     store,
		URL:       "https://hooks.example",
		Producers: []producer.Producer{producer.Signed("shop", verify.StaticKeys(key))},
		Handlers:  []receiver.Handler{receiver.On("shop", "order.*", onOrder)},
	})
	if err != nil {
		log.Fatal(err)
	}
	http.Handle("/webhooks/shop", rx.HTTP("shop"))
	err = http.ListenAndServe("127.0.0.1:8080", nil)
	log.Print(err, rx.Close(), store.Close())
}
