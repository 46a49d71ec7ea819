package server

import (
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/eyelet-dev/eyelet/cmd/eyelet/internal/refused"
	"github.com/eyelet-dev/eyelet/dedup/memstore"
	"github.com/eyelet-dev/eyelet/producer"
	"github.com/eyelet-dev/eyelet/producer/preset"
	"github.com/eyelet-dev/eyelet/receiver"
	"github.com/eyelet-dev/eyelet/verify"
)

// TestOffsetsOfOtherDeliveries delivers an accepted event, one with a wrong signature, and two
// whose time is off.
func TestOffsetsOfOtherDeliveries(t *testing.T) {
	t.Parallel()
	now := time.Now().Truncate(time.Second)
	p := preset.Stripe("whsec_live_live_live")
	ring, err := refused.New(refused.Options{For: time.Hour, Log: slog.New(slog.DiscardHandler)})
	check(t, err)
	defer ring.Close() //nolint:errcheck // it has no files
	c := receiver.Config{
		Store: memstore.New(memstore.Options{}), Producers: []producer.Producer{p}, Refused: ring.Add,
		URL: "https://hooks.example", Logger: slog.New(slog.DiscardHandler),
		Clock: func() time.Time { return now },
	}
	s := newSignedTimes(c.Store, ring, &c)
	rx, err := receiver.Open(c)
	check(t, err)
	defer s.store.Close() //nolint:errcheck // it never fails
	defer rx.Close()      //nolint:errcheck // nothing runs
	signer, _ := p.Scheme.(interface {
		Sign(r *http.Request, body []byte, now time.Time) error
	})
	deliver := func(id, sent string, age time.Duration) int {
		now = now.Add(time.Second)
		body := `{"id":"` + id + `","type":"invoice.paid"}`
		r := httptest.NewRequest(http.MethodPost, "https://hooks.example/webhooks/stripe", strings.NewReader(sent+body))
		r.Header.Set("Content-Type", "application/json")
		check(t, signer.Sign(r, []byte(body), now.Add(-age)))
		w := httptest.NewRecorder()
		rx.Handler().ServeHTTP(w, r)
		return w.Code
	}
	got := []int{
		deliver("evt_1", "", 2*time.Second), deliver("evt_2", " ", 0), deliver("evt_3", "", time.Hour),
		deliver("evt_4", "", 2*time.Hour),
	}
	if want := []int{200, 401, 401, 401}; !slices.Equal(got, want) {
		t.Fatalf("statuses %v, want %v", got, want)
	}
	last, _ := ring.Kept(ring.Refused()[0].Number)
	offsets := s.offsets(t.Context(), &last)
	for i := range offsets {
		offsets[i] = offsets[i].Round(time.Minute)
	}
	if want := []time.Duration{time.Hour, 0}; last.Code != verify.TimestampTooOld || !slices.Equal(offsets, want) {
		t.Errorf("%s: %v, want %v", last.Code, offsets, want)
	}
	mismatch, _ := ring.Kept(ring.Refused()[2].Number)
	if none := s.offsets(t.Context(), &mismatch); mismatch.Code != verify.SignatureMismatch || len(none) > 0 {
		t.Errorf("%s: %v", mismatch.Code, none)
	}
}
