package explain_test

import (
	"crypto"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/eyelet-dev/eyelet/explain"
	"github.com/eyelet-dev/eyelet/producer"
	"github.com/eyelet-dev/eyelet/verify"
)

// patient returns an explainer for which a slow machine changes nothing.
func patient(config []producer.Producer) *explain.Explainer {
	e := explain.New(config)
	e.Within = time.Hour
	return e
}

// explainPlant explains the delivery of a plant without a receiver.
func explainPlant(t *testing.T, p plant) explain.Report {
	t.Helper()
	r, body := p.request(t)
	r.ContentLength = int64(len(body))
	explainer := patient(p.config)
	report := explainer.Explain(t.Context(), explain.Delivery{
		Endpoint: p.endpoint().Name, Request: r, Body: body, Declared: int64(len(body)), Now: signedAt,
	})
	checkReport(t, p.config, report)
	return report
}

// TestBothBasesAreCompared: values in a query and of credentials are masked.
func TestBothBasesAreCompared(t *testing.T) {
	t.Parallel()
	k := newPair(t, "k2", verify.Ed25519)
	ed := func(b []byte) ([]byte, error) { return k.by.Private.Sign(nil, b, crypto.Hash(0)) }
	parts := k.covering("@method", "@authority", "@path", "@query", "x-token")
	p := shop(k)
	p.SecretHeaders = []string{"X-Token"}
	for name, c := range map[string]struct{ before, after, signed, ours string }{
		"query":   {`?token=s3cr%2Et`, `token=s3cr.t`, `"@query": *****=****.*\n`, `"@query": ?*****=****%***\n`},
		"newline": {`"@signature`, `"@signature`, `"\n`, `"`},
		"port": {`hooks.example`, `hooks.example:443`, `"@authority": hooks.example:443\n`,
			`"@authority": hooks.example\n`},
	} {
		report := explainPlant(t, plant{name: name, config: one(p), url: at("/webhooks/shop?token=s3cr%2Et"),
			fields: map[string]string{"Idempotency-Key": `"evt_1"`, "X-Token": "t0k3n"},
			by: parts.resigned(t, func(base string) string {
				if name == "newline" {
					base += "\n"
				}
				return inBase(c.before, c.after)(base)
			}, ed)})
		b := report.Bases
		if b == nil || len(b.Signed) != 9 || len(b.Ours) != 9 || len(report.Findings) != 1 {
			t.Errorf("%s: %+v, %+v", name, report.Findings, b)
			continue
		}
		i := 0
		for i < 8 && b.Signed[i] == b.Ours[i] {
			i++
		}
		if !strings.HasSuffix(b.Signed[i], c.signed) || !strings.HasSuffix(b.Ours[i], c.ours) ||
			!slices.Equal(b.Signed[i+1:], b.Ours[i+1:]) {
			t.Errorf("%s: %+v\n%s\n%s", name, report.Findings, strings.Join(b.Signed, "\n"), strings.Join(b.Ours, "\n"))
		}
		text := fmt.Sprint(report)
		if strings.Contains(text, "s3cr") || strings.Contains(text, "t0k3n") || b.Ours[4] != `"x-token": *****\n` {
			t.Errorf("%s: %s", name, text)
		}
	}
}

// TestBasesOfOneOfSeveralSchemesAreCompared: one of two must verify, or both.
func TestBasesOfOneOfSeveralSchemesAreCompared(t *testing.T) {
	t.Parallel()
	k := newPair(t, "k1", verify.Ed25519)
	token := verify.HeaderValue("X-Token", "tok_0123456789")
	for _, scheme := range []verify.Scheme{verify.Any{token, shop(k).Scheme}, verify.All{token, shop(k).Scheme}} {
		p := shop(k)
		p.Scheme = scheme
		report := explainPlant(t, plant{config: one(p), url: "http://hooks.example/webhooks/shop", by: k.by,
			fields: idempotency, after: func(r *http.Request) {
				called(at("/webhooks/shop"))(r)
				if _, all := scheme.(verify.All); all {
					r.Header.Set("X-Token", "tok_0123456789")
				}
			}})
		if b := report.Bases; b == nil || !strings.HasPrefix(b.Signed[1], `"@target-uri": http:`) ||
			!strings.HasPrefix(b.Ours[1], `"@target-uri": https:`) {
			t.Errorf("%T: %+v, %+v", scheme, report, b)
		}
	}
}

// TestADecodedNewlineShowsNoCredential: what follows it in a query begins a line of the base.
func TestADecodedNewlineShowsNoCredential(t *testing.T) {
	t.Parallel()
	k := newPair(t, "k2", verify.Ed25519)
	report := explainPlant(t, plant{config: one(shop(k)), url: at("/webhooks/shop?token=a%0As3cr"), fields: idempotency,
		by: k.covering("@method", "@authority", "@path", "@query").resigned(t, inBase("a%0As3cr", "a\ns3cr"),
			func(b []byte) ([]byte, error) { return k.by.Private.Sign(nil, b, crypto.Hash(0)) })})
	if b := report.Bases; b == nil || len(b.Signed) != 9 || strings.Contains(fmt.Sprint(*b), "3cr") {
		t.Errorf("%+v, %+v", report, b)
	}
}

