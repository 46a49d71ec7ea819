package receiver

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/eyelet-dev/eyelet/dedup"
	"github.com/eyelet-dev/eyelet/producer"
	"github.com/eyelet-dev/eyelet/verify"
)

// Attacks by a client with captured deliveries, but without a secret.

// byReason counts the records of the store by the reason why they are quarantined.
func (s *site) byReason() map[string]int {
	s.t.Helper()
	found := map[string]int{}
	for rec, err := range s.store.List(s.t.Context(), dedup.Filter{}) {
		if err != nil {
			s.t.Fatal(err)
		}
		found[rec.QuarantineReason]++
	}
	return found
}

func TestUnsignedFieldsDoNotFillTheStore(t *testing.T) {
	t.Parallel()
	s := serve(t, webhookProducer(), nil)
	captured := req{id: "a", body: `{"n":1}`}
	if g := s.send(captured); g.status != 200 || g.replayed() {
		t.Fatalf("%+v", g)
	}
	for i := range 40 {
		captured.header = http.Header{"Ce-Extra": {fmt.Sprint(i)}}
		if g := s.send(captured); g.status != 200 || !g.replayed() {
			t.Fatalf("duplicate %d: %+v, want the stored response", i, g)
		}
	}
	if got := s.byReason(); len(got) != 1 || got[""] != 1 {
		t.Errorf("stored %v, want one event", got)
	}
}

func TestCapturedBytesUnderKnownIdentifiersAreStoredAFewTimesOnly(t *testing.T) {
	t.Parallel()
	s := serve(t, webhookProducer(), nil)
	const events = 2 * maxReplayed
	for i := range events {
		s.send(req{id: fmt.Sprint("event", i), body: fmt.Sprint(i)})
	}
	for i := range events {
		if g := s.send(req{id: fmt.Sprint("event", i), body: "0"}); g.status != 200 {
			t.Fatalf("%+v", g)
		}
	}
	got := s.byReason()
	if got[""] != events || got["replayed"] != maxReplayed || got["conflict"] != 0 {
		t.Errorf("stored %v, want %d events and %d replayed", got, events, maxReplayed)
	}
}

func TestNewPayloadUnderAKnownIdentifierIsQuarantinedOnce(t *testing.T) {
	t.Parallel()
	s := serve(t, webhookProducer(), nil)
	s.send(req{id: "a", body: "1"})
	for range 3 {
		if g := s.send(req{id: "a", body: "2"}); g.status != 200 || g.replayed() {
			t.Fatalf("%+v", g)
		}
	}
	// The quarantined delivery does not block the event itself.
	if g := s.send(req{id: "b", body: "2"}); g.status != 200 || g.replayed() {
		t.Fatalf("%+v", g)
	}
	if got := s.byReason(); got[""] != 2 || got["conflict"] != 1 || got["replayed"] != 0 {
		t.Errorf("stored %v, want two events and one conflict", got)
	}
}

func TestCapturedCloudEventUnderAnotherIDIsNotANewEvent(t *testing.T) {
	t.Parallel()
	p := webhookProducer()
	p.Key, p.Type, p.Split, p.LooseBinary = nil, nil, producer.SplitCloudEvents, true
	s := serve(t, p, nil)
	event := func(id string) req {
		return req{body: "{}", header: http.Header{
			"Ce-Id": {id}, "Ce-Source": {"/shop"}, "Ce-Type": {"order"}, "Ce-Specversion": {"1.0"},
		}}
	}
	if g := s.send(event("1")); g.status != 200 || g.replayed() {
		t.Fatalf("%+v", g)
	}
	if g := s.send(event("1")); g.status != 200 || !g.replayed() {
		t.Fatalf("%+v", g)
	}
	s.send(event("2"))
	if got := s.byReason(); got[""] != 1 || got["replayed"] != 1 {
		t.Errorf("stored %v, want one event and one quarantined", got)
	}
}

// abortingScheme reads the body and aborts the request with http.ErrAbortHandler.
type abortingScheme struct{}

func (abortingScheme) Verify(_ *http.Request, body func() ([]byte, error)) (verify.Identity, error) {
	_, _ = body()
	panic(http.ErrAbortHandler)
}

