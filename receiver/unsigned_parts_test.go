package receiver_test

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/hex"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/eyelet-dev/eyelet/dedup/memstore"
	"github.com/eyelet-dev/eyelet/producer"
	"github.com/eyelet-dev/eyelet/receiver"
	"github.com/eyelet-dev/eyelet/verify"
)

// seenRuns notes the runs of producers with the same handler.
type seenRuns struct {
	mu  sync.Mutex
	all []string // sorted
}

func (s *seenRuns) open(t *testing.T, producers ...producer.Producer) *receiver.Receiver {
	t.Helper()
	c := receiver.Config{Store: memstore.New(memstore.Options{}), Producers: producers}
	for _, p := range producers {
		note := func(_ context.Context, ev receiver.Event[[]byte]) error {
			s.mu.Lock()
			defer s.mu.Unlock()
			s.all = append(s.all, p.Name+" "+ev.ID)
			slices.Sort(s.all)
			return nil
		}
		c.Handlers = append(c.Handlers, receiver.On(p.Name, "*", note).Named(p.Name))
	}
	return opened(t, c)
}

// signedBy signs a delivery of a body, which can be sent many times.
func signedBy(t *testing.T, s verify.Signer, target, body string, header ...string) func() *http.Request {
	t.Helper()
	r := request(http.MethodPost, target, body, header...)
	if err := s.Sign(r, []byte(body), time.Now()); err != nil {
		t.Fatal(err)
	}
	return func() *http.Request {
		again := r.Clone(t.Context())
		again.Body, again.RequestURI = readCloser{bytes.NewReader([]byte(body))}, target
		return again
	}
}

func webhookBy(name string, key verify.Key, id producer.Extractor) producer.Producer {
	return producer.Producer{
		Name: name, Scheme: &verify.RFC9421{Keys: verify.StaticKeys(key)}, Key: id, Contract: producer.Webhook,
	}
}

var signedAll = []string{"@method", "@target-uri", "content-digest", "content-type"}

// A list has the same signature on one line and on several, and its reader another value.
func TestAListThatNamesAnEventHasOneLine(t *testing.T) {
	t.Parallel()
	key, signer := ed25519Pair(t)
	signer.Digests = []string{"sha-256", "sha-512"}
	signer.Components = append(slices.Clone(signedAll), "content-language")
	for _, field := range []string{"Content-Digest", "Content-Language"} {
		synctest.Test(t, func(t *testing.T) {
			seen := &seenRuns{}
			rx := seen.open(t, webhookBy("own", key, producer.Header(field)))
			again := signedBy(t, signer, "/webhooks/own", `{"n":1}`, "Content-Language", "de, en")
			answer(rx, again())
			split := again()
			split.Header[field] = strings.Split(split.Header.Get(field), ", ")
			w := answer(rx, split)
			synctest.Wait()
			if len(seen.all) != 1 || w.Code/100 != 4 {
				t.Error(field, w.Code, seen.all)
			}
		})
	}
}

// The path is part of what identifies an event, also of a secret that one endpoint has.
func TestAnEventOfAnotherPathIsNotLost(t *testing.T) {
	t.Parallel()
	signer := verify.Signer{KeyID: "k1", Secret: []byte(secret17 + "own")}
	signer.Components = append(slices.Clone(signedAll), "idempotency-key")
	synctest.Test(t, func(t *testing.T) {
		seen := &seenRuns{}
		rx := seen.open(t, producer.Signed("own", verify.StaticKeys(secretKey(t, "own"))))
		for _, below := range []string{"/t1", "/t2"} {
			r := signedBy(t, signer, below+"/webhooks/own", `{"n":1}`, "Idempotency-Key", `"1"`)()
			w := httptest.NewRecorder()
			http.StripPrefix(below, rx.Handler()).ServeHTTP(w, r)
			if synctest.Wait(); w.Header().Get("Idempotency-Replayed") != "" {
				t.Error(below, "is a duplicate")
			}
		}
		if len(seen.all) != 2 {
			t.Error(seen.all)
		}
	})
}

