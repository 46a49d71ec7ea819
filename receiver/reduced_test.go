package receiver_test

import (
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/eyelet-dev/eyelet/dedup/deduptest"
	"github.com/eyelet-dev/eyelet/dedup/memstore"
	"github.com/eyelet-dev/eyelet/producer"
	"github.com/eyelet-dev/eyelet/receiver"
	"github.com/eyelet-dev/eyelet/verify"
)

// signedTwice is a message with two signatures, of which the second one covers less, or a part of
// it.
type signedTwice struct {
	id, other, kind string        // X-Event-Id, X-Other, the parameter of the type
	at              time.Duration // of the first signature; the other one is a second later
	nonce           string
	once            bool // has the first signature only
	left            bool // has lost the first signature, and X-Event-Id
}

func (s signedTwice) message(t *testing.T, by verify.Signer, now time.Time) message {
	t.Helper()
	r := request(http.MethodPost, "/webhooks/own", ownBody)
	r.Header.Set("Content-Type", "application/json"+s.kind)
	covered := []string{"@method", "@target-uri", "content-digest"}
	if s.kind == "" {
		covered = append(covered, "content-type")
	}
	if field := by.Like.TimestampHeader; field != "" {
		covered = append(covered, strings.ToLower(field))
	}
	first, second := by, by
	first.Label, first.Nonce, second.Label, second.Nonce = "sig1", s.nonce, "sig2", s.nonce+"2"
	if first.Components = covered; s.id != "" {
		r.Header.Set("X-Event-Id", s.id)
		first.Components = append(first.Components, "x-event-id")
	}
	if second.Components = covered; s.kind != "" {
		second.Components = append(second.Components, "content-type")
	}
	if s.other != "" {
		r.Header.Set("X-Other", s.other)
		first.Components = append(first.Components, "x-other")
	}
	err := first.Sign(r, []byte(ownBody), now.Add(s.at))
	if later := time.Second; err == nil && !s.once {
		if by.Like.TimestampHeader != "" {
			later = 0 // both cover the field
		}
		err = second.Sign(r, []byte(ownBody), now.Add(s.at+later))
	}
	if err != nil {
		t.Fatal(err)
	}
	if s.left {
		withoutSignature("sig1")(r.Header)
		r.Header.Del("X-Event-Id")
	}
	return messageOf(t, "own", r, []byte(ownBody))
}

// A message without one of its signatures runs no handler again, and other
// messages with the same body are events.
func TestAMessageWithoutOneSignatureIsTheSameEvent(t *testing.T) {
	t.Parallel()
	byField, id, other := producer.Header("X-Event-Id"), "evt-17", producer.Header("X-Other")
	byAny := producer.First(byField, producer.JSON("id"))
	byAll := producer.First(byField, other, producer.JSON("id"))
	full, left := signedTwice{id: id, nonce: "n"}, signedTwice{id: id, nonce: "n", left: true}
	again, leftAgain := full, left
	again.at, again.nonce, leftAgain.at, leftAgain.nonce = 9*time.Second, "m", 9*time.Second, "m"
	typed, leftTyped := full, left
	typed.kind, leftTyped.kind = "; charset=utf-8", "; charset=utf-8"
	ids := []signedTwice{full, {id: "evt-18", nonce: "m"}}
	once := []signedTwice{{other: "1", nonce: "n", once: true}, {other: "2", nonce: "m", once: true}}
	for name, c := range map[string]struct {
		time string // the field with the time; "" is created, and "-" none
		key  producer.Extractor
		sent []signedTwice
		want int
	}{
		"a time in a field":         {"X-Time", byAny, []signedTwice{full, left}, 1},
		"a time in a field, before": {"X-Time", byField, []signedTwice{left, full}, 1},
		"a Date":                    {"Date", byAny, []signedTwice{full, left}, 1},
		"a field that is not sent":  {"", byAll, []signedTwice{full, left}, 1},
		"of a retry":                {key: byAny, sent: []signedTwice{full, again, leftAgain}, want: 1},
		"of a retry, a field":       {key: byField, sent: []signedTwice{full, again, leftAgain}, want: 1},
		"of a retry without time":   {"-", byAny, []signedTwice{full, again, leftAgain}, 1},
		"a pinned type":             {key: byAny, sent: []signedTwice{typed, leftTyped}, want: 1},
		"a pinned type, before":     {key: byAny, sent: []signedTwice{leftTyped, typed}, want: 1},
		"two events":                {key: byAny, sent: ids, want: 2},
		"two events without time":   {"-", byAny, ids, 2},
		"two events, one signature": {key: producer.First(byField, other), sent: once, want: 2},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				key, signer := ed25519Pair(t)
				scheme := &verify.RFC9421{Keys: verify.StaticKeys(key), NoTime: c.time == "-"}
				if !scheme.NoTime {
					scheme.TimestampHeader = c.time
				}
				signer.Like = scheme
				clock, now := deduptest.NewClock(), time.Now().Truncate(time.Second)
				begin, seen := clock.Now(), &runs{all: map[string]int{}, each: map[string]int{}}
				p := producer.Producer{Name: "own", Scheme: scheme, Key: c.key, Contract: producer.Webhook,
					SignsURL: true, Window: 25 * time.Hour, MediaTypes: []string{"application/json"}}
				rx := opened(t, receiver.Config{
					Store: memstore.New(memstore.Options{Clock: clock}), Producers: []producer.Producer{p},
					Handlers: []receiver.Handler{seen.handler("own", "*")},
					Clock:    func() time.Time { return now.Add(clock.Now().Sub(begin)) },
				})
				for range 2 { // within the window, and after it
					for _, s := range c.sent {
						give(rx, s.message(t, signer, now))
					}
					synctest.Wait()
					if ran := seen.all["*"]; ran != c.want {
						t.Errorf("the handler ran %d times, want %d", ran, c.want)
					}
					clock.Advance(26 * time.Hour)
				}
			})
		})
	}
}
