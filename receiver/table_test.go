package receiver

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/eyelet-dev/eyelet/dedup"
	"github.com/eyelet-dev/eyelet/dedup/deduptest"
	"github.com/eyelet-dev/eyelet/producer"
	"github.com/eyelet-dev/eyelet/verify"
)

// mustNotRun is a handler that must not run.
func mustNotRun(t *testing.T) Handler {
	return On("shop", "*", func(context.Context, Event[[]byte]) error {
		t.Error("a handler ran")
		return nil
	})
}

func TestHeadDecidesBeforeAnythingElse(t *testing.T) {
	t.Parallel()
	early := func(v ...string) http.Header { return http.Header{"Early-Data": v} }
	rows := []struct {
		name   string
		req    req
		status int
		code   string
		header map[string]string
	}{
		{"unknown endpoint", req{path: "/webhooks/other"}, 404, "not_found", nil},
		{"encoded slash", req{path: "/webhooks%2Fshop"}, 404, "not_found", nil},
		{"another case", req{path: "/Webhooks/shop"}, 404, "not_found", nil},
		{"root", req{path: "/"}, 404, "not_found", nil},
		{"foreign host", req{host: "evil.example"}, 421, "host_unknown", nil},
		{"get", req{method: "GET"}, 405, "method_not_allowed", map[string]string{"Allow": "HEAD, POST"}},
		{"put", req{method: "PUT"}, 405, "method_not_allowed", map[string]string{"Allow": "HEAD, POST"}},
		{"delete", req{method: "DELETE"}, 405, "method_not_allowed", map[string]string{"Allow": "HEAD, POST"}},
		{"options", req{method: "OPTIONS"}, 405, "method_not_allowed", map[string]string{"Allow": "HEAD, POST"}},
		{"unheard of", req{method: "FROBNICATE"}, 405, "method_not_allowed", map[string]string{"Allow": "HEAD, POST"}},
		{"early data", req{header: early("1")}, 425, "early_data", nil},
		{"early data, invalid", req{header: early("0")}, 425, "early_data", nil},
		{"early data, empty", req{header: early("")}, 425, "early_data", nil},
		{"early data, twice", req{header: early("1", "1")}, 425, "early_data", nil},
		{
			"media type", req{header: http.Header{"Content-Type": {"image/png"}}}, 415, "media_type_unsupported",
			map[string]string{"Accept-Post": "application/json, text/*", "Accept": "application/json, text/*"},
		},
		{"no media type", req{header: http.Header{"Content-Type": nil}}, 415, "media_type_unsupported", nil},
		{"declared length", req{body: strings.Repeat("x", 101)}, 413, "body_too_large", nil},
		{"chunked length", req{body: strings.Repeat("x", 101), chunked: true}, 413, "body_too_large", nil},
	}
	contracts(t, func(t *testing.T, p producer.Producer) {
		p.MaxBody, p.MediaTypes = 100, []string{"application/json", "text/*"}
		s := serve(t, p, func(c *Config) { c.Hosts = []string{"127.0.0.1", "hooks.example:443"} })
		for _, row := range rows {
			row.req.id = "k1"
			g := s.send(row.req)
			t.Log(row.name)
			wantProblem(t, g, row.status, row.code)
			for name, want := range row.header {
				if g.header.Get(name) != want {
					t.Errorf("%s: %s is %q, want %q", row.name, name, g.header.Get(name), want)
				}
			}
			if row.status == 413 && !g.close {
				t.Errorf("%s: the connection is still open", row.name)
			}
		}
		if n := len(s.records()); n != 0 {
			t.Errorf("%d records", n)
		}
		if g := s.send(req{id: "k1",
			header: http.Header{"Content-Type": {"Text/Plain; charset=utf-8"}}}); g.status/100 != 2 {
			t.Errorf("a media type that matches a wildcard: %+v", g)
		}
	})
}