func TestAbortedRequestReleasesItsBudget(t *testing.T) {
	t.Parallel()
	p := webhookProducer()
	p.Scheme = abortingScheme{}
	s := serve(t, p, nil)
	if resp, err := client.Do(s.request(req{id: "a", body: "{}"})); err == nil {
		_ = resp.Body.Close()
		t.Fatal("an aborted request got a response")
	}
	if err := s.rx.Close(); err != nil { // waits for the request
		t.Fatal(err)
	}
	s.srv.Close()
	if used := s.rx.limiter.Usage().Bodies; used != 0 {
		t.Errorf("%d bytes of the budget are not released", used)
	}
}

func TestObserversSeeNothingOfThePayload(t *testing.T) {
	t.Parallel()
	s := serve(t, apiProducer(), omitErrors,
		Answer("shop", "fail", func(_ context.Context, ev Event[[]byte]) (Response, error) {
			return Response{}, fmt.Errorf("bad: %s", ev.Body)
		}),
		Answer("shop", "reject", func(_ context.Context, ev Event[[]byte]) (Response, error) {
			return Response{}, Reject(fmt.Errorf("bad: %s", ev.Body))
		}),
		Answer("shop", "panic", func(_ context.Context, ev Event[[]byte]) (Response, error) { panic(string(ev.Body)) }),
		Answer("shop", "decode", func(context.Context, Event[int]) (Response, error) { return Response{}, nil }))
	for _, typ := range []string{"fail", "reject", "panic", "decode"} {
		s.send(req{id: typ, typ: typ, body: `"tea-leaf"`})
	}
	if err := s.rx.Close(); err != nil {
		t.Fatal(err)
	}
	s.seen.mu.Lock()
	defer s.seen.mu.Unlock()
	caused := 0
	for _, o := range s.seen.all {
		if o.Err == nil {
			continue
		}
		caused++
		for err := o.Err; err != nil; err = errors.Unwrap(err) {
			if text := err.Error(); strings.Contains(text, "tea-leaf") {
				t.Errorf("%s of %s: %v", o.Kind, o.Type, err)
			}
		}
	}
	if caused < 4 {
		t.Errorf("%d observations have a cause", caused)
	}
	if strings.Contains(s.log.String(), "tea-leaf") {
		t.Errorf("the log: %s", s.log)
	}
}

func TestVariantsOfSignedContentAreStoredAFewTimesOnly(t *testing.T) {
	t.Parallel()
	p := webhookProducer()
	scheme := &verify.HMAC{Headers: []string{"Signature"}, Encoding: verify.Hex, Content: "{jcs}",
		Secrets: verify.Secrets("s")}
	p.Scheme, p.Key = scheme, producer.JSON("id")
	s := serve(t, p, nil)
	for i := range 2 * maxReplayed {
		body := `{"id":"a"` + strings.Repeat(" ", i) + "}"
		r := s.request(req{body: body})
		if err := scheme.Sign(r, []byte(body), time.Now()); err != nil {
			t.Fatal(err)
		}
		resp, err := client.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		if _ = resp.Body.Close(); resp.StatusCode != 200 {
			t.Fatal(resp.StatusCode)
		}
	}
	if got := s.byReason(); got[""] != 1 || got["replayed"] != maxReplayed || got["conflict"] != 0 {
		t.Errorf("kept %v", got)
	}
}

func TestUnsignedIdentifierRevealsNoResponse(t *testing.T) {
	t.Parallel()
	p := webhookProducer()
	p.Fingerprint = producer.FingerprintNone
	s := serve(t, p, nil, Answer("shop", "*", func(_ context.Context, ev Event[[]byte]) (Response, error) {
		return Response{Body: append([]byte("answer to "), ev.Body...)}, nil
	}))
	s.send(req{id: "a", body: "1"})
	s.send(req{id: "b", body: "2"})
	if g := s.send(req{id: "b", body: "1"}); g.status != 200 || g.replayed() || strings.Contains(g.body, "answer") {
		t.Errorf("%+v", g)
	}
	if got := s.byReason(); got[""] != 2 || got["replayed"] != 1 {
		t.Errorf("kept %v", got)
	}
}

func TestStaleEmptyBatchIsRefused(t *testing.T) {
	t.Parallel()
	p := webhookProducer()
	p.Key, p.Type, p.Split = nil, nil, func(*producer.Delivery) ([]producer.Item, error) { return nil, nil }
	s := serve(t, p, nil)
	old := http.Header{"Signed-At": {fmt.Sprint(time.Now().Add(-time.Hour).Unix())}}
	wantProblem(t, s.send(req{body: "[]", header: old}), 401, "timestamp_too_old")
	if g := s.send(req{body: "[]"}); g.status != 200 {
		t.Errorf("%+v", g)
	}
}

