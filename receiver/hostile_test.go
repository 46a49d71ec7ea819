package receiver

import (
	"context"
	"fmt"
	"net/http"
	"strings"
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
