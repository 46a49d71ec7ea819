package receiver

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/eyelet-dev/eyelet/producer"
	"github.com/eyelet-dev/eyelet/producer/preset"
	"github.com/eyelet-dev/eyelet/verify"
)

// The token authenticates every field, so the Idempotency-Key of a CloudEvent comes from the
// producer: two keys are two events, and one key is one event, whatever source and id are.
func TestASentKeyDecidesUnderABearerToken(t *testing.T) {
	t.Parallel()
	for _, batch := range []bool{false, true} {
		got := make(chan Event[[]byte], 9)
		handler := On("cloudevents", "*", func(_ context.Context, ev Event[[]byte]) error { got <- ev; return nil })
		s := serve(t, preset.Open("cloudevents",
			preset.Settings{Secrets: []string{ceToken}, Batch: batch}), nil, handler)
		for _, step := range []struct {
			id, key  string
			replayed bool
		}{
			{"1", `"ev-1"`, false}, {"1", `"ev-2"`, false}, {"2", `"ev-1"`, true}, {"1", `ev-1`, true},
			{"1", "", false}, {"1", "", true}, {"3", "", false},
		} {
			a := cloudEvent(step.id, "Idempotency-Key", step.key)
			if g := s.send(a); g.status != 200 || g.replayed() != step.replayed {
				t.Errorf("batch %v, %+v: %d %s, replayed %v", batch, step, g.status, g.body, g.replayed())
			}
		}
		if t.Failed() {
			continue
		}
		var ids []string
		for range 4 {
			ev := <-got
			ids = append(ids, ev.ID)
			if ev.ID == "ev-1" && !batch && ev.KeyField != `"ev-1"` {
				t.Errorf("the field was stored as %q", ev.KeyField)
			}
		}
		slices.Sort(ids)
		if want := []string{"/s:1", "/s:3", "ev-1", "ev-2"}; !slices.Equal(ids, want) {
			t.Errorf("batch %v: events %q, want %q", batch, ids, want)
		}
		wantProblem(t, s.send(cloudEvent("1", "Idempotency-Key", `"a`)), 400, "event_malformed")
	}
}

// Delivery by PUT needs an agreement. The policy, the 405 and a granted subscription name the
// accepted methods.
func TestPresetsAcceptPutOnlyWhenConfigured(t *testing.T) {
	t.Parallel()
	for _, vendor := range preset.All() {
		p := vendor.Open(preset.Settings{Name: vendor.Name})
		if slices.Contains(p.WithDefaults().Methods, http.MethodPut) {
			t.Errorf("%s takes PUT", vendor.Name)
		}
	}
	for _, agreed := range []bool{false, true} {
		p := preset.Open("cloudevents",
			preset.Settings{Secrets: []string{ceToken}, Origins: []string{"sender.example"}})
		allow, status := "OPTIONS, POST", 405
		if agreed {
			p.Methods = []string{"POST", "PUT"}
			allow, status = "OPTIONS, POST, PUT", 200
		}
		s := serve(t, p, nil)
		put := cloudEvent("1")
		put.method = http.MethodPut
		if g := s.send(put); g.status != status || !agreed && g.header.Get("Allow") != allow {
			t.Errorf("agreed %v: %d, Allow %q", agreed, g.status, g.header.Get("Allow"))
		}
		g := s.send(req{method: "OPTIONS", header: http.Header{"Webhook-Request-Origin": {"sender.example"}}})
		if g.status != 200 || g.header.Get("Allow") != allow {
			t.Errorf("agreed %v: granted with %d, Allow %q, want %q", agreed, g.status, g.header.Get("Allow"), allow)
		}
		if doc := s.policyData(); strings.Contains(strings.Join(doc.Endpoints[0].Methods, " "), "PUT") != agreed {
			t.Errorf("the policy has %v", doc.Endpoints[0].Methods)
		}
	}
}

