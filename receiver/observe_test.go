package receiver

import (
	"strconv"
	"testing"
	"time"

	"github.com/eyelet-dev/eyelet/producer"
	"github.com/eyelet-dev/eyelet/verify"
)

// TestObservationsOfSenders checks what the metrics of senders count: which secret verified a
// delivery, how old its signed time is, and whether it brought a new event.
func TestObservationsOfSenders(t *testing.T) {
	t.Parallel()
	schemeOf := func(secrets ...string) *verify.HMAC {
		return &verify.HMAC{
			Headers: []string{"X-Sig"}, TimestampHeaders: []string{"X-Time"}, Encoding: verify.Hex,
			Content: "{timestamp}.{body}", Secrets: verify.Secrets(secrets...),
		}
	}
	now := time.Unix(1_795_000_000, 0)
	s := serve(t, producer.Producer{
		Name: "shop", Scheme: schemeOf("old-secret", "new-secret"), Key: producer.Header("Delivery-Id"),
		Contract: producer.Webhook,
	}, func(c *Config) { c.Clock = func() time.Time { return now } })
	send := func(secret, body string, age time.Duration) {
		r := s.request(req{body: body})
		if err := schemeOf(secret).Sign(r, []byte(body), now.Add(-age)); err != nil {
			t.Fatal(err)
		}
		s.sendRequest(r)
	}
	send("new-secret", "1", 3*time.Second)
	send("old-secret", "2", -2*time.Second)
	send("new-secret", "1", 3*time.Second)
	send("new-secret", "4", time.Hour)
	send("other-secret", "5", 0)
	want := []Observation{
		{Code: "accepted", New: true, Secret: 2, Signed: true, SignedAge: 3 * time.Second},
		{Code: "accepted", New: true, Secret: 1, Signed: true, SignedAge: -2 * time.Second},
		{Code: "replayed", Secret: 2, Signed: true, SignedAge: 3 * time.Second},
		{Code: "timestamp_too_old", Secret: 2, Signed: true, SignedAge: time.Hour},
		{Code: "signature_mismatch"},
	}
	waitFor(t, func() bool { return len(s.seen.codes(KindDelivery)) == len(want) })
	s.seen.mu.Lock()
	defer s.seen.mu.Unlock()
	for i, o := range s.seen.all {
		got := Observation{Code: o.Code, New: o.New, Secret: o.Secret, Signed: o.Signed, SignedAge: o.SignedAge}
		if got != want[i] {
			t.Errorf("delivery %s: %+v\nwant %+v", strconv.Itoa(i+1), got, want[i])
		}
	}
}