// A signature base is no body, although one secret signs both.
func TestASignatureBaseIsNoBody(t *testing.T) {
	t.Parallel()
	signer := verify.Signer{KeyID: "k1", Secret: []byte(secret17 + "own"), Components: signedAll}
	scheme := &verify.HMAC{Headers: []string{"X-Signature"}, Encoding: verify.Hex, Content: "{body}",
		Secrets: verify.Secrets(secret17 + "own")}
	other := producer.Producer{Name: "other", Key: producer.JSON("id"), Contract: producer.Webhook, Scheme: scheme}
	synctest.Test(t, func(t *testing.T) {
		seen := &seenRuns{}
		rx := seen.open(t, webhookBy("own", secretKey(t, "own"), producer.JSON("id")), other)
		h := signedBy(t, signer, "/webhooks/own", `{"id":"e1"}`)().Header
		base := "\"@method\": POST\n\"@target-uri\": " + publicBase + "/webhooks/own\n\"content-digest\": " +
			h.Get("Content-Digest") + "\n\"content-type\": application/json\n\"@signature-params\": " +
			strings.TrimPrefix(h.Get("Signature-Input"), "sig1=")
		sent := strings.Trim(strings.TrimPrefix(h.Get("Signature"), "sig1="), ":")
		mac, err := base64.StdEncoding.DecodeString(sent)
		if err != nil {
			t.Fatal(err)
		}
		w := answer(rx, request(http.MethodPost, "/webhooks/other", base, "X-Signature", hex.EncodeToString(mac)))
		if synctest.Wait(); w.Code != http.StatusUnauthorized || len(seen.all) != 0 {
			t.Error(w.Code, seen.all)
		}
	})
}

// The member names the event where the field is not sent: nobody can add one that is not covered.
func TestTheFirstIdentifierThatIsSentNamesAnEvent(t *testing.T) {
	t.Parallel()
	key, signer := ed25519Pair(t)
	signer.Components = signedAll
	for _, scheme := range []*verify.RFC9421{{}, {NoTime: true}} {
		synctest.Test(t, func(t *testing.T) {
			seen := &seenRuns{}
			own := webhookBy("own", key, producer.First(producer.IdempotencyKey{}, producer.JSON("event_id")))
			scheme.Keys = verify.StaticKeys(key)
			own.Scheme, signer.Like = scheme, scheme
			rx := seen.open(t, own)
			for _, body := range []string{`{"event_id":"e1"}`, `{"event_id": "e1"}`, `{"event_id":"e2"}`} {
				answer(rx, signedBy(t, signer, "/webhooks/own", body)())
			}
			added := signedBy(t, signer, "/webhooks/own", `{"event_id":"e1"}`)()
			added.Header.Set("Idempotency-Key", `"other"`)
			w := answer(rx, added)
			synctest.Wait()
			if w.Code != http.StatusUnauthorized || !slices.Equal(seen.all, []string{"own e1", "own e2"}) {
				t.Error(w.Code, seen.all)
			}
		})
	}
}

// Nothing reads an Idempotency-Key here, so it need not be covered.
func TestAFieldThatNothingReadsNeedsNoSignature(t *testing.T) {
	t.Parallel()
	key, signer := ed25519Pair(t)
	signer.Components = signedAll
	synctest.Test(t, func(t *testing.T) {
		seen := &seenRuns{}
		rx := seen.open(t, webhookBy("own", key, producer.JSON("id")))
		again := signedBy(t, signer, "/webhooks/own", `{"id":"e1"}`)
		for _, value := range []string{"", `"1"`, `"2"`} {
			r := again()
			r.Header.Set("Idempotency-Key", value)
			if w := answer(rx, r); w.Code != http.StatusOK {
				t.Error(w.Code, w.Body)
			}
		}
		if synctest.Wait(); len(seen.all) != 1 {
			t.Error(seen.all)
		}
	})
}