// refusedSignatures are the answers to the codes of package verify, and to one that nobody knows.
var refusedSignatures = map[verify.Code]struct {
	status int
	code   string
}{
	verify.SignatureMissing: {401, "signature_missing"}, verify.SignatureMalformed: {400, "signature_malformed"},
	verify.SignatureMismatch: {401, "signature_invalid"}, verify.KeyUnknown: {401, "signature_invalid"},
	verify.AlgorithmMismatch:    {401, "signature_invalid"},
	verify.AlgorithmNotAllowed:  {401, "algorithm_not_allowed"},
	verify.VersionUnsupported:   {401, "version_unsupported"},
	verify.InsufficientCoverage: {401, "insufficient_coverage"},
	verify.ComponentUnsupported: {400, "component_unsupported"}, verify.AmbiguousField: {400, "ambiguous_field"},
	verify.DigestMissing: {401, "digest_missing"}, verify.DigestMismatch: {401, "digest_mismatch"},
	verify.BodyHashMismatch: {401, "body_hash_mismatch"}, verify.TimestampMissing: {401, "timestamp_missing"},
	verify.TimestampMalformed: {400, "timestamp_malformed"}, verify.TimestampTooOld: {401, "timestamp_too_old"},
	verify.TimestampTooNew: {401, "timestamp_too_new"}, verify.NonceReused: {401, "nonce_reused"},
	verify.KeysUnavailable: {503, "keys_unavailable"}, verify.IDMissing: {400, "idempotency_key_missing"},
	verify.CredentialsMissing:  {401, "credentials_missing"},
	verify.CredentialsMismatch: {401, "credentials_mismatch"},
	verify.TokenMissing:        {401, "token_missing"}, verify.TokenMalformed: {401, "token_malformed"},
	verify.TokenExpired: {401, "token_expired"}, verify.TokenNotYetValid: {401, "token_not_yet_valid"},
	verify.AudienceMismatch: {401, "audience_mismatch"}, verify.IssuerMismatch: {401, "issuer_mismatch"},
	verify.SubjectMismatch: {401, "subject_mismatch"}, verify.CertURLUntrusted: {401, "cert_url_untrusted"},
	verify.CertUntrusted: {401, "cert_untrusted"}, verify.CertExpired: {401, "cert_expired"},
	verify.TopicUnexpected: {403, "topic_unexpected"}, verify.ChallengeUnexpected: {403, "challenge_unexpected"},
	verify.EventMalformed: {400, "event_malformed"}, verify.MediaTypeUnsupported: {415, "media_type_unsupported"},
	"a code that nobody knows": {500, "internal_error"},
}

func TestRefusedSignatureIsAnsweredByItsRow(t *testing.T) {
	t.Parallel()
	contracts(t, func(t *testing.T, p producer.Producer) {
		s := serve(t, p, nil, mustNotRun(t))
		bodies := map[string]string{}
		for code, want := range refusedSignatures {
			g := s.send(req{id: "k1", header: http.Header{"Sig": {string(code)}}})
			t.Log(code)
			if p.Contract == producer.Webhook && want.status == 400 {
				want.status = 401 // vendors test with a signature that does not even decode
			}
			wantProblem(t, g, want.status, want.code)
			if (g.status == 401) != (g.header.Get("WWW-Authenticate") == `Signature realm="shop"`) {
				t.Errorf("WWW-Authenticate %q", g.header.Get("WWW-Authenticate"))
			}
			if (g.status == 401) != (g.header.Get("Accept-Signature") == testScheme{}.AcceptSignature()) {
				t.Errorf("Accept-Signature %q", g.header.Get("Accept-Signature"))
			}
			bodies[string(code)] = g.body
			if !strings.Contains(s.log.String(), "code="+string(code)) && want.status != 500 {
				t.Errorf("%q is not in the log", code)
			}
		}
		if bodies["key_unknown"] != bodies["signature_mismatch"] ||
			bodies["key_unknown"] != bodies["algorithm_mismatch"] {
			t.Error("responses reveal which keys exist")
		}
		if n := len(s.records()); n != 0 {
			t.Errorf("%d records", n)
		}
	})
}

func TestComponentAtFaultIsNamed(t *testing.T) {
	t.Parallel()
	s := serve(t, apiProducer(), nil)
	g := s.send(req{id: "k1", header: http.Header{"Sig": {"insufficient_coverage"}, "Component": {"content-digest"}}})
	if wantProblem(t, g, 401, "insufficient_coverage"); !strings.Contains(g.body, "content-digest") {
		t.Error(g.body)
	}
	g = s.send(req{id: "k1", header: http.Header{"Sig": {"digest_missing"}}})
	if g.header.Get("Want-Content-Digest") == "" {
		t.Error("no Want-Content-Digest")
	}
}

