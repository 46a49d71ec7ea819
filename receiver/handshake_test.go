package receiver

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"

	"github.com/eyelet-dev/eyelet/dedup"
	"github.com/eyelet-dev/eyelet/producer"
	"github.com/eyelet-dev/eyelet/verify"
)

func TestUnsignedChallengeIsAnsweredOnlyWhereConfigured(t *testing.T) {
	t.Parallel()
	p := webhookProducer()
	p.ChallengeMethods = []string{"GET", "OPTIONS"}
	p.Challenge = func(r *http.Request) (*dedup.Response, error) {
		switch r.URL.Query().Get("mode") {
		case "subscribe":
			return &dedup.Response{Body: []byte("<script>" + r.URL.Host)}, nil
		case "unwanted":
			return &dedup.Response{Status: http.StatusNotFound}, &verify.Error{Code: verify.ChallengeUnexpected,
				Err: errors.New("private-cause")}
		case "wrong":
			return nil, &verify.Error{Code: verify.ChallengeUnexpected, Err: errors.New("private-cause")}
		}
		return nil, nil
	}
	s := serve(t, p, nil, mustNotRun(t))
	g := s.send(req{method: "GET", path: "/webhooks/shop?mode=subscribe", header: http.Header{"Sig": nil}})
	if g.status != 200 || g.body != "<script>hooks.example" ||
		!strings.HasPrefix(g.header.Get("Content-Type"), "text/plain") ||
		g.header.Get("X-Content-Type-Options") != "nosniff" {
		t.Errorf("%+v", g)
	}
	wantProblem(t, s.send(req{method: "GET", path: "/webhooks/shop?mode=wrong"}), 403, "challenge_unexpected")
	wantProblem(t, s.send(req{method: "GET", path: "/webhooks/shop?mode=unwanted"}), 404, "challenge_unexpected")
	if codes := s.seen.codes("delivery"); codes[len(codes)-1] != "challenge_unexpected" ||
		!strings.Contains(s.log.String(), "private-cause") {
		t.Errorf("the reason is not in the log: %v\n%s", codes, s.log)
	}
	g = s.send(req{method: "GET"})
	if wantProblem(t, g, 405, "method_not_allowed"); g.header.Get("Allow") != "GET, HEAD, OPTIONS, POST" {
		t.Error(g.header.Get("Allow"))
	}
	wantProblem(t, s.send(req{method: "DELETE", path: "/webhooks/shop?mode=subscribe"}), 405, "method_not_allowed")
	if n := len(s.records()); n != 0 {
		t.Errorf("%d records", n)
	}
}

func TestSignedHandshakeNeedsNoIdentifierAndComesAfterTheSignature(t *testing.T) {
	t.Parallel()
	p := webhookProducer()
	p.Handshake = func(_ context.Context, d *producer.Delivery) (*dedup.Response, error) {
		if !strings.HasPrefix(string(d.Body), "challenge") {
			return nil, nil
		}
		return &dedup.Response{Header: http.Header{"Content-Type": {"application/json"}}, Body: d.Body}, nil
	}
	runs := newCounter()
	s := serve(t, p, nil, countingOn(runs))
	if g := s.send(req{body: "challenge 1"}); g.status != 200 || g.body != "challenge 1" ||
		g.header.Get("Content-Type") != "application/json" {
		t.Errorf("%+v", g)
	}
	for code, status := range map[string]int{"signature_missing": 401, "key_unknown": 401} {
		if g := s.send(req{body: "challenge 1", header: http.Header{"Sig": {code}}}); g.status != status {
			t.Errorf("%+v", g)
		}
	}
	wantProblem(t, s.send(req{body: "challenge 1", header: http.Header{"Signed-At": {"1000000000"}}}), 401,
		"timestamp_too_old")
	wantProblem(t, s.send(req{body: "an event without its identifier"}), 400, "idempotency_key_missing")
	if n := len(s.records()); n != 0 {
		t.Errorf("%d records", n)
	}
	if g := s.send(req{id: "k1", body: "1"}); g.status != 200 {
		t.Errorf("%+v", g)
	}
	runs.await(t)
}

