// Command postgres counts payments exactly, as one of several receivers that share a database:
//
//	postgres ADDRESS
//
// DATABASE_URL and BANK_SECRET are in its environment. docs/postgres.md shows it step by step, and
// run.sh starts two of it.
package main

import (
	"context"
	"errors"
	"log"
	"os"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/eyelet-dev/eyelet"
	"github.com/eyelet-dev/eyelet/dedup/pgstore"
	"github.com/eyelet-dev/eyelet/receiver"
)

type payment struct {
	Data struct{ Cents int64 }
}

// onPayment counts a payment. The count and the outcome of the event are one commit.
func onPayment(ctx context.Context, tx pgx.Tx, ev eyelet.Event[payment]) error {
	_, err := tx.Exec(ctx, "UPDATE counter SET payments = payments + 1, cents = cents + $1", ev.Data.Data.Cents)
	return err
}

func open(ctx context.Context) (*eyelet.Receiver, error) {
	store, err := pgstore.Open(ctx, os.Getenv("DATABASE_URL"), pgstore.Options{})
	if err != nil {
		return nil, err
	}
	rx, err := receiver.Open(eyelet.Config(
		eyelet.StandardWebhooks(os.Getenv("BANK_SECRET")),
		eyelet.Handle(receiver.OnTx("standard-webhooks", "payment", onPayment)),
		func(c *receiver.Config) {
			c.Store = store
			c.Lease = 5 * time.Second // after a crash, the other receiver takes over this much later
		},
	))
	if err != nil {
		return nil, errors.Join(err, store.Close())
	}
	return &eyelet.Receiver{Receiver: rx, Store: store}, nil
}

func main() {
	if len(os.Args) != 2 {
		log.Fatal("usage: postgres ADDRESS, such as 127.0.0.1:8091")
	}
	ctx := context.Background()
	rx, err := open(ctx)
	if err == nil {
		err = eyelet.Run(ctx, os.Args[1], rx)
	}
	if err != nil {
		log.Fatal(err)
	}
}