func TestNonceOfAnotherEventIsRefused(t *testing.T) {
	t.Parallel()
	contracts(t, func(t *testing.T, p producer.Producer) {
		p.Nonce = producer.NonceUnique
		runs := newCounter()
		s := serve(t, p, nil, countingOn(runs))
		nonce := http.Header{"Nonce": {"n1"}}
		if g := s.send(req{id: "k1", body: "1", header: nonce}); g.status/100 != 2 {
			t.Fatal(g)
		}
		if g := s.send(req{id: "k1", body: "1", header: nonce}); g.status/100 != 2 || !g.replayed() {
			t.Fatal("the same event with its nonce again:", g)
		}
		wantProblem(t, s.send(req{id: "k2", body: "2", header: nonce}), 401, "nonce_reused")
		runs.await(t)
		if len(s.records()) != 1 {
			t.Error("the refused event was stored")
		}
	})
}

func TestStaleDuplicateIsAnsweredWhereConfigured(t *testing.T) {
	t.Parallel()
	contracts(t, func(t *testing.T, p producer.Producer) {
		runs := newCounter()
		s := serve(t, p, nil, countingOn(runs))
		first := s.send(req{id: "k1", body: "1"})
		runs.await(t)
		stale := http.Header{"Signed-At": {"1000000000"}}
		again := s.send(req{id: "k1", body: "1", header: stale})
		if p.StaleKnown {
			if again.status != first.status || !again.replayed() || again.body != first.body {
				t.Fatalf("%+v", again)
			}
		} else {
			wantProblem(t, again, 401, "timestamp_too_old")
		}
		wantProblem(t, s.send(req{id: "k1", body: "2", header: stale}), 401, "timestamp_too_old")
		wantProblem(t, s.send(req{id: "k2", body: "1", header: stale}), 401, "timestamp_too_old")
		if len(s.records()) != 1 || runs.count() != 1 {
			t.Errorf("%d records, %d runs", len(s.records()), runs.count())
		}
	})
}

func TestEarlyDataNeedsASignedFreshTime(t *testing.T) {
	t.Parallel()
	contracts(t, func(t *testing.T, p producer.Producer) {
		p.EarlyData = true
		runs := newCounter()
		s := serve(t, p, nil, countingOn(runs))
		if g := s.send(req{id: "k1", header: http.Header{"Early-Data": {"1"}}}); g.status/100 != 2 {
			t.Fatal(g)
		}
		runs.await(t)
		wantProblem(t, s.send(req{id: "k1", header: http.Header{"Early-Data": {"1"}, "Signed-At": {"1000000000"}}}),
			401, "timestamp_too_old")
		wantProblem(t, s.send(req{id: "k2", header: http.Header{"Early-Data": {"1"}, "Signed-At": nil}}), 425,
			"early_data")
	})
}

func TestAnotherPayloadUnderAKnownKey(t *testing.T) {
	t.Parallel()
	contracts(t, func(t *testing.T, p producer.Producer) {
		runs := newCounter()
		s := serve(t, p, nil, countingOn(runs))
		first := s.send(req{id: "k1", body: "1"})
		runs.await(t)
		for range 2 {
			g := s.send(req{id: "k1", body: "2"})
			if p.Contract == producer.API {
				wantProblem(t, g, 422, "idempotency_key_reused")
			} else if g.status != 200 || g.replayed() ||
				strings.Contains(g.body, s.records()[len(s.records())-1].Event) {
				t.Fatalf("%+v", g)
			}
		}
		if g := s.send(req{id: "k1", body: "1"}); g.body != first.body || !g.replayed() {
			t.Errorf("the record changed: %+v", g)
		}
		recs := s.records()
		if p.Contract == producer.API {
			if len(recs) != 1 {
				t.Fatalf("%d records", len(recs))
			}
			return
		}
		if len(recs) != 2 {
			t.Fatalf("%d records, want the event and one quarantined", len(recs))
		}
		aside := recs[0]
		if aside.QuarantineReason != "conflict" || aside.Original != recs[1].Event ||
			string(aside.Payload.Body) != "2" || aside.State() != dedup.Dead {
			t.Errorf("quarantined: %+v", aside)
		}
		if runs.count() != 1 {
			t.Errorf("%d runs", runs.count())
		}
	})
}

