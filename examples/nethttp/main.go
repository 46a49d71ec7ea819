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
	"time"

	"github.com/eyelet-dev/eyelet"
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

func main() {
	key, err := verify.NewHMACKey("k1", []byte(os.Getenv("SHOP_SECRET")))
	if err != nil {
		log.Fatal(err)
	}
	rx, err := eyelet.Open("data",
		eyelet.URL("https://hooks.example"),
		eyelet.From(producer.Signed("shop", verify.StaticKeys(key))),
		eyelet.Handle(receiver.Inline("shop", "*")),
	)
	if err == nil {
		srv := &http.Server{Addr: "127.0.0.1:8080", Handler: routes(rx.Receiver), ReadHeaderTimeout: 10 * time.Second}
		err = eyelet.Serve(context.Background(), srv, rx)
	}
	if err != nil {
		log.Fatal(err)
	}
}
