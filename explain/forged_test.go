package explain_test

import (
	"encoding/base64"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/eyelet-dev/eyelet/explain"
	"github.com/eyelet-dev/eyelet/producer"
	"github.com/eyelet-dev/eyelet/producer/preset"
	"github.com/eyelet-dev/eyelet/verify"
)

// explainedAs explains a request that is signed and then changed.
func (p *plant) explainedAs(t *testing.T, unread bool, code verify.Code) explain.Report {
	t.Helper()
	r, body := p.request(t)
	if unread {
		body = nil
	}
	return patient(append(besides(t), p.config...)).Explain(t.Context(), explain.Delivery{
		Endpoint: p.endpoint().Name, Request: r, Body: body, Unread: unread, Declared: r.ContentLength, Code: code,
		Now: signedAt,
	})
}

// TestForgeriesAreNotProved explains signatures that anyone can write, without a key. Their claims
// are likely causes at most.
func TestForgeriesAreNotProved(t *testing.T) {
	t.Parallel()
	k1, h1 := newPair(t, "k1", verify.Ed25519), secretPair(t, "h1", hexSecret)
	keys, err := verify.ParseTokenKeys([]byte(`{"keys":[{"kty":"EC","crv":"P-256","kid":"a","alg":"ES256",` +
		`"x":"R33s_my8ozz-sJJp9oz3NnH52S876UTW-gV_mDdHFgE","y":"sxetUKOaRCB95RT9oOAj48PBZRpTC0vUDvgsk9w4Tzk"}]}`))
	if err != nil {
		t.Fatal(err)
	}
	token := func(head string) func(*http.Request) {
		b64 := base64.RawURLEncoding.EncodeToString
		claims := `{"aud":"us","iss":"i","exp":1795319999}`
		return set("Authorization", "Bearer "+b64([]byte(head))+"."+b64([]byte(claims))+"."+b64(make([]byte, 64)))
	}
	bearer := producer.Producer{Name: "token", Key: producer.JSON("id"), Contract: producer.Webhook,
		Scheme: &verify.JWT{Keys: keys, Algorithms: []string{"ES256"}, Audiences: []string{"us"}}}
	stripe, gh := preset.Stripe("whsec_live_live_live"), preset.GitHub("s3cr3t-s3cr3t-s3cr3t")
	garbage := set("Signature", "sig1=:"+base64.StdEncoding.EncodeToString(make([]byte, 64))+":")
	forger := func(edit func(*verify.Signer)) *verify.Signer {
		s := &verify.Signer{KeyID: "k1", Secret: []byte(k1.key.Fingerprint()), NameAlg: true}
		edit(s)
		return s
	}
	nothing := func(_ *http.Request, body []byte) []byte { return body }
	zeros := strings.Repeat("0", 64)
	for _, tc := range []struct {
		name string
		p    producer.Producer
		by   any
		edit func(*http.Request)
		want explain.Cause
	}{
		{"HMAC with a public key", shop(k1), forger(func(*verify.Signer) {}), nil, "algorithm"},
		{"HMAC, not named", shop(k1), forger(func(s *verify.Signer) { s.NameAlg = false }), nil, "url_host"},
		{"another algorithm", shop(k1), k1.by, func(r *http.Request) {
			garbage(r)
			changed("Signature-Input", func(v string) string { return v + `;alg="rsa-pss-sha512"` })(r)
		}, "algorithm"},
		{"an unknown key", shop(k1, h1), forger(func(s *verify.Signer) { s.KeyID = "zz" }), nil, "key_unknown"},
		{"less is covered", shop(k1), forger(func(s *verify.Signer) {
			s.Components, s.NameAlg = []string{"@method", "@target-uri"}, false
		}), nil, "not_covered"},
		{"another digest", shop(k1), k1.by, garbage, "url_host"},
		{"none", bearer, nothing, token(`{"alg":"none","kid":"a"}`), "algorithm"},
		{"HS256", bearer, nothing, token(`{"alg":"HS256","kid":"a"}`), "algorithm"},
		{"an unknown key of a token", bearer, nothing, token(`{"alg":"ES256","kid":"zz"}`), "key_unknown"},
		{"a signature of zeros", stripe, nothing, set("Stripe-Signature", "t=1795319382,v1="+zeros), "other_secret"},
		{"an old time", stripe, nothing, set("Stripe-Signature", "t=1,v1="+zeros), "other_secret"},
		{"only v0", stripe, nothing, set("Stripe-Signature", "t=1795319382,v0="+zeros), "signature_form"},
		{"a renamed field", gh, nothing, set("X_Hub_Signature_256", "sha256="+zeros), "header_renamed"},
	} {
		for _, unread := range []bool{false, true} {
			p := plant{name: tc.name, config: one(tc.p), by: tc.by, after: tc.edit, fields: idempotency}
			report := p.explainedAs(t, unread, "")
			for _, f := range report.Findings {
				if f.Proved {
					t.Errorf("%s, unread %v: proved %+v", tc.name, unread, f)
				}
			}
			_, read := tc.p.Scheme.(*verify.HMAC)
			if first := firstOf(report); first.Cause != tc.want && (!unread || !read) {
				t.Errorf("%s, unread %v: %+v, want %s", tc.name, unread, report, tc.want)
			}
		}
	}
}

// TestRefusalsOfOtherChecksKeepTheirCode explains deliveries, signed and unsigned, that were
// refused before or after the signature was verified.
func TestRefusalsOfOtherChecksKeepTheirCode(t *testing.T) {
	t.Parallel()
	gh := preset.GitHub("s3cr3t-s3cr3t-s3cr3t")
	unsigned := func(_ *http.Request, body []byte) []byte { return body }
	for code, want := range map[verify.Code]explain.Finding{
		"method_not_allowed":         {Cause: "method_not_allowed", Detail: `"POST"`},
		"media_type_unsupported":     {Cause: "media_type_unsupported", Detail: `"application/json"`},
		"content_coding_unsupported": {Cause: "content_coding_unsupported"},
		"body_too_large":             {Cause: "body_too_large", Detail: "at most 26214400 bytes, also decoded"},
		"host_unknown":               {Cause: "host_unknown", Detail: `"hooks.example"`},
		"early_data":                 {Cause: "early_data"}, "address_refused": {Cause: "address_refused"},
		"endpoint_retired": {Cause: "endpoint_retired"}, "rate_limited": {Cause: "rate_limited"},
		"challenge_unexpected": {Cause: "challenge_unexpected"},
		"busy":                 {Cause: "other_check", Detail: `"busy"`},
		"target_refused":       {Cause: "other_check", Detail: `"target_refused"`},
		"event_malformed":      {Cause: "other_check", Detail: `"event_malformed"`},
	} {
		for _, by := range []any{nil, unsigned} {
			for _, unread := range []bool{false, true} {
				p := plant{config: one(gh), by: by}
				report := p.explainedAs(t, unread, code)
				want.Proved = true
				if report.Code != code || len(report.Findings) != 1 || report.Findings[0] != want {
					t.Errorf("%s, unread %v: %+v, want %+v", code, unread, report, want)
				}
			}
		}
	}
	addressed := custom(func(h *verify.HMAC) { h.Content = "{url}\n{body}" })
	p := plant{config: one(addressed), url: "https://elsewhere.example/", after: func(r *http.Request) {
		r.URL, _ = url.Parse(at("/webhooks/custom"))
	}}
	if report := p.explainedAs(t, false, verify.SignatureMismatch); firstOf(report).Cause != "url_host" {
		t.Errorf("%+v", report) // before another secret
	}
}