// TestThereAreNoBasesWithoutADifference: the key is another one.
func TestThereAreNoBasesWithoutADifference(t *testing.T) {
	t.Parallel()
	k1, k2 := newPair(t, "k1", verify.Ed25519), newPair(t, "k2", verify.Ed25519)
	by := *k2.by
	by.KeyID = "k1"
	report := explainPlant(t, plant{config: one(shop(k1, k2)), by: &by, fields: idempotency})
	if len(report.Findings) != 1 || report.Findings[0].Cause != "other_key" || report.Bases != nil {
		t.Errorf("%+v", report)
	}
}

// TestWhatIsNotCoveredHasItsReason: a reason is that of the configuration.
func TestWhatIsNotCoveredHasItsReason(t *testing.T) {
	t.Parallel()
	k := newPair(t, "k1", verify.Ed25519)
	content := []string{"content-digest", "content-type", "idempotency-key"}
	host := append([]string{"@method", "@authority", "@path"}, content...)
	typed := func(p *producer.Producer) { p.MediaTypes = []string{"application/json"} }
	for want, c := range map[string]struct {
		covered []string
		change  func(*producer.Producer)
		query   string
		after   func(*http.Request)
		body    string
	}{
		`"@query", because the key reads it`: {
			host, func(p *producer.Producer) { p.Key = producer.Query("id") }, "?id=1", nil, ""},
		`"@query", because the type reads it`: {
			host, func(p *producer.Producer) { p.Type = producer.Query("t") }, "", nil, ""},
		`"@query", because a handler reads it`: {
			host, func(p *producer.Producer) { p.Reads = []string{"@query"} }, "", nil, ""},
		`"@query", because a credential is in it`: {
			host, func(p *producer.Producer) { p.SecretQuery = []string{"t"} }, "", nil, ""},
		`"@query", because it is part of what identifies an event (query_scope)`: {host,
			func(p *producer.Producer) { p.QueryScope = true }, "", nil, ""},
		`"@query", because there is one`: {host, nil, "?a=1", nil, ""},
		`"@path", because the sender may sign for other endpoints too`: {
			append([]string{"@method", "@authority"}, content...), nil, "", nil, ""},
		`"@target-uri", because the sender may sign for other endpoints too`: {
			append([]string{"@method"}, content...), nil, "", nil, ""},
		`"@method", because several methods are accepted`: {append([]string{"@target-uri"}, content...),
			func(p *producer.Producer) { p.Methods = []string{"POST", "PUT"} }, "", nil, ""},
		`"@method", because the body is empty or its digest is not covered, or a field asks for another method`: {
			append([]string{"@target-uri"}, content...), nil, "", set("X-Http-Method-Override", "PUT"), ""},
		`"content-type", because not one media type alone is accepted`: {
			[]string{"@target-uri", "content-digest", "idempotency-key"}, nil, "", nil, ""},
		`"content-type", because the request has another media type or parameters`: {
			[]string{"@target-uri", "content-digest", "idempotency-key"}, typed, "",
			set("Content-Type", "application/json; a=b"), ""},
		`"x-shop", because the key reads it`: {append([]string{"@target-uri"}, content...),
			func(p *producer.Producer) { p.Key = producer.Header("X-Shop") }, "", set("X-Shop", "1"), ""},
		`"@scheme", because the configuration requires it`: {append([]string{"@target-uri"}, content...),
			func(p *producer.Producer) {
				p.Scheme.(*verify.RFC9421).Coverage.Required = []string{"@scheme"}
			}, "", nil, ""},
		`"content-digest", because the body could be replaced`: {
			[]string{"@method", "@target-uri", "content-type", "idempotency-key"}, nil, "", nil, ""},
		`"content-encoding"`: {host, func(p *producer.Producer) { p.Methods = nil }, "",
			func(r *http.Request) { r.Header.Del("Content-Encoding") }, "\x1f\x8b\x08\x00"},
	} {
		p := shop(k)
		p.QueryScope = false
		if c.change != nil {
			c.change(&p)
		}
		by := *k.by
		by.Components = c.covered
		report := explainPlant(t, plant{config: one(p), by: &by, fields: idempotency, after: c.after, signed: c.body,
			url: at("/webhooks/shop" + c.query)})
		i := slices.IndexFunc(report.Findings, func(f explain.Finding) bool { return f.Cause == "not_covered" })
		if i < 0 || report.Findings[i].Detail != want {
			t.Errorf("%+v, want %s", report.Findings, want)
		}
	}
}

// TestTheFormsOfABaseAreFew: with every order of many components a search would not end.
func TestTheFormsOfABaseAreFew(t *testing.T) {
	t.Parallel()
	k, other := newPair(t, "k1", verify.Ed25519), newPair(t, "k1", verify.Ed25519)
	for _, n := range []int{5, 6, 32} {
		fields, by := map[string]string{"Idempotency-Key": `"evt_1"`}, *other.by
		by.Components = []string{"@method", "@target-uri", "content-digest", "content-type", "idempotency-key"}
		for i := range n - len(by.Components) {
			name := fmt.Sprintf("x-%02d", i)
			fields[name], by.Components = strings.Repeat("x", 400), append(by.Components, name)
		}
		report := explainPlant(t, plant{config: one(shop(k)), by: &by, fields: fields})
		if !report.Complete || report.Findings[0].Proved || report.Trials > 450 {
			t.Errorf("%d components: %+v", n, report)
		}
	}
}
