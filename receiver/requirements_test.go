package receiver

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/eyelet-dev/eyelet/dedup"
	"github.com/eyelet-dev/eyelet/dedup/deduptest"
	"github.com/eyelet-dev/eyelet/dedup/memstore"
	"github.com/eyelet-dev/eyelet/producer"
	"github.com/eyelet-dev/eyelet/producer/preset"
	"github.com/eyelet-dev/eyelet/verify"
)

// serveAt is serve with a settable clock for the store and the receiver.
func serveAt(t *testing.T, p producer.Producer, handlers ...Handler) (*site, *deduptest.Clock) {
	t.Helper()
	clock := deduptest.NewClock()
	store := memstore.New(memstore.Options{Clock: clock})
	s := serve(t, p, func(c *Config) {
		if err := c.Store.Close(); err != nil {
			t.Error(err)
		}
		c.Store, c.Clock = store, clock.Now
	}, handlers...)
	s.store = store
	return s, clock
}

// signedAt is a delivery of the test scheme, signed at the clock's time.
func signedAt(clock *deduptest.Clock, id, body string) req {
	return req{id: id, body: body, header: http.Header{"Signed-At": {fmt.Sprint(clock.Now().Unix())}}}
}

// settled waits until the newest event has the state.
func (s *site) settled(state dedup.State) {
	s.t.Helper()
	waitFor(s.t, func() bool { rec := s.records()[0]; return rec.State() == state })
}

func TestWindowBeginsWithTheOutcome(t *testing.T) {
	t.Parallel()
	contracts(t, func(t *testing.T, p producer.Producer) {
		p.Window = time.Hour
		runs := newCounter()
		s, clock := serveAt(t, p, On("shop", "*", func(context.Context, Event[[]byte]) error {
			if runs.add() == 1 {
				return Postpone(3*time.Hour, nil)
			}
			return nil
		}))
		again := func() bool { return s.send(signedAt(clock, "k1", "1")).replayed() }
		if again() {
			t.Fatal("the first delivery counts as a duplicate")
		}
		runs.await(t)
		s.settled(dedup.Pending)
		clock.Advance(2 * time.Hour)
		if !again() || runs.count() != 1 {
			t.Error("forgotten while unprocessed")
		}
		clock.Advance(2 * time.Hour)
		runs.await(t)
		s.settled(dedup.Done)
		clock.Advance(time.Hour - time.Second)
		if !again() {
			t.Error("forgotten before the window ended")
		}
		clock.Advance(time.Second)
		if again() {
			t.Error("remembered after the window ended")
		}
		runs.await(t)
	})
}

func TestDeadLetterReleasesItsKeyAndStays(t *testing.T) {
	t.Parallel()
	contracts(t, func(t *testing.T, p producer.Producer) {
		p.Window = time.Hour
		s, clock := serveAt(t, p, On("shop", "*", func(_ context.Context, ev Event[[]byte]) error {
			if string(ev.Body) == "1" {
				return Reject(errors.New("never"))
			}
			return nil
		}))
		s.send(signedAt(clock, "k1", "1"))
		s.settled(dedup.Dead)
		clock.Advance(2 * time.Hour)
		if g := s.send(signedAt(clock, "k1", "2")); g.status/100 != 2 || g.replayed() {
			t.Fatalf("%+v", g)
		}
		s.settled(dedup.Done)
		recs := s.records()
		if len(recs) != 2 || recs[1].State() != dedup.Dead || string(recs[1].Payload.Body) != "1" ||
			recs[0].QuarantineReason != "" {
			t.Fatalf("%+v", recs)
		}
		if _, err := s.store.Reopen(t.Context(), recs[1].Event); err != nil {
			t.Error(err)
		}
		waitFor(t, func() bool { rec := s.records()[1]; return rec.State() == dedup.Dead && rec.Tasks[0].Attempt > 0 })
	})
}

func TestStaleDuplicatePastItsSignedEndIsRefused(t *testing.T) {
	t.Parallel()
	s := serveSigned(t, func(p *producer.Producer) { p.StaleKnown = true })
	now := time.Now().Add(-4 * time.Minute)
	long, short := s.ed, s.ed
	long.Expires, short.Expires = time.Hour, 3*time.Minute
	if g := s.deliver(long, `"k1"`, "/webhooks/shop", "{}", now, nil); g.status != 202 {
		t.Fatalf("%+v", g)
	}
	s.runs.await(t)
	if g := s.deliver(long, `"k1"`, "/webhooks/shop", "{}", now.Add(-5*time.Minute), nil); g.status != 202 ||
		!g.replayed() {
		t.Errorf("stale, within its signed end: %+v", g)
	}
	wantProblem(t, s.deliver(short, `"k1"`, "/webhooks/shop", "{}", now, nil), 401, "token_expired")
	wantProblem(t, s.deliver(short, `"k1"`, "/webhooks/shop", "{}", now.Add(-5*time.Minute), nil), 401, "token_expired")
}

// webhookAt signs a delivery of a preset at the clock's time.
func (s *site) webhookAt(clock *deduptest.Clock, header http.Header, body string) got {
	s.t.Helper()
	a := req{body: body, header: header}
	r := s.request(a)
	signer := s.p.Scheme.(interface {
		Sign(*http.Request, []byte, time.Time) error
	})
	if err := signer.Sign(r, []byte(body), clock.Now()); err != nil {
		s.t.Fatal(err)
	}
	a.header = r.Header
	return s.send(a)
}