// policyData returns the policy as data.
func (s *site) policyData() policyDoc {
	s.t.Helper()
	data, _ := s.policy("?format=json", nil)
	var doc policyDoc
	if err := json.Unmarshal([]byte(data), &doc); err != nil {
		s.t.Fatal(err)
	}
	return doc
}

// The 415 lists media types even if none are configured and the reader of the events refuses
// one.
func TestEvery415ListsWhatIsAccepted(t *testing.T) {
	t.Parallel()
	for _, batch := range []bool{false, true} {
		want := "application/cloudevents+json"
		refused := []string{"application/cloudevents+avro", "application/cloudevents-batch+protobuf",
			"application/cloudevents-batch+json"}
		if batch {
			want += ", application/cloudevents-batch+json"
			refused = refused[:2]
		}
		s := serve(t, preset.Open("cloudevents", preset.Settings{Secrets: []string{ceToken}, Batch: batch}), nil)
		for _, kind := range refused {
			g := s.send(cloudEvent("1", "Content-Type", kind))
			if wantProblem(t, g, 415, "media_type_unsupported"); g.header.Get("Accept-Post") != want ||
				g.header.Get("Accept") != want {
				t.Errorf("%s: Accept-Post %q, Accept %q, want %q", kind, g.header.Get("Accept-Post"),
					g.header.Get("Accept"), want)
			}
		}
	}
}

// See the idempotency draft section 5, and RFC 9421 section 1.4.
func TestThePolicyPublishesKeyFormatAlgorithmsAndStrictness(t *testing.T) {
	t.Parallel()
	word, err := producer.ParseKeyFormat("[a-z]{3}-[0-9]+")
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		format producer.KeyFormat
		strict bool
		algs   []verify.Alg
		want   []string // on the page
		not    string
	}{
		{nil, false, nil, []string{"bare values are the same key", "ed25519", "hmac-sha256", "rsa-pss-sha512"},
			"rsa-v1_5-sha256"},
		{producer.KeyFormatUUID, true, []verify.Alg{verify.Ed25519},
			[]string{"UUID (RFC 9562 section 4)", "values without quotes are refused", "ed25519"}, "hmac-sha256"},
		{word, true, []verify.Alg{verify.HMACSHA256}, []string{"[a-z]{3}-[0-9]&#43;", "hmac-sha256"}, "ed25519"},
	} {
		key, err := verify.NewHMACKey("k", []byte("0123456789abcdef"))
		if err != nil {
			t.Fatal(err)
		}
		p := producer.Signed("shop", verify.StaticKeys(key))
		p.Scheme = &verify.RFC9421{Keys: verify.StaticKeys(key), Algs: tt.algs}
		p.Key, p.KeyFormat = producer.IdempotencyKey{Strict: tt.strict}, tt.format
		s := serve(t, p, nil)
		page, _ := s.policy("", nil)
		for _, want := range tt.want {
			if !strings.Contains(page, want) {
				t.Errorf("%q is not on the page", want)
			}
		}
		if strings.Contains(page, tt.not) {
			t.Errorf("%q is on the page", tt.not)
		}
		e := s.policyData().Endpoints[0]
		if e.Strict != tt.strict || (e.Format == "") != (tt.format == nil) ||
			tt.algs != nil && !slices.Equal(e.Algorithms, []string{string(tt.algs[0])}) {
			t.Errorf("as data: %v %q %v", e.Strict, e.Format, e.Algorithms)
		}
	}
}

