package badgerstore_test

import (
	"context"
	"fmt"
	"log"
	"os"
	"time"

	"github.com/eyelet-dev/eyelet/dedup"
	"github.com/eyelet-dev/eyelet/dedup/badgerstore"
)

// Most programs open a store and pass it to receiver.Open. This example shows the life of an
// event in it.
func ExampleOpen() {
	dir, err := os.MkdirTemp("", "store-*")
	if err != nil {
		log.Fatal(err)
	}
	defer func() { _ = os.RemoveAll(dir) }()
	store, err := badgerstore.Open(dir, badgerstore.Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer func() { _ = store.Close() }()

	ctx := context.Background()
	claim := dedup.Claim{
		Key:     dedup.Key{Principal: "shop", Endpoint: "orders", ID: "order-1"},
		Payload: dedup.Payload{Body: []byte(`{"paid":true}`)},
		Tasks:   []dedup.NewTask{{Handler: "ship"}},
	}
	for range 2 {
		decisions, err := store.Claim(ctx, claim)
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(decisions[0].Verdict)
	}
	work, err := store.Take(ctx, dedup.Want{Tasks: 1, Bytes: 1 << 20, Lease: time.Minute})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("%s %s, attempt %d\n", work[0].Task().Handler, work[0].Record.Payload.Body, work[0].Task().Attempt)
	if err := store.Finish(ctx, work[0].Lease, dedup.Result{Kind: dedup.ResultDone}); err != nil {
		log.Fatal(err)
	}
	record, err := store.Get(ctx, work[0].Record.Event)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(record.State())
	// Output:
	// new
	// known
	// ship {"paid":true}, attempt 1
	// done
}
