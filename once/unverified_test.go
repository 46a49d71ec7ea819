package once_test

import (
	"context"
	"database/sql"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/eyelet-dev/eyelet/dedup"
	"github.com/eyelet-dev/eyelet/dedup/memstore"
	"github.com/eyelet-dev/eyelet/once"
	"github.com/eyelet-dev/eyelet/producer"
	"github.com/eyelet-dev/eyelet/receiver"
	"github.com/eyelet-dev/eyelet/verify"
)

// TestUnverifiedEventsRunOnceOnlyWhereTheHandlerTakesThem counts the tasks of an unverified event.
func TestUnverifiedEventsRunOnceOnlyWhereTheHandlerTakesThem(t *testing.T) {
	t.Parallel()
	h := once.On(once.SQL(new(sql.DB)), "shop", "*", func(context.Context, *sql.Tx, receiver.Event[[]byte]) error {
		return nil
	}).Named("h")
	for want, h := range []receiver.Handler{h, h.Unverified(true)} {
		store := memstore.New(memstore.Options{})
		scheme := &verify.HMAC{Headers: []string{"X-Sig"}, Encoding: verify.Hex,
			Secrets: verify.Secrets("a secret that is long enough")}
		rx, err := receiver.Open(receiver.Config{
			Store: store, Handlers: []receiver.Handler{h}, Logger: slog.New(slog.DiscardHandler),
			Producers: []producer.Producer{{Name: "shop", Contract: producer.Webhook, Scheme: scheme,
				Key: producer.BodyDigest(), MonitorUntil: time.Now().Add(time.Hour)}},
		})
		if err != nil {
			t.Fatal(err)
		}
		if err := rx.Pause(t.Context(), "h", "its database is not one"); err != nil {
			t.Fatal(err)
		}
		w, r := httptest.NewRecorder(), httptest.NewRequest(http.MethodPost, "/webhooks/shop", strings.NewReader("x"))
		r.Header.Set("X-Sig", "00")
		if rx.Handler().ServeHTTP(w, r); w.Code != http.StatusOK {
			t.Error(w.Code, w.Body)
		}
		for rec, err := range store.List(t.Context(), dedup.Filter{}) {
			if err != nil || len(rec.Tasks) != want {
				t.Errorf("%d tasks, want %d: %v", len(rec.Tasks), want, err)
			}
		}
		if err := rx.Close(); err != nil {
			t.Error(err)
		}
	}
}