// The producer's developer can see what to change.
func TestA400NamesItsLimit(t *testing.T) {
	t.Parallel()
	p := apiProducer()
	s := serve(t, p, nil)
	p.KeyFormat = producer.KeyFormatUUID
	formatted := serve(t, p, nil)
	p = apiProducer()
	p.Key, p.Type = producer.JSON("id"), producer.JSON("type")
	inBody := serve(t, p, nil)
	for name, tt := range map[string]struct {
		g    got
		want string
	}{
		"a long key":       {s.send(req{id: `"` + strings.Repeat("k", 1025) + `"`}), "longer than 1,024 characters"},
		"a very long key":  {s.send(req{id: strings.Repeat("k", 9000)}), "longer than 1,024 characters"},
		"a key of another": {formatted.send(req{id: "k1"}), "not a UUID (RFC 9562 section 4)"},
		"a broken key":     {s.send(req{id: `"k`}), "not a string (RFC 9651 section 3.3.3)"},
		"a long type":      {s.send(req{id: "k1", typ: strings.Repeat("t", 1025)}), "longer than 1,024 characters"},
		"a long value":     {inBody.send(req{body: `{"id":"` + strings.Repeat("i", 4097) + `"}`}), "over 4,096 bytes"},
		"a deep body": {inBody.send(req{body: `{"a":` + strings.Repeat("[", 300) + strings.Repeat("]",
			300) + `,"id":"1"}`}), "nested deeper than 256"},
	} {
		t.Log(name)
		wantProblem(t, tt.g, 400, "event_malformed")
		if !strings.Contains(tt.g.body, tt.want) {
			t.Errorf("%s: %s, want %q", name, tt.g.body, tt.want)
		}
	}
}

func TestRefusalOfALargeSignatureNamesTheLimit(t *testing.T) {
	t.Parallel()
	s := serveSigned(t, nil)
	for input, want := range map[string]string{
		`sig1=("` + strings.Repeat("x", 9000) + `");created=1`: "larger than 8 KiB",
		`sig1=(` + manyNames(33) + `);created=1`:               "more than 32 components",
	} {
		g := s.send(req{id: `"k"`, body: "{}",
			header: http.Header{"Signature-Input": {input}, "Signature": {"sig1=:AAAA:"}}})
		if g.status != 400 || !strings.Contains(g.body, want) {
			t.Errorf("%d %s, want %q", g.status, g.body, want)
		}
	}
}

// manyNames returns n component identifiers.
func manyNames(n int) string {
	var names []string
	for i := range n {
		names = append(names, fmt.Sprintf("%q", fmt.Sprintf("x-%d", i)))
	}
	return strings.Join(names, " ")
}

// They get 400 with the problem types of draft-ietf-httpapi-digest-fields-problem-types-06. A
// digest of another body stays 401: a third party may have changed the body.
func TestMalformedDigestsHaveTheirOwnCodes(t *testing.T) {
	t.Parallel()
	const registered = "https://iana.org/assignments/http-problem-types#"
	s := serveSigned(t, nil)
	other, err := verify.ContentDigest([]byte("another body"))
	if err != nil {
		t.Fatal(err)
	}
	for digest, want := range map[string]struct {
		status          int
		code, typ, more string
	}{
		"sha-256=:AAAA:": {400, "digest_invalid", registered + "digest-invalid-values",
			`"invalid-digests":[{"algorithm":"sha-256","header":"Content-Digest","reason":`},
		"sha-256=::": {400, "digest_invalid", registered + "digest-invalid-values", ""},
		"md5=:AAAA:, unixsum=:AAAA:": {
			400, "digest_unsupported", registered + "digest-unsupported-algorithms",
			`"unsupported-algorithms":[{"algorithm":"md5","header":"Content-Digest"},{"algorithm":"unixsum",` +
				`"header":"Content-Digest"}]`,
		},
		"sha-256=AAAA":        {400, "digest_malformed", "https://hooks.example/policy#digest_malformed", ""},
		`sha-256="abc"`:       {400, "digest_malformed", "https://hooks.example/policy#digest_malformed", ""},
		"sha-256=:AAAA:, ,a=": {400, "digest_malformed", "https://hooks.example/policy#digest_malformed", ""},
		other:                 {401, "digest_mismatch", registered + "digest-mismatching-values", ""},
	} {
		g := s.deliverDigest(digest)
		t.Log(digest)
		wantProblem(t, g, want.status, want.code)
		var p struct{ Type string }
		if err := json.Unmarshal([]byte(g.body), &p); err != nil || p.Type != want.typ ||
			!strings.Contains(g.body, want.more) {
			t.Errorf("%s: %s, want the type %s and %s", digest, g.body, want.typ, want.more)
		}
		if (g.header.Get("WWW-Authenticate") != "") != (want.status == 401) ||
			(g.header.Get("Want-Content-Digest") != "") != (want.code == "digest_unsupported") {
			t.Errorf("%s: %v", digest, g.header)
		}
	}
}

