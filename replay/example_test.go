package replay_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"time"

	"github.com/eyelet-dev/eyelet/dedup"
	"github.com/eyelet-dev/eyelet/replay"
)

func ExampleSend() {
	receiver := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Println(r.Method, r.Host, r.RequestURI, r.Header.Get("X-GitHub-Event"))
	}))
	defer receiver.Close()
	rec, err := replay.Read("../testdata/github/01-push-new.http")
	if err != nil {
		fmt.Println(err)
		return
	}
	answer, err := replay.Send(context.Background(), rec, replay.Options{URL: receiver.URL})
	fmt.Println(answer.Status, err)
	// Output:
	// POST hooks.example /webhooks/github push
	// 200 <nil>
}

func ExampleExport() {
	rec, err := replay.Export(dedup.Record{
		Event: "3TQ5E2ZKDPZ7MCYVPSJ6GF5WQM", Key: dedup.Key{ID: "order-1"}, Accepted: time.Unix(1782635400, 0),
		Payload: dedup.Payload{
			Producer: "shop", Type: "order.paid", Method: "POST", Target: "/webhooks/shop",
			Header: http.Header{"Content-Type": {"application/json"}}, Body: []byte(`{"total":"7"}`),
		},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(strings.ReplaceAll(string(rec.Bytes()), "\r", ""))
	// Output:
	// # producer: shop
	// # now: 1782635400
	// # event: 3TQ5E2ZKDPZ7MCYVPSJ6GF5WQM
	// # id: order-1
	// # type: order.paid
	// # accepted: 2026-06-28T08:30:00Z
	// # attempt: 0
	// POST /webhooks/shop HTTP/1.1
	// Content-Type: application/json
	//
	// {"total":"7"}
}