func TestKeysOf1024CharactersAndFieldNamesOfAnyCase(t *testing.T) {
	t.Parallel()
	s := serve(t, apiProducer(), nil)
	key := strings.Repeat("k", 1024)
	for i, name := range []string{"iDeMpOtEnCy-KeY", "Idempotency-Key", "idempotency-key"} {
		send := strings.Replace(head("/webhooks/shop", "Connection: close", "Content-Length: 1", "", "1"),
			"Idempotency-Key: k1", name+": \""+key+"\"", 1)
		resp := parseAnswer(t, s.wire(send, true))
		if replayed := resp.Header.Get("Idempotency-Replayed") == "true"; resp.StatusCode != 202 ||
			replayed != (i > 0) {
			t.Errorf("%s: %d, replayed %v", name, resp.StatusCode, replayed)
		}
	}
	if rec := s.records()[0]; rec.Key.ID != key {
		t.Errorf("%d characters are stored", len(rec.Key.ID))
	}
	long := req{header: http.Header{"Idempotency-Key": {`"` + key + `k"`}}}
	if g := s.send(long); g.status != 400 {
		t.Errorf("1,025 characters: %+v", g)
	}
	if page, _ := s.policy("", nil); !strings.Contains(page, "1 to 1,024 characters") {
		t.Error("the bound is not in the policy")
	}
}

func TestWhatAVendorChangesPerAttemptMakesNoConflict(t *testing.T) {
	t.Parallel()
	chargebee, _ := preset.Find("chargebee")
	p := chargebee.Open(preset.Settings{Username: "u", Password: "0123456789abcdef0123"})
	runs := newCounter()
	s := serve(t, p, nil, On("chargebee", "*", func(context.Context, Event[[]byte]) error { runs.add(); return nil }))
	for i, status := range []string{"scheduled", "re_scheduled", "failed"} {
		body := `{"id":"ev1","event_type":"x","occurred_at":17,"webhook_status":"` + status + `"}`
		g := s.webhookAt(deduptest.NewClock(), nil, body)
		if g.status != 200 || g.replayed() != (i > 0) {
			t.Errorf("%s: %+v", status, g)
		}
	}
	runs.await(t)
	if len(s.records()) != 1 || runs.count() != 1 {
		t.Errorf("%d records, %d runs", len(s.records()), runs.count())
	}
}

// The digest covers the coded bytes, which another coding would decode differently.
func TestTheCodingOfABodyMustBeSigned(t *testing.T) {
	t.Parallel()
	var coded bytes.Buffer
	w := gzip.NewWriter(&coded)
	if _, err := w.Write([]byte(`{"type":"order.created"}`)); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	s := serveSigned(t, nil)
	with := s.ed
	with.Components = []string{"@method", "@target-uri", "content-digest", "content-type", "content-encoding",
		"idempotency-key"}
	if g := s.deliverCoded(with, "gzip", coded.String()); g.status != 202 {
		t.Fatalf("covered: %+v", g)
	}
	without := s.ed
	without.Components = []string{"@method", "@target-uri", "content-digest", "content-type", "idempotency-key"}
	wantProblem(t, s.deliverCoded(without, "gzip", coded.String()), 401, "insufficient_coverage")
}

// deliverCoded sends a coded body whose coding is set before signing.
func (s signedSite) deliverCoded(with verify.Signer, coding, body string) got {
	s.t.Helper()
	r, err := http.NewRequestWithContext(s.t.Context(), http.MethodPost, "https://hooks.example/webhooks/shop",
		strings.NewReader(body))
	if err != nil {
		s.t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Content-Encoding", coding)
	r.Header.Set("Idempotency-Key", `"`+coding+`"`)
	if err := with.Sign(r, []byte(body), time.Now()); err != nil {
		s.t.Fatal(err)
	}
	return s.deliver(s.ed, `"`+coding+`"`, "/webhooks/shop", body, time.Now(),
		func(to *http.Request) { to.Header = r.Header })
}

func TestObserversOfAnswersSeeNoPayload(t *testing.T) {
	t.Parallel()
	const secret = "4111-1111-payload"
	for name, do := range map[string]func() (Response, error){
		"error":    func() (Response, error) { return Response{}, errors.New(secret) },
		"reject":   func() (Response, error) { return Response{}, Reject(errors.New(secret)) },
		"postpone": func() (Response, error) { return Response{}, Postpone(time.Second, errors.New(secret)) },
		"panic":    func() (Response, error) { panic(secret) },
		"panic with an error": func() (Response, error) {
			panic(errors.New(secret))
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := serve(t, apiProducer(), omitErrors,
				Answer("shop", "*", func(context.Context, Event[[]byte]) (Response, error) { return do() }))
			if g := s.send(req{id: "k1", body: secret}); strings.Contains(g.body, secret) || g.status/100 == 2 {
				t.Errorf("%+v", g)
			}
			waitFor(t, func() bool { return len(s.seen.codes("delivery")) == 1 && len(s.seen.codes("attempt")) == 1 })
			s.seen.mu.Lock()
			defer s.seen.mu.Unlock()
			for _, o := range s.seen.all {
				if strings.Contains(fmt.Sprintf("%+v", o), secret) {
					t.Errorf("%+v", o)
				}
				if o.Kind == "attempt" && o.Err == nil {
					t.Error("the type of the error is not observed")
				}
			}
			if strings.Contains(s.log.String(), secret) {
				t.Error("the payload is in the log:", s.log.String())
			}
			if rec := s.records()[0]; !strings.Contains(rec.Tasks[0].Err, secret) ||
				len(rec.Tasks[0].Err) > maxErrText {
				t.Errorf("the store has %q", rec.Tasks[0].Err)
			}
		})
	}
}