func TestRecordKeepsTheDeliveryWithoutItsCredentials(t *testing.T) {
	t.Parallel()
	p := apiProducer()
	p.SecretHeaders, p.SecretQuery = []string{"Api-Key"}, []string{"token"}
	s := serve(t, p, nil)
	g := s.send(req{
		id: `"k1";v=1`, typ: "order.paid", body: `{"a":1}`, path: "/webhooks/shop?token=secret-token&a=1",
		header: http.Header{"Api-Key": {"secret-key"}, "Authorization": {"Bearer secret-bearer"},
			"Cookie": {"secret=cookie"}},
	})
	if g.status != 202 {
		t.Fatalf("%+v", g)
	}
	rec := s.records()[0]
	want := dedup.Key{Principal: "shop", Endpoint: "shop?a=1", ID: "k1"}
	if rec.Key != want {
		t.Errorf("%+v", rec.Key)
	}
	pay := rec.Payload
	if pay.Type != "order.paid" || pay.KeyField != `"k1";v=1` || pay.Method != http.MethodPost ||
		string(pay.Body) != `{"a":1}` ||
		pay.Target != "/webhooks/shop?token=REDACTED&a=1" || pay.Attributes["keyid"] != "k1" ||
		pay.Header.Get("Sig") == "" {
		t.Errorf("%+v", pay)
	}
	for _, values := range pay.Header {
		if strings.Contains(strings.Join(values, " "), "secret") {
			t.Errorf("a credential is stored: %v", values)
		}
	}
	if strings.Contains(s.log.String(), "secret") || strings.Contains(s.log.String(), `{"a":1}`) {
		t.Error("a secret or the payload is in the log:", s.log.String())
	}
}

func TestPrincipalsAndKeysAreSeparate(t *testing.T) {
	t.Parallel()
	runs := newCounter()
	s := serve(t, apiProducer(), nil, countingOn(runs))
	for _, who := range []string{"", "alice", "bob"} {
		if g := s.send(req{id: "k1", header: http.Header{"Principal": {who}}}); g.replayed() {
			t.Errorf("%q is known from another principal: %+v", who, g)
		}
		runs.await(t)
	}
	for query, replay := range map[string]bool{"?t=a": false, "?t=b": false} {
		if g := s.send(req{id: "k1", path: "/webhooks/shop" + query}); g.replayed() != replay {
			t.Errorf("%s: %+v", query, g)
		}
		runs.await(t)
	}
	if g := s.send(req{id: `"k1"`}); !g.replayed() {
		t.Error("a quoted key is a different key:", g)
	}
}

func TestObservationsDescribeDeliveriesAndAttempts(t *testing.T) {
	t.Parallel()
	s := serve(t, apiProducer(), nil,
		Answer("shop", "*", func(context.Context, Event[raw]) (Response, error) { return Response{}, nil }))
	s.send(req{id: "k1", typ: "t"})
	s.send(req{id: "k1", typ: "t"})
	s.send(req{id: "k1", header: http.Header{"Sig": {"key_unknown"}}})
	s.send(req{path: "/x"})
	waitFor(t, func() bool { return len(s.seen.codes("delivery")) == 4 })
	s.seen.mu.Lock()
	defer s.seen.mu.Unlock()
	var got []string
	for _, o := range s.seen.all {
		got = append(got, string(o.Kind)+" "+string(o.Code)+o.Reason)
		if o.Kind == "delivery" && o.Status == 204 &&
			(o.ID != "k1" || o.Type != "t" || o.Event == "" || o.Endpoint != "shop") {
			t.Errorf("%+v", o)
		}
		if o.Kind == "attempt" && (o.Handler != "shop/*" || o.Attempt != 1 || o.State != dedup.Done) {
			t.Errorf("%+v", o)
		}
	}
	if want := "attempt ,delivery answered,delivery replayed,delivery key_unknown,delivery not_found"; strings.Join(got,
		",") != want {
		t.Error(got)
	}
}
