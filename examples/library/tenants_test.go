package library

import (
	"context"
	"database/sql"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/eyelet-dev/eyelet/dedup/memstore"
	"github.com/eyelet-dev/eyelet/producer"
	"github.com/eyelet-dev/eyelet/producer/preset"
	"github.com/eyelet-dev/eyelet/receiver"
	"github.com/eyelet-dev/eyelet/verify"
)

func stripeOfShops(read func(ctx context.Context, shop string) (string, error)) producer.Producer {
	return producer.Tenants{
		With: preset.Stripe,
		Lookup: func(ctx context.Context, shop string) ([]verify.Secret, error) {
			secret, err := read(ctx, shop)
			if errors.Is(err, sql.ErrNoRows) {
				return nil, producer.ErrNoTenant // any other error: the database is down
			}
			return verify.Secrets(secret), err
		},
	}.Producer()
}

func TestEachShopHasItsSecret(t *testing.T) {
	t.Parallel()
	read := func(_ context.Context, shop string) (string, error) {
		if shop != "acme" {
			return "", sql.ErrNoRows
		}
		return "whsec_of_acme", nil
	}
	rx, err := receiver.Open(receiver.Config{
		Store: memstore.New(memstore.Options{}), Producers: []producer.Producer{stripeOfShops(read)},
	})
	if err != nil {
		t.Fatal(err)
	}
	defer rx.Close() //nolint:errcheck // nothing is in flight
	for path, want := range map[string]int{
		"/webhooks/stripe/acme": 401, "/webhooks/stripe/none": 404, "/webhooks/stripe": 404,
	} {
		w := httptest.NewRecorder()
		r := httptest.NewRequest(http.MethodPost, path, strings.NewReader("{}"))
		r.Header.Set("Content-Type", "application/json")
		if rx.Handler().ServeHTTP(w, r); w.Code != want {
			t.Errorf("%s: %d, want %d", path, w.Code, want)
		}
	}
}
