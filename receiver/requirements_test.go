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
	"github.com/eyelet-dev/eyelet/producer"
	"github.com/eyelet-dev/eyelet/producer/preset"
	"github.com/eyelet-dev/eyelet/verify"
)

// serveAt is serve with a settable clock for the store and the receiver.
func serveAt(t *testing.T, p producer.Producer, handlers ...Handler) (*site, *deduptest.Clock) {
	t.Helper()
	clock := deduptest.NewClock()
	store := dedup.NewMemory(dedup.MemoryOptions{Clock: clock})
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

func TestStandardWebhooksAreRememberedForTheWholeSchedule(t *testing.T) {
	t.Parallel()
	runs := newCounter()
	s, clock := serveAt(t, preset.StandardWebhooks("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"),
		On("standard-webhooks", "*", func(context.Context, Event[[]byte]) error { runs.add(); return nil }))
	send := func() got { return s.webhookAt(clock, http.Header{"Webhook-Id": {"e1"}}, `{"type":"t"}`) }
	if g := send(); g.status != 200 || g.replayed() {
		t.Fatalf("%+v", g)
	}
	s.settled(dedup.Done)
	clock.Advance(72 * time.Hour)
	if g := send(); g.status != 200 || !g.replayed() || runs.count() != 1 {
		t.Errorf("after 3 days: %+v, %d runs", g, runs.count())
	}
	clock.Advance(28 * time.Hour)
	if g := send(); g.status != 200 || g.replayed() {
		t.Errorf("after the window: %+v", g)
	}
}

func TestEndpointsAreSeparate(t *testing.T) {
	t.Parallel()
	contracts(t, func(t *testing.T, p producer.Producer) {
		other := p
		other.Name = "shop2"
		s := serve(t, p, func(c *Config) { c.Producers = append(c.Producers, other) })
		for _, path := range []string{"/webhooks/shop", "/webhooks/shop2"} {
			for i := range 2 {
				if g := s.send(req{id: "k1", path: path,
					header: http.Header{"Principal": {"alice"}}}); g.status/100 != 2 || g.replayed() != (i == 1) {
					t.Errorf("%s %d: %+v", path, i, g)
				}
			}
		}
		if n := len(s.records()); n != 2 {
			t.Errorf("%d records", n)
		}
	})
}

func TestStoredAnswersAreForTheirProducerOnly(t *testing.T) {
	t.Parallel()
	contracts(t, func(t *testing.T, p producer.Producer) {
		runs := newCounter()
		s := serve(t, p, nil, Answer("shop", "*", func(context.Context, Event[[]byte]) (Response, error) {
			runs.add()
			return Response{Header: http.Header{"X-Order": {"o-17"}}, Body: []byte(`"the answer"`)}, nil
		}))
		if g := s.send(req{id: "k1"}); g.body != `"the answer"` {
			t.Fatalf("%+v", g)
		}
		for _, a := range []req{
			{id: "k1", header: http.Header{"Sig": {"signature_mismatch"}}}, {id: "k1", header: http.Header{"Sig": nil}},
			{id: "k1", header: http.Header{"Sig": {"key_unknown"}}}, {id: "k1", method: "GET"},
			{id: "k1", method: "HEAD"},
			{id: "k1", method: "PATCH"},
		} {
			g := s.send(a)
			want := 401
			if a.method != "" {
				want = 405
			}
			if g.status != want || g.replayed() || strings.Contains(g.body, "the answer") ||
				g.header.Get("X-Order") != "" {
				t.Errorf("%+v: %+v", a, g)
			}
			if want == 405 && g.header.Get("Allow") != "POST" {
				t.Errorf("allow %q", g.header.Get("Allow"))
			}
		}
		if runs.count() != 1 {
			t.Errorf("%d runs", runs.count())
		}
	})
}

// forgetfulStore commits a claim and returns an error, as when a connection is cut.
type forgetfulStore struct {
	dedup.Store
	cut bool
}

func (f *forgetfulStore) Claim(ctx context.Context, c ...dedup.Claim) ([]dedup.Decision, error) {
	decisions, err := f.Store.Claim(ctx, c...)
	if f.cut {
		return nil, errors.Join(err, errors.New("connection reset"))
	}
	return decisions, err
}

func TestUnknownOutcomeIsNotSuccessAndTheRetryGetsIt(t *testing.T) {
	t.Parallel()
	contracts(t, func(t *testing.T, p producer.Producer) {
		runs := newCounter()
		forgetful := &forgetfulStore{cut: true}
		s := serve(t, p, func(c *Config) { forgetful.Store, c.Store = c.Store, forgetful }, countingOn(runs))
		wantProblem(t, s.send(req{id: "k1", body: "1"}), 503, "store_unavailable")
		forgetful.cut = false
		if g := s.send(req{id: "k1", body: "1"}); g.status/100 != 2 {
			t.Errorf("%+v", g)
		}
		runs.await(t)
		s.settled(dedup.Done)
		if len(s.records()) != 1 || runs.count() != 1 {
			t.Errorf("%d records, %d runs", len(s.records()), runs.count())
		}
	})
}

func TestPutIsAcceptedWhereItIsAgreed(t *testing.T) {
	t.Parallel()
	contracts(t, func(t *testing.T, p producer.Producer) {
		p.Methods = []string{"POST", "PUT"}
		s := serve(t, p, nil)
		if g := s.send(req{id: "k1", method: "PUT", body: "1"}); g.status/100 != 2 || g.replayed() {
			t.Errorf("%+v", g)
		}
		if g := s.send(req{id: "k1", method: "PATCH", body: "1"}); g.status != 405 ||
			g.header.Get("Allow") != "POST, PUT" {
			t.Errorf("%+v", g)
		}
	})
}

func TestStrictEndpointRefusesBareKeys(t *testing.T) {
	t.Parallel()
	p := apiProducer()
	p.Key = producer.IdempotencyKey{Strict: true}
	s := serve(t, p, nil, mustNotRun(t))
	g := s.send(req{id: "8e03978e-40d5-43e8-bc93-6894a57f9324"})
	if wantProblem(t, g, 400, "event_malformed"); !strings.Contains(g.body, "idempotency-key") {
		t.Error(g.body)
	}
	if n := len(s.records()); n != 0 {
		t.Errorf("%d records", n)
	}
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
	p := preset.Chargebee(verify.Basic("u", "0123456789abcdef0123"))
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

func TestForwardedFieldsAndHostOfUntrustedPeersAreNotInTheSignedURL(t *testing.T) {
	t.Parallel()
	s := serveSigned(t, nil)
	g := s.deliver(s.ed, `"k1"`, "/webhooks/shop", "{}", time.Now(), func(r *http.Request) {
		r.Host = "evil.example"
		r.Header.Set("X-Forwarded-Host", "evil.example")
		r.Header.Set("X-Forwarded-Proto", "http")
		r.Header.Set("Forwarded", "host=evil.example;proto=http")
	})
	if g.status != 202 {
		t.Errorf("the configured URL is ignored: %+v", g)
	}
	s.runs.await(t)
	evil := s.ed
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "https://evil.example/webhooks/shop",
		strings.NewReader("{}"))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Idempotency-Key", `"k2"`)
	if err := evil.Sign(r, []byte("{}"), time.Now()); err != nil {
		t.Fatal(err)
	}
	again := s.deliver(s.ed, `"k2"`, "/webhooks/shop", "{}", time.Now(), func(to *http.Request) {
		to.Header = r.Header.Clone()
		to.Host = "evil.example"
		to.Header.Set("X-Forwarded-Host", "evil.example")
	})
	wantProblem(t, again, 401, "signature_invalid")
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