func TestAnEventDoesNotNameTheKeyThatSignedIt(t *testing.T) {
	t.Parallel()
	p := webhookProducer()
	p.Key, p.Type, p.Split, p.Scheme = nil, nil, producer.SplitCloudEvents, verify.HeaderValue("X-Token",
		"0123456789abcdef")
	s := serve(t, p, nil)
	s.send(req{body: "{}", header: http.Header{
		"Ce-Id": {"1"}, "Ce-Source": {"/shop"}, "Ce-Type": {"order"}, "Ce-Specversion": {"1.0"}, "Ce-Keyid": {"k1"},
		"X-Token": {"0123456789abcdef"},
	}})
	rec := s.records()[0]
	if _, named := rec.Payload.Attributes["keyid"]; named || rec.Payload.Attributes["source"] != "/shop" {
		t.Errorf("attributes %v", rec.Payload.Attributes)
	}
}

// The type is not signed. After a transient failure of the first handler, a captured delivery
// with another type runs that handler again, and no other.
func TestReleasedEventKeepsItsHandler(t *testing.T) {
	t.Parallel()
	contracts(t, func(t *testing.T, p producer.Producer) {
		for _, compared := range []producer.FingerprintFunc{producer.FingerprintBody, producer.FingerprintNone} {
			p.Fingerprint = compared
			var fails atomic.Bool
			fails.Store(true)
			others := newCounter()
			s := serve(t, p, nil,
				Answer("shop", "order", func(context.Context, Event[[]byte]) (Response, error) {
					if fails.Load() {
						return Response{}, errors.New("later")
					}
					return Response{Status: 201}, nil
				}),
				Answer("shop", "refund",
					func(context.Context, Event[[]byte]) (Response, error) { others.add(); return Response{}, nil }),
				On("shop", "audit", func(context.Context, Event[[]byte]) error { others.add(); return nil }))
			order := req{id: "k1", typ: "order", body: "{}"}
			if g := s.send(order); g.status != 503 {
				t.Fatalf("%+v", g)
			}
			for _, typ := range []string{"refund", "audit", ""} {
				forged := order
				forged.typ = typ
				wantProblem(t, s.send(forged), 503, "answer_failed")
			}
			fails.Store(false)
			if g := s.send(order); g.status != 201 || g.replayed() {
				t.Errorf("the producer's own retry: %+v", g)
			}
			if n := others.count(); n != 0 {
				t.Errorf("other handlers ran %d times", n)
			}
		}
	})
}

// A signature of the body does not cover the fields beside it.
func TestCapturedBatchIsNotAnEventInBinaryMode(t *testing.T) {
	t.Parallel()
	const batch = `[{"specversion":"1.0","id":"1","source":"/shop","type":"order"},{"specversion":"1.0","id":"2",` +
		`"source":"/shop","type":"order"}]`
	binary := http.Header{"Ce-Id": {"9"}, "Ce-Source": {"/bank"}, "Ce-Type": {"transfer"}, "Ce-Specversion": {"1.0"}}
	for name, change := range map[string]func(*producer.Producer){
		"split": func(p *producer.Producer) { p.Key, p.Type, p.Split = nil, nil, producer.SplitCloudEvents },
		"extractor": func(p *producer.Producer) {
			p.Key = mustExtract(t, "cloudevent:id")
			p.Type = mustExtract(t, "cloudevent:type")
		},
	} {
		p := webhookProducer()
		change(&p)
		s := serve(t, p, nil)
		sent := 0
		if p.Split != nil {
			if g := s.send(req{body: batch,
				header: http.Header{"Content-Type": {"application/cloudevents-batch+json"}}}); g.status != 200 {
				t.Fatalf("%s: %+v", name, g)
			}
			sent = 2
		}
		wantProblem(t, s.send(req{body: batch, header: binary}), 401, "insufficient_coverage")
		if n := len(s.records()); n != sent {
			t.Errorf("%s: %d records", name, n)
		}
		// Signed attributes come from the producer.
		p.Scheme = testScheme{covered: []string{"ce-id", "ce-source", "ce-type", "ce-specversion"}}
		if g := serve(t, p, nil).send(req{body: "{}", header: binary}); g.status != 200 {
			t.Errorf("%s, covered: %+v", name, g)
		}
	}
}

func mustExtract(t *testing.T, source string) producer.Extractor {
	t.Helper()
	x, err := producer.ParseExtractor(source)
	if err != nil {
		t.Fatal(err)
	}
	return x
}
