package library

import (
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"

	"github.com/eyelet-dev/eyelet/internal/pgtest"
	"github.com/eyelet-dev/eyelet/once"
	"github.com/eyelet-dev/eyelet/producer"
	"github.com/eyelet-dev/eyelet/receiver"
	"github.com/eyelet-dev/eyelet/receiver/receivertest"
	"github.com/eyelet-dev/eyelet/verify"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

func TestAPaymentIsCreditedOnce(t *testing.T) {
	config, err := pgx.ParseConfig(pgtest.DSN(t))
	if err != nil {
		t.Fatal(err)
	}
	db := stdlib.OpenDB(*config)
	defer db.Close()
	for _, statement := range []string{
		once.SQL(db).Schema(), "DROP TABLE IF EXISTS account", "CREATE TABLE account (id text, cents int8)",
		"INSERT INTO account VALUES ('a', 100)",
	} {
		if _, err := db.ExecContext(t.Context(), statement); err != nil {
			t.Fatal(err)
		}
	}
	key, err := verify.NewHMACKey("k1", verify.GenerateSecret())
	if err != nil {
		t.Fatal(err)
	}
	rx := receivertest.New(t, receiver.Config{
		URL: "https://hooks.example", Producers: []producer.Producer{producer.Signed("bank", verify.StaticKeys(key))},
		Handlers: []receiver.Handler{credited(db)},
	})
	rx.Deliver("bank", "payment", payment{"a", 5}).Wait().Again().Wait()
	var cents int
	if err := db.QueryRowContext(t.Context(), "SELECT cents FROM account").Scan(&cents); err != nil || cents != 105 {
		t.Errorf("%d cents, %v", cents, err)
	}
}