// deliverDigest signs and sends a delivery with this Content-Digest.
func (s signedSite) deliverDigest(digest string) got {
	s.t.Helper()
	signed, err := http.NewRequest(http.MethodPost, "https://hooks.example/webhooks/shop", strings.NewReader("{}"))
	if err != nil {
		s.t.Fatal(err)
	}
	signed.Header.Set("Idempotency-Key", `"k"`)
	signed.Header.Set("Content-Type", "application/json")
	signed.Header.Set("Content-Digest", digest)
	if err := s.hmac.Sign(signed, []byte("{}"), time.Now()); err != nil {
		s.t.Fatal(err)
	}
	return s.send(req{body: "{}", header: signed.Header})
}

// The nonce is a new one each time (RFC 9421 section 5.1), and the producer can sign with it.
func TestAcceptSignatureOffersANonceWhereOneIsRequired(t *testing.T) {
	t.Parallel()
	for policy, offers := range map[producer.NoncePolicy]bool{producer.NonceOff: false, producer.NonceRequired: true,
		producer.NonceUnique: true} {
		p := apiProducer()
		p.Nonce = policy
		s := serve(t, p, nil)
		seen := map[string]bool{}
		for range 3 {
			g := s.send(req{id: "k1", header: http.Header{"Sig": {"signature_missing"}}})
			nonce := regexp.MustCompile(`;nonce="([A-Za-z0-9_-]{16,})"$`).
				FindStringSubmatch(g.header.Get("Accept-Signature"))
			if (nonce != nil) != offers {
				t.Errorf("policy %v: Accept-Signature is %s", policy, g.header.Get("Accept-Signature"))
			}
			if offers && nonce != nil {
				if seen[nonce[1]] {
					t.Error("the same nonce was offered twice")
				}
				seen[nonce[1]] = true
			}
		}
		if offers {
			wantProblem(t, s.send(req{id: "k1"}), 401, "insufficient_coverage")
			for nonce := range seen {
				if g := s.send(req{id: "k1", header: http.Header{"Nonce": {nonce}}}); g.status != 202 {
					t.Errorf("with the offered nonce: %d %s", g.status, g.body)
				}
				break
			}
		}
	}
}

// The challenge names a registered scheme only if the credential belongs to it.
func TestAChallengeNamesASchemeThatApplies(t *testing.T) {
	t.Parallel()
	static := func(in verify.Place, name string) verify.Scheme {
		return &verify.Static{In: in, Name: name, Secrets: verify.Secrets("0123456789abcdef")}
	}
	for want, scheme := range map[string]verify.Scheme{
		`Bearer realm="shop"`:                 static(verify.InBearer, ""),
		`Basic realm="shop", charset="UTF-8"`: verify.Basic("user", "0123456789abcdef"),
		`Signature realm="shop"`:              testScheme{},
		`Basic realm="shop", charset="UTF-8", Bearer realm="shop"`: verify.All{verify.Basic("user", "0123456789abcdef"),
			static(verify.InBearer, "")},
	} {
		p := apiProducer()
		p.Scheme = scheme
		g := serve(t, p, nil).send(req{id: "k1", header: http.Header{"Sig": {"signature_missing"}}})
		if g.status != 401 || g.header.Get("WWW-Authenticate") != want {
			t.Errorf("%d %q, want %q", g.status, g.header.Get("WWW-Authenticate"), want)
		}
	}
}
