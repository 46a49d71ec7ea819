package library

import (
	"context"
	"database/sql"
	"time"

	"github.com/eyelet-dev/eyelet/once"
	"github.com/eyelet-dev/eyelet/producer"
	"github.com/eyelet-dev/eyelet/receiver"
)

type payment struct {
	Account string
	Cents   int64
}

// credited credits each payment once, whatever happens between its effect and its outcome. The
// account and the table of marks are in the same database.
func credited(db *sql.DB) receiver.Handler {
	credit := func(ctx context.Context, tx *sql.Tx, ev receiver.Event[payment]) error {
		_, err := tx.ExecContext(ctx, "UPDATE account SET cents = cents + $2 WHERE id = $1",
			ev.Data.Account, ev.Data.Cents)
		return err
	}
	return once.On(once.SQL(db), "bank", "payment", credit)
}

type price struct {
	Article string `json:"article"`
	Cents   int64  `json:"cents"`
	Updated string `json:"updated"`
}

// priced sets the price of an article, never to an older one.
func priced(db *sql.DB) receiver.Handler {
	set := func(ctx context.Context, ev receiver.Event[price]) error {
		_, err := db.ExecContext(ctx, "UPDATE article SET cents = $2, version = $3 WHERE id = $1 AND version < $3",
			ev.Data.Article, ev.Data.Cents, ev.Version)
		return err
	}
	return receiver.On("shop", "price", set).Lane(producer.JSON("article")).Newest(producer.JSON("updated"))
}

type order struct {
	ID     string `json:"id"`
	Status string `json:"status"`
	Amount int    `json:"amount"`
}

// packs packs the orders that are paid and large enough.
func packs(pack func(order) error) (receiver.Handler, error) {
	paid, err := producer.ParseCondition(`json:status == "paid" and json:amount >= 99.5`)
	run := func(_ context.Context, ev receiver.Event[order]) error { return pack(ev.Data) }
	return receiver.On("shop", "order.*", run).When(paid), err
}

type parcel struct {
	Customer string `json:"customer"`
}

// shipped sends each parcel to a carrier that takes two calls at once and 100 in a minute. While it
// is down, its parcels wait, and one is tried now and then.
func shipped(send func(context.Context, parcel) error) receiver.Handler {
	h := receiver.On("shop", "parcel", func(ctx context.Context, ev receiver.Event[parcel]) error {
		return send(ctx, ev.Data)
	})
	return h.Named("carrier").Lane(producer.JSON("customer")).
		Concurrency(2).Rate(producer.Rate{Events: 100, Per: time.Minute, Burst: 5}).Breaker(5)
}
