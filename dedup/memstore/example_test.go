package memstore_test

import (
	"context"
	"fmt"
	"time"

	"github.com/eyelet-dev/eyelet/dedup"
	"github.com/eyelet-dev/eyelet/dedup/memstore"
)

// An event is accepted once, handled by a worker, and known until its window ends.
func ExampleStore() {
	ctx := context.Background()
	store := memstore.New(memstore.Options{})
	defer store.Close()

	claim := dedup.Claim{
		Key:      dedup.Key{Principal: "shop", Endpoint: "orders", ID: "8e03978e"},
		Payload:  dedup.Payload{Type: "order.paid", Body: []byte(`{"order": 1}`)},
		Response: dedup.Response{Status: 202},
		Tasks:    []dedup.NewTask{{Handler: "ship"}},
	}
	for range 2 {
		decisions, err := store.Claim(ctx, claim)
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Println(decisions[0].Verdict, decisions[0].Record.Response.Status)
	}

	work, err := store.Take(ctx, dedup.Want{Tasks: 1, Bytes: 1 << 20, Lease: 30 * time.Second})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Printf("%s attempt %d: %s\n", work[0].Task().Handler, work[0].Task().Attempt, work[0].Record.Payload.Body)
	if err := store.Finish(ctx, work[0].Lease, dedup.Result{Kind: dedup.ResultDone}); err != nil {
		fmt.Println(err)
		return
	}
	record, err := store.Get(ctx, work[0].Record.Event)
	fmt.Println(record.State(), err)
	// Output:
	// new 202
	// known 202
	// ship attempt 1: {"order": 1}
	// done <nil>
}

// A handler that answers the request itself holds the claim. Its response is repeated to
// duplicates.
func ExampleStore_hold() {
	ctx := context.Background()
	store := memstore.New(memstore.Options{})
	defer store.Close()

	claim := dedup.Claim{
		Key:   dedup.Key{Principal: "shop", Endpoint: "quotes", ID: "q-1"},
		Tasks: []dedup.NewTask{{Handler: "quote"}},
		Hold:  true,
		Lease: 10 * time.Second,
	}
	ask := func() dedup.Decision {
		decisions, err := store.Claim(ctx, claim)
		if err != nil {
			fmt.Println(err)
			return dedup.Decision{}
		}
		d := decisions[0]
		fmt.Println(d.Verdict, d.Record.Tasks[0].State, d.Record.Tasks[0].Attempt, d.Record.Response.Status)
		return d
	}
	first := ask()
	ask() // a duplicate while the handler runs
	released := dedup.Result{Kind: dedup.ResultRelease, Err: "database is down"}
	if err := store.Finish(ctx, first.Lease, released); err != nil {
		fmt.Println(err)
	}
	second := ask()
	done := dedup.Result{Kind: dedup.ResultDone, Response: dedup.Response{Status: 200}}
	if err := store.Finish(ctx, second.Lease, done); err != nil {
		fmt.Println(err)
	}
	ask()
	// Output:
	// new running 1 0
	// known running 1 0
	// new running 2 0
	// known done 2 200
}

// Dead letters are listed, and an operator reopens them.
func ExampleStore_Reopen() {
	ctx := context.Background()
	store := memstore.New(memstore.Options{})
	defer store.Close()

	if _, err := store.Claim(ctx, dedup.Claim{
		Key:   dedup.Key{Principal: "shop", Endpoint: "orders", ID: "8e03978e"},
		Tasks: []dedup.NewTask{{Handler: "ship"}},
	}); err != nil {
		fmt.Println(err)
		return
	}
	work, err := store.Take(ctx, dedup.Want{Tasks: 1, Bytes: 1 << 20, Lease: 30 * time.Second})
	if err != nil {
		fmt.Println(err)
		return
	}
	dead := dedup.Result{Kind: dedup.ResultDead, Reason: "rejected", Err: "no such order"}
	if err := store.Finish(ctx, work[0].Lease, dead); err != nil {
		fmt.Println(err)
		return
	}
	for record, err := range store.List(ctx, dedup.Filter{States: []dedup.State{dedup.Dead}}) {
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Println(record.Key.ID, record.State(), record.Tasks[0].Err)
		reopened, err := store.Reopen(ctx, record.Event)
		fmt.Println(reopened.State(), err)
	}
	// Output:
	// 8e03978e dead no such order
	// pending <nil>
}
