package library

import (
	"cmp"
	"database/sql"
	"slices"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"

	"github.com/eyelet-dev/eyelet/dedup"
	"github.com/eyelet-dev/eyelet/internal/pgtest"
	"github.com/eyelet-dev/eyelet/once"
	"github.com/eyelet-dev/eyelet/producer"
	"github.com/eyelet-dev/eyelet/receiver"
	"github.com/eyelet-dev/eyelet/receiver/receivertest"
	"github.com/eyelet-dev/eyelet/verify"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

// database returns one on which the statements have run.
func database(t *testing.T, statements ...string) *sql.DB {
	t.Helper()
	config, err := pgx.ParseConfig(pgtest.DSN(t))
	if err != nil {
		t.Fatal(err)
	}
	db := stdlib.OpenDB(*config)
	t.Cleanup(func() { _ = db.Close() })
	for _, statement := range statements {
		if _, err := db.ExecContext(t.Context(), statement); err != nil {
			t.Fatal(err)
		}
	}
	return db
}

// opened returns a receiver with one handler, of a producer that signs.
func opened(t *testing.T, name string, h receiver.Handler) *receivertest.Receiver {
	t.Helper()
	key, err := verify.NewHMACKey("k1", verify.GenerateSecret())
	if err != nil {
		t.Fatal(err)
	}
	return receivertest.New(t, receiver.Config{
		URL: "https://hooks.example", Producers: []producer.Producer{producer.Signed(name, verify.StaticKeys(key))},
		Handlers: []receiver.Handler{h},
	})
}

func TestAPaymentIsCreditedOnce(t *testing.T) {
	db := database(t, once.SQL(new(sql.DB)).Schema(), "DROP TABLE IF EXISTS account",
		"CREATE TABLE account (id text, cents int8)", "INSERT INTO account VALUES ('a', 100)")
	rx := opened(t, "bank", credited(db))
	rx.Deliver("bank", "payment", payment{"a", 5}).Wait().Again().Wait()
	var cents int
	if err := db.QueryRowContext(t.Context(), "SELECT cents FROM account").Scan(&cents); err != nil || cents != 105 {
		t.Errorf("%d cents, %v", cents, err)
	}
}

// TestAPriceIsNeverReplacedByAnOlderOne delivers an older price last. The fence keeps it from
// running, and after a reset the database does not take it.
func TestAPriceIsNeverReplacedByAnOlderOne(t *testing.T) {
	db := database(t, "DROP TABLE IF EXISTS article", "CREATE TABLE article (id text, cents int8, version timestamptz)",
		"INSERT INTO article VALUES ('a', 0, '-infinity')")
	rx := opened(t, "shop", priced(db))
	cents := func() (n int) {
		if err := db.QueryRowContext(t.Context(), "SELECT cents FROM article").Scan(&n); err != nil {
			t.Fatal(err)
		}
		return n
	}
	rx.Deliver("shop", "price", price{"a", 300, "2026-01-03T10:00:00Z"}).Wait()
	rx.Deliver("shop", "price", price{"a", 200, "2026-01-02T10:00:00Z"}).Wait()
	if n := cents(); n != 300 {
		t.Errorf("%d cents", n)
	}
	none := func(string) (string, error) { return "", nil }
	for note, err := range rx.Store.Notes(t.Context(), dedup.SpaceFence) {
		if err = cmp.Or(err, rx.Store.ChangeNote(t.Context(), note.Key, none)); err != nil {
			t.Fatal(err)
		}
	}
	rx.Deliver("shop", "price", price{"a", 100, "2026-01-01T10:00:00Z"}).Wait()
	if n := cents(); n != 300 {
		t.Errorf("%d cents after a reset", n)
	}
}

func TestOnlyLargeOrdersThatArePaidArePacked(t *testing.T) {
	t.Parallel()
	var packed []string
	h, err := packs(func(o order) error { packed = append(packed, o.ID); return nil })
	if err != nil {
		t.Fatal(err)
	}
	rx := opened(t, "shop", h)
	for _, o := range []order{{"a", "open", 100}, {"b", "paid", 99}, {"c", "paid", 100}} {
		rx.Deliver("shop", "order.changed", o).Wait()
	}
	if !slices.Equal(packed, []string{"c"}) {
		t.Errorf("packed %q", packed)
	}
}
