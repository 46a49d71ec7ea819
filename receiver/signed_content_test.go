package receiver_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/eyelet-dev/eyelet/dedup/memstore"
	"github.com/eyelet-dev/eyelet/producer"
	"github.com/eyelet-dev/eyelet/producer/preset"
	"github.com/eyelet-dev/eyelet/receiver"
	"github.com/eyelet-dev/eyelet/verify"
)

// TestContentMayBeSignedBeforeItIsCoded: it is one event with every coding and without one, and
// only where its producer may sign so.
func TestContentMayBeSignedBeforeItIsCoded(t *testing.T) {
	t.Parallel()
	scheme := &verify.HMAC{Headers: []string{"X-Sig"}, Encoding: verify.Hex, Secrets: verify.Secrets(secret17)}
	own := func(name string, signed producer.SignedContent) producer.Producer {
		return producer.Producer{Name: name, Contract: producer.Webhook, Key: producer.JSON("id"), Scheme: scheme,
			SignedContent: signed}
	}
	all := []producer.Producer{
		own("either", producer.SignedEither), own("decoded", producer.SignedDecoded),
		own("coded", producer.SignedCoded),
		preset.With("mailgun", secret17),
	}
	store := memstore.New(memstore.Options{})
	rx := opened(t, receiver.Config{Store: store, Producers: all})
	send := func(name, body, signed, coding string) int {
		r := post(name, body, "X-Sig", hexMAC(signed))
		if coding != "" {
			r.Header.Set("Content-Encoding", coding)
		}
		return answer(rx, r).Code
	}
	plain := `{"id":"e1","order":"` + strings.Repeat("tea ", 200) + `"}`
	packed, bomb := gzipped(plain), gzipped(strings.Repeat("\x00", 1<<19))
	for _, row := range []struct {
		name, body, signed, coding string
		want                       int
	}{
		{"either", packed, plain, "gzip", 200},
		{"either", plain, plain, "", 200},
		{"either", packed, packed, "x-gzip", 200},
		{"either", packed, "other", "gzip", 401},
		{"either", bomb, "other", "gzip", 401},
		{"either", packed[:40], plain, "gzip", 401},
		{"decoded", packed, plain, "gzip", 200},
		{"decoded", plain, plain, "", 200},
		{"decoded", packed, packed, "gzip", 401},
		{"decoded", bomb, "other", "gzip", 413},
		{"decoded", packed[:40], plain, "gzip", 401},
		{"coded", packed, packed, "gzip", 200},
		{"coded", packed, plain, "gzip", 401},
	} {
		if got := send(row.name, row.body, row.signed, row.coding); got != row.want {
			t.Errorf("%s %.20q signed as %.20q in %q: %d, want %d", row.name, row.body, row.signed, row.coding, got,
				row.want)
		}
	}
	mail, err := all[3].Scheme.(interface {
		SignBody(*http.Request, []byte, time.Time) ([]byte, error)
	}).SignBody(nil, []byte(`{"event-data":{"id":"m1","event":"opened"}}`), time.Now())
	if err != nil {
		t.Fatal(err)
	}
	if w := answer(rx, post("mailgun", gzipped(string(mail)), "Content-Encoding", "gzip")); w.Code != http.StatusOK {
		t.Errorf("a signature in the coded body: %d %s", w.Code, w.Body)
	}
	bodies := map[string]int{}
	for _, rec := range recordsOf(t, store) {
		if rec.QuarantineReason != "" {
			continue
		}
		bodies[rec.Key.Endpoint]++
		if coded := rec.Payload.Header.Get("Content-Encoding") != ""; coded != (string(rec.Payload.Body) == packed) {
			t.Errorf("%s: %.20q with %v", rec.Key.Endpoint, rec.Payload.Body, rec.Payload.Header)
		}
	}
	if bodies["decoded"] != 1 || bodies["coded"] != 1 || bodies["mailgun"] != 1 || bodies["either"] > 2 {
		t.Errorf("events: %v", bodies)
	}
}