func TestSameSignedBytesUnderAnotherIdentifier(t *testing.T) {
	t.Parallel()
	unbound := apiProducer()
	unbound.Scheme = testScheme{}
	rows := []struct {
		name        string
		p           producer.Producer
		policy      producer.SameSigned
		status      int
		quarantined int
		events      int
	}{
		{"api", unbound, producer.SameSignedDefault, 401, 0, 1},
		{"webhook", webhookProducer(), producer.SameSignedDefault, 200, 16, 1},
		{"webhook that refuses", webhookProducer(), producer.SameSignedRefuse, 401, 0, 1},
		{"webhook without", webhookProducer(), producer.SameSignedOff, 200, 0, 21},
		{"api, identifier bound", apiProducer(), producer.SameSignedDefault, 202, 0, 21},
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			runs := newCounter()
			row.p.SameSigned = row.policy
			s := serve(t, row.p, nil, countingOn(runs))
			s.send(req{id: "k0", body: "same"})
			for i := range 20 {
				g := s.send(req{id: fmt.Sprintf("k%d", i+1), body: "same"})
				if g.status != row.status {
					t.Fatalf("%+v", g)
				}
				if g.status == 401 {
					wantProblem(t, g, 401, "signature_reused")
				}
			}
			events, quarantined, counted := 0, 0, 0
			for _, rec := range s.records() {
				if rec.QuarantineReason != "" {
					quarantined++
				} else {
					events++
				}
				counted = max(counted, rec.QuarantineCount)
			}
			if events != row.events || quarantined != row.quarantined || quarantined > 0 && counted != 20 {
				t.Errorf("%d events, %d quarantined, %d counted", events, quarantined, counted)
			}
			for range row.events {
				runs.await(t)
			}
			if runs.count() != row.events {
				t.Errorf("%d runs", runs.count())
			}
		})
	}
}

func TestKeyMissingOrMalformed(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", 1025)
	for _, required := range []bool{true, false} {
		contracts(t, func(t *testing.T, p producer.Producer) {
			p.KeyRequired = required
			p.Key = producer.IdempotencyKey{}
			s := serve(t, p, nil)
			malformed := map[string][]string{"two lines": {`"a"`, `"b"`}, "garbage": {`"a`}, "two words": {"a b"},
				"long": {long}}
			n := 0
			for name, lines := range malformed {
				n++
				g := s.send(req{body: fmt.Sprint(n), header: http.Header{"Idempotency-Key": lines}})
				if digests := p.Contract == producer.Webhook && !required; digests != (g.status == 200) ||
					!digests && g.status != 400 {
					t.Errorf("%s: %+v", name, g)
				}
			}
			missing := s.send(req{body: "missing"})
			switch {
			case required:
				wantProblem(t, missing, 400, "idempotency_key_missing")
			case missing.status/100 != 2:
				t.Errorf("%+v", missing)
			case !strings.HasPrefix(s.records()[0].Key.ID, "sha256:"):
				t.Errorf("key %+v", s.records()[0].Key)
			}
			if wants := p.Contract == producer.Webhook && !required; wants != (len(s.records()) > 1) {
				t.Errorf("%d records", len(s.records()))
			}
		})
	}
}

// splitLines splits a batch into lines. The first word of a line is its identifier.
func splitLines(d *producer.Delivery) ([]producer.Item, error) {
	var items []producer.Item
	for line := range strings.Lines(string(d.Body)) {
		id, _, _ := strings.Cut(strings.TrimSpace(line), " ")
		items = append(items, producer.Item{ID: id, Body: []byte(line)})
	}
	return items, nil
}

func TestBatchIsStoredWholeAndAConflictingItemQuarantined(t *testing.T) {
	t.Parallel()
	contracts(t, func(t *testing.T, p producer.Producer) {
		p.Split, p.Key = splitLines, nil
		runs := newCounter()
		s := serve(t, p, nil, On("shop", "*", func(context.Context, Event[[]byte]) error { runs.add(); return nil }))
		want := map[producer.Contract]int{producer.API: 202, producer.Webhook: 200}[p.Contract]
		if g := s.send(req{body: "a 1\nb 1\n"}); g.status != want || g.replayed() {
			t.Fatalf("%+v", g)
		}
		for range 2 {
			if g := s.send(req{body: "a 1\nb 2\nc 1\n"}); g.status != want || g.replayed() {
				t.Fatalf("%+v", g)
			}
		}
		if g := s.send(req{body: "a 1\nc 1\n"}); g.status != want || !g.replayed() {
			t.Fatalf("%+v", g)
		}
		if g := s.send(req{body: ""}); g.status != want {
			t.Fatalf("an empty batch: %+v", g)
		}
		var ids []string
		for _, rec := range s.records() {
			ids = append(ids, rec.Key.ID+rec.QuarantineReason)
		}
		slices.Sort(ids)
		if !slices.Equal(ids, []string{"a", "b", "bconflict", "c"}) {
			t.Errorf("%v", ids)
		}
		for range 3 {
			runs.await(t)
		}
	})
}

// brokenStore returns the errors of a test.
type brokenStore struct {
	dedup.Store
	claim  error
	finish error
}

func (b *brokenStore) Claim(ctx context.Context, c ...dedup.Claim) ([]dedup.Decision, error) {
	if b.claim != nil {
		return nil, b.claim
	}
	return b.Store.Claim(ctx, c...)
}

func (b *brokenStore) Finish(ctx context.Context, l dedup.Lease, r dedup.Result) error {
	if b.finish != nil {
		return b.finish
	}
	return b.Store.Finish(ctx, l, r)
}

// FinishMany implements dedup.Store.
func (b *brokenStore) FinishMany(ctx context.Context, results ...dedup.LeaseResult) []error {
	return deduptest.FinishEach(ctx, b, results)
}

func (b *brokenStore) Health(ctx context.Context) error {
	if b.claim != nil {
		return b.claim
	}
	return b.Store.Health(ctx)
}

func TestFailingStoreIsAnsweredByItsRow(t *testing.T) {
	t.Parallel()
	rows := []struct {
		err    error
		status int
		code   string
		after  string
	}{
		{&dedup.ErrUnavailable{Reason: "disk low at /secret/path", RetryAfter: 100 * time.Second}, 503,
			"store_unavailable", "1"},
		{dedup.ErrClosed, 503, "store_unavailable", ""},
		{errors.New("dsn=postgres://user:secret@db"), 503, "store_unavailable", ""},
		{context.DeadlineExceeded, 503, "store_unavailable", ""},
		{fmt.Errorf("wrapped: %w", dedup.ErrTooLarge), 413, "batch_too_large", ""},
		{dedup.ErrInvalid, 500, "internal_error", ""},
	}
	contracts(t, func(t *testing.T, p producer.Producer) {
		broken := &brokenStore{}
		s := serve(t, p, func(c *Config) { broken.Store, c.Store = c.Store, broken })
		for _, row := range rows {
			broken.claim = row.err
			g := s.send(req{id: "k1"})
			wantProblem(t, g, row.status, row.code)
			if strings.Contains(g.body, "secret") {
				t.Error(g.body)
			}
			if row.after != "" && len(g.header.Get("Retry-After")) != 3 { // 100 s and up to half more
				t.Errorf("retry-after %q", g.header.Get("Retry-After"))
			}
			if err := s.rx.Ready(t.Context()); err == nil {
				t.Error("ready with a broken store")
			}
		}
		broken.claim = nil
		if g := s.send(req{id: "k1"}); g.status/100 != 2 || g.replayed() {
			t.Errorf("after the store recovered: %+v", g)
		}
		if err := s.rx.Ready(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

func TestBusyShuttingDownAndInternalErrors(t *testing.T) {
	t.Parallel()
	contracts(t, func(t *testing.T, p producer.Producer) {
		p.MaxBody = 1 << 10
		s := serve(t, p, func(c *Config) { c.BodyBudget = 1 << 10 }, mustNotRun(t))
		wantProblem(t, s.send(req{id: "k1", header: http.Header{"Sig": {"panic"}}}), 500, "internal_error")
		if log := s.log.String(); strings.Contains(log, "secret-payload") || !strings.Contains(log, "level=ERROR") {
			t.Error("the log of the panic:", log)
		}
		other := s.rx.limiter.Admit("shop", netip.Addr{}, time.Now())
		if !other.Hold(1) {
			t.Fatal("the panic did not release the budget")
		}
		wantProblem(t, s.send(req{id: "k1", body: strings.Repeat("x", 1<<10)}), 503, "busy")
		other.Release()
		if err := s.rx.Shutdown(t.Context()); err != nil {
			t.Fatal(err)
		}
		wantProblem(t, s.send(req{id: "k1"}), 503, "shutting_down")
		if err := s.rx.Ready(t.Context()); err == nil {
			t.Error("ready after Shutdown")
		}
	})
}

func TestAddressesAreChecked(t *testing.T) {
	t.Parallel()
	contracts(t, func(t *testing.T, p producer.Producer) {
		p.AllowedIPs = []netip.Prefix{netip.MustParsePrefix("192.0.2.0/24")}
		forwarded := http.Header{"X-Forwarded-For": {"192.0.2.7"}}
		direct := serve(t, p, nil)
		wantProblem(t, direct.send(req{id: "k1", header: forwarded}), 403, "address_refused")
		local := []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}
		proxied := serve(t, p, func(c *Config) { c.TrustedProxies = local })
		if g := proxied.send(req{id: "k1", header: forwarded}); g.status/100 != 2 {
			t.Error(g)
		}
		spoofed := http.Header{"X-Forwarded-For": {"192.0.2.7, 203.0.113.9"}}
		wantProblem(t, proxied.send(req{id: "k1", header: spoofed}), 403, "address_refused")
	})
}

func TestVendorsOwnResponseIsSentAndRepeated(t *testing.T) {
	t.Parallel()
	p := webhookProducer()
	p.Accepted = dedup.Response{Status: 200, Header: http.Header{"Content-Type": {"text/plain"}},
		Body: []byte("[accepted]")}
	s := serve(t, p, nil)
	for i := range 2 {
		g := s.send(req{id: "k1"})
		if g.status != 200 || g.body != "[accepted]" || g.header.Get("Content-Type") != "text/plain" ||
			g.replayed() != (i == 1) {
			t.Errorf("%+v", g)
		}
	}
	p.Accepted = dedup.Response{Status: 200, Body: []byte{}}
	s = serve(t, p, nil)
	for range 2 {
		if g := s.send(req{id: "k1"}); g.status != 200 || g.body != "" || g.header.Get("Content-Type") != "" {
			t.Errorf("%+v", g)
		}
	}
	p.Accepted = dedup.Response{Status: 204}
	s = serve(t, p, nil)
	if g := s.send(req{id: "k1"}); g.status != 204 || g.body != "" || g.header.Get("Content-Length") != "" {
		t.Errorf("%+v", g)
	}
}

func TestPendingAndDeadEventsRepeatTheSameAnswer(t *testing.T) {
	t.Parallel()
	contracts(t, func(t *testing.T, p producer.Producer) {
		runs, release := newCounter(), make(chan struct{})
		s := serve(t, p, nil, On("shop", "*", func(context.Context, Event[json.RawMessage]) error {
			runs.add()
			<-release
			return Reject(errors.New("never"))
		}))
		first := s.send(req{id: "k1", body: "1"})
		runs.await(t)
		for _, state := range []dedup.State{dedup.Running, dedup.Dead} {
			if state == dedup.Dead {
				close(release)
				waitFor(t, func() bool { rec := s.records()[0]; return rec.State() == dedup.Dead })
			}
			if g := s.send(req{id: "k1", body: "1"}); g.status != first.status || g.body != first.body ||
				!g.replayed() {
				t.Errorf("%v: %+v", state, g)
			}
		}
		if runs.count() != 1 {
			t.Errorf("%d runs", runs.count())
		}
	})
}

func TestEventWithoutAHandlerIsStoredWithANote(t *testing.T) {
	t.Parallel()
	contracts(t, func(t *testing.T, p producer.Producer) {
		s := serve(t, p, nil)
		if g := s.send(req{id: "k1", body: "1"}); g.status/100 != 2 {
			t.Fatal(g)
		}
		rec := s.records()[0]
		if rec.Note != "no handler" || rec.State() != dedup.Done || string(rec.Payload.Body) != "1" {
			t.Errorf("%+v", rec)
		}
	})
}

// waitFor polls a condition. WaitFor is for the tests outside of the package.
func waitFor(t *testing.T, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(2 * time.Minute); !ok(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("the condition was never true")
		}
	}
}

var WaitFor = waitFor

// An unusable type is refused where the sender reads the response, and dropped where the sender
// would drop the event.
func TestUnusableTypeLosesNoWebhook(t *testing.T) {
	t.Parallel()
	contracts(t, func(t *testing.T, p producer.Producer) {
		seen := make(chan Event[[]byte], 1)
		s := serve(t, p, nil,
			On("shop", "*", func(_ context.Context, ev Event[[]byte]) error { seen <- ev; return nil }).Named("every"),
			On("shop", "xxx*", func(context.Context,
				Event[[]byte]) error {
				t.Error("a prefix of the type matched")
				return nil
			}))
		g := s.send(req{id: "k1", typ: strings.Repeat("x", producer.MaxType+1)})
		if p.Contract == producer.API {
			wantProblem(t, g, 400, "event_malformed")
			return
		}
		if g.status != 200 {
			t.Fatalf("%+v", g)
		}
		if ev := <-seen; ev.Type != "" || ev.ID != "k1" {
			t.Errorf("%q of type %q", ev.ID, ev.Type)
		}
		if rec := s.records()[0]; !strings.Contains(rec.Note, "longer than 1,024 characters") || len(rec.Tasks) != 1 {
			t.Errorf("note %q, %d tasks", rec.Note, len(rec.Tasks))
		}
	})
}
