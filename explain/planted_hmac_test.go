package explain_test

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/eyelet-dev/eyelet/explain"
	"github.com/eyelet-dev/eyelet/producer"
	"github.com/eyelet-dev/eyelet/producer/preset"
	"github.com/eyelet-dev/eyelet/verify"
)

const hexSecret = "0123456789abcdef0123456789abcdef"

type causes = []explain.Cause

// custom returns a producer with an HMAC of the body in X-Sig, changed.
func custom(f func(*verify.HMAC)) producer.Producer {
	h := &verify.HMAC{Headers: []string{"X-Sig"}, Encoding: verify.Hex, Secrets: verify.Secrets(hexSecret)}
	if f != nil {
		f(h)
	}
	return producer.Producer{Name: "custom", Scheme: h, Key: producer.JSON("id"), Contract: producer.Webhook}
}

// stripeWith returns the scheme of Stripe with the bytes of a secret, which may be any.
func stripeWith(secret string) *verify.HMAC {
	return &verify.HMAC{Headers: []string{"Stripe-Signature"}, Separator: ",", Entries: []string{"t={timestamp}",
		"v1={sig}"},
		Encoding: verify.Hex, Content: "{timestamp}.{body}", SecretEncoding: verify.Hex,
		Secrets: verify.Secrets(hex.EncodeToString([]byte(secret)))}
}

func one(p producer.Producer) []producer.Producer { return []producer.Producer{p} }

func hmacPlants(*testing.T) []plant {
	gh := preset.GitHub("s3cr3t-s3cr3t-s3cr3t")
	shop := preset.With("shopify", "shpss_4f1c6a8e")
	slack := preset.Slack("8f742231b10e8888abcd99yyyzzz85a5")
	id := map[string]string{"X-GitHub-Delivery": "1", "X-GitHub-Event": "push"}
	digest := func(of func([]byte) []byte) any {
		return func(r *http.Request, body []byte) []byte {
			_ = custom(nil).Scheme.(signer).Sign(r, of(body), signedAt)
			return body
		}
	}
	return []plant{
		{name: "SHA-1 in place of SHA-256", scheme: "hmac", want: causes{"hash"}, config: one(custom(nil)),
			by: custom(func(h *verify.HMAC) { h.Hash = verify.SHA1 }).Scheme},
		{name: "SHA-512", scheme: "hmac", want: causes{"hash"}, config: one(custom(nil)),
			by: custom(func(h *verify.HMAC) { h.Hash = verify.SHA512 }).Scheme},
		{name: "base64 in place of hex", scheme: "hmac", want: causes{"encoding"}, config: one(custom(nil)),
			by: custom(func(h *verify.HMAC) { h.Encoding = verify.Base64 }).Scheme},
		{name: "over the hash of the body", scheme: "hmac", want: causes{"over_hash"}, config: one(custom(nil)),
			by: digest(func(b []byte) []byte { s := sha256.Sum256(b); return []byte(hex.EncodeToString(s[:])) })},
		{name: "over the time and the body", scheme: "slack", want: causes{"content"}, config: one(slack),
			by: &verify.HMAC{Headers: []string{"X-Slack-Signature"},
				TimestampHeaders: []string{"X-Slack-Request-Timestamp"},
				Entries:          []string{"v0={sig}"}, Encoding: verify.Hex, Content: "{timestamp}.{body}",
				Secrets: verify.Secrets("8f742231b10e8888abcd99yyyzzz85a5")}},
		{name: "full stops for colons", scheme: "slack", want: causes{"content"}, config: one(slack),
			by: &verify.HMAC{Headers: []string{"X-Slack-Signature"},
				TimestampHeaders: []string{"X-Slack-Request-Timestamp"},
				Entries:          []string{"v0={sig}"}, Encoding: verify.Hex, Content: "v0.{timestamp}.{body}",
				Secrets: verify.Secrets("8f742231b10e8888abcd99yyyzzz85a5")}},
		{name: "v1 named v0", scheme: "stripe", want: causes{"signature_form"},
			config: one(preset.Stripe("whsec_live_live_live")),
			after:  changed("Stripe-Signature", func(v string) string { return strings.Replace(v, "v1=", "v0=", 1) })},
		{name: "prefix left out", scheme: "github", want: causes{"signature_form"}, config: one(gh), fields: id,
			after: changed("X-Hub-Signature-256", func(v string) string { return strings.TrimPrefix(v, "sha256=") })},
		{name: "another prefix", scheme: "github", want: causes{"signature_form"}, config: one(gh), fields: id,
			after: changed("X-Hub-Signature-256", func(v string) string { return strings.Replace(v, "=", ":", 1) })},
		{name: "a prefix that names another hash", scheme: "github", want: causes{"hash"}, config: one(gh), fields: id,
			by: &verify.HMAC{Headers: []string{"X-Hub-Signature-256"}, Entries: []string{"sha256={sig}"},
				Hash: verify.SHA512, Encoding: verify.Hex, Secrets: gh.Scheme.(*verify.HMAC).Secrets}},
		{name: "a prefix that is not configured", scheme: "hmac", want: causes{"signature_form"},
			config: one(custom(nil)),
			after:  changed("X-Sig", func(v string) string { return "sha256=" + v })},
		{name: "base64url", scheme: "shopify", want: causes{"signature_form"}, config: one(shop),
			signed: `{"id":"1","n":6}`,
			after: changed("X-Shopify-Hmac-Sha256", func(v string) string {
				return strings.NewReplacer("+", "-", "/", "_").Replace(v)
			})},
		{name: "padding left out", scheme: "shopify", want: causes{"signature_form"}, config: one(shop),
			after: changed("X-Shopify-Hmac-Sha256", func(v string) string { return strings.TrimRight(v, "=") })},
		{name: "signature in quotes", scheme: "hmac", want: causes{"signature_form"}, config: one(custom(nil)),
			after: changed("X-Sig", func(v string) string { return `"` + v + `"` })},
		{name: "renamed with underscores", scheme: "github", want: causes{"header_renamed"}, config: one(gh),
			fields: id,
			after:  moved("X-Hub-Signature-256", "X_hub_signature_256")},
		{name: "X-Original- before the name", scheme: "hmac", want: causes{"header_renamed"}, config: one(custom(nil)),
			after: moved("X-Sig", "X-Original-X-Sig")},
		{name: "added twice by a proxy", scheme: "hmac", want: causes{"header_repeated"}, config: one(custom(nil)),
			after: func(r *http.Request) { r.Header.Add("X-Sig", strings.Repeat("0", 64)) }},
		{name: "unsigned", scheme: "github", want: causes{"unsigned"}, config: one(gh), fields: id,
			after: func(r *http.Request) { r.Header.Del("X-Hub-Signature-256") }},
		{name: "Stripe's delivery at GitHub's endpoint", scheme: "github", want: causes{"other_vendor"},
			config: one(gh),
			fields: id, by: preset.Stripe("whsec_unknown").Scheme},
		{name: "the same, with Stripe configured", scheme: "github", want: causes{"other_endpoint"}, fields: id,
			config: []producer.Producer{gh, preset.Stripe("whsec_known_secret")},
			by:     preset.Stripe("whsec_known_secret").Scheme},
	}
}

func secretPlants(*testing.T) []plant {
	live := preset.Stripe("whsec_live_live_live", "whsec_older_older_older")
	test := preset.Stripe("whsec_test_test_test")
	test.Name = "stripe-test"
	std := preset.With("standard-webhooks", "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")
	stdBy := func(secret string) *verify.HMAC {
		h := std.Scheme.(*verify.HMAC)
		return &verify.HMAC{Headers: h.Headers, Separator: h.Separator, Entries: []string{"v1,{sig}"},
			Encoding: h.Encoding,
			Content:  h.Content, TimestampHeaders: h.TimestampHeaders, IDHeaders: h.IDHeaders,
			SecretEncoding: verify.Hex,
			Secrets:        verify.Secrets(hex.EncodeToString([]byte(secret)))}
	}
	msg := map[string]string{"webhook-id": "msg_1"}
	stripe := func(name, secret string, want explain.Cause) plant {
		return plant{name: name, scheme: "stripe", want: causes{want}, config: one(live), by: stripeWith(secret)}
	}
	offered := stripe("a secret that the operator suspects", "whsec_dashboard_one", "other_secret")
	offered.secrets = []verify.Offer{{Name: "the secret of new.txt", Secret: "whsec_dashboard_one"}}
	lab := custom(func(h *verify.HMAC) {
		h.Headers, h.Secrets = []string{"X-Lab"}, verify.Secrets("lab-secret-lab-secret")
	})
	lab.Name = "lab"
	return []plant{
		{name: "the test secret at the live endpoint", scheme: "stripe", want: causes{"other_endpoint"},
			config: []producer.Producer{live, test}, by: test.Scheme},
		{name: "another producer's secret, in this form", scheme: "hmac", want: causes{"other_secret"},
			config: []producer.Producer{custom(nil), lab},
			by:     custom(func(h *verify.HMAC) { h.Secrets = verify.Secrets("lab-secret-lab-secret") }).Scheme},
		offered,
		stripe("a newline after the secret", "whsec_live_live_live\n", "secret_characters"),
		stripe("the secret in quotes", `"whsec_live_live_live"`, "secret_characters"),
		stripe("a space after the older secret", "whsec_older_older_older ", "secret_characters"),
		stripe("the secret without whsec_", "live_live_live", "secret_characters"),
		{name: "the base64 secret as text", scheme: "standard-webhooks", want: causes{"secret_encoding"},
			config: one(std),
			fields: msg, by: stdBy("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")},
		{name: "its base64 as text", scheme: "standard-webhooks", want: causes{"secret_characters"}, config: one(std),
			fields: msg, by: stdBy("MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")},
		{name: "a secret in hex, decoded", scheme: "hmac", want: causes{"secret_encoding"}, config: one(custom(nil)),
			by: custom(func(h *verify.HMAC) { h.SecretEncoding = verify.Hex }).Scheme},
		{name: "a secret in base64, decoded", scheme: "hmac", want: causes{"secret_encoding"}, config: one(custom(nil)),
			by: custom(func(h *verify.HMAC) { h.SecretEncoding = verify.Base64 }).Scheme},
	}
}

func urlPlants(*testing.T) []plant {
	p := custom(func(h *verify.HMAC) { h.Content = "{url}\n{body}" })
	p.Name = "x"
	square := preset.With("square", "sq-key-sq-key-sq-key")
	twilio := preset.With("twilio", "12345678901234567890123456789012")
	form := map[string]string{"Content-Type": "application/x-www-form-urlencoded"}
	const query = "?b=2&a=1"
	back := called(at("/webhooks/x" + query))
	plain := func(name, signed string, want explain.Cause, after ...func(*http.Request)) plant {
		return plant{name: name, scheme: "hmac of URL", want: causes{want}, config: one(p), url: signed,
			after: func(r *http.Request) {
				back(r)
				for _, f := range after {
					f(r)
				}
			}}
	}
	return []plant{
		plain("http in place of https", "http://hooks.example/webhooks/x"+query, "url_scheme"),
		plain("the default port", "https://hooks.example:443/webhooks/x"+query, "url_port"),
		plain("a slash at the end", at("/webhooks/x/")+query, "url_slash"),
		plain("another order of the query", at("/webhooks/x?a=1&b=2"), "url_query_order"),
		plain("without its query", at("/webhooks/x"), "url_query"),
		plain("the host of the tunnel", "https://tunnel.example/webhooks/x"+query, "url_host",
			set("X-Forwarded-Host", "tunnel.example")),
		plain("the host of the request", "https://other.example/webhooks/x"+query, "url_host",
			func(r *http.Request) { r.Host = "other.example" }),
		plain("a prefix that a proxy removes", at("/api/webhooks/x")+query, "url_path", set("X-Forwarded-Prefix",
			"/api")),
		plain("the path of the proxy", at("/in/stripe")+query, "url_path", set("X-Original-URI", "/in/stripe"+query)),
		{name: "http in place of https", scheme: "square", want: causes{"url_scheme"}, config: one(square),
			url: "http://hooks.example/webhooks/square", after: called(at("/webhooks/square"))},
		{name: "http in place of https", scheme: "twilio", want: causes{"url_scheme"}, config: one(twilio),
			fields: form,
			signed: "CallSid=CA1&From=%2B1", url: "http://hooks.example/webhooks/twilio",
			after: called(at("/webhooks/twilio"))},
		{name: "another token", scheme: "twilio", want: causes{"other_secret"}, fields: form,
			signed: "CallSid=CA1&From=%2B1",
			config: one(twilio), by: preset.With("twilio", "another-token-of-twilio").Scheme,
			secrets: []verify.Offer{{Name: "the secret of new.txt", Secret: "another-token-of-twilio"}}},
	}
}

func indented(text string) string {
	var b bytes.Buffer
	_ = json.Indent(&b, []byte(text), "", "  ")
	return b.String()
}

func zipped(text string) string {
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	_, _ = io.WriteString(z, text)
	_ = z.Close()
	return b.String()
}

func sortedByGo(text string) string {
	var v any
	d := json.NewDecoder(strings.NewReader(text))
	d.UseNumber()
	_ = d.Decode(&v)
	b, _ := json.Marshal(v)
	return string(b)
}

// signsCoded is the producer whose content must not be signed before it is coded.
func signsCoded(p producer.Producer) producer.Producer {
	p.SignedContent = producer.SignedCoded
	return p
}

func bodyPlants(*testing.T) []plant {
	gh := preset.GitHub("s3cr3t-s3cr3t-s3cr3t")
	id := map[string]string{"X-GitHub-Delivery": "1", "X-GitHub-Event": "push"}
	body := func(name, signed, sent string, want explain.Cause) plant {
		return plant{name: name, scheme: "github", want: causes{want}, config: one(gh), signed: signed, sent: sent,
			fields: id}
	}
	packed := body("compressed after signing", strings.Repeat(doc, 3), zipped(strings.Repeat(doc, 3)),
		"body_compressed")
	packed.after, packed.config = set("Content-Encoding", "gzip"), one(signsCoded(gh))
	unpacked := body("unpacked on the way", zipped(doc), doc, "body_decompressed")
	unpacked.after = set("Content-Encoding", "gzip")
	consumed := body("read by middleware", doc, doc, "body_consumed")
	consumed.front = func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			_, _ = io.Copy(io.Discard, r.Body)
			r.Body = http.NoBody
			next.ServeHTTP(w, r)
		})
	}
	clipped := body("cut by middleware", doc, doc, "body_cut")
	clipped.front = func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			r.Body = io.NopCloser(io.LimitReader(r.Body, 50))
			next.ServeHTTP(w, r)
		})
	}
	const small = `{"id":"1","u":"https://x/é","n":[1,2]}`
	return []plant{
		body("indented by middleware", sortedByGo(small), indented(sortedByGo(small)), "body_rewritten"),
		body("made compact on the way", indented(small), small, "body_rewritten"),
		body("keys sorted on the way", doc, sortedByGo(doc), "body_rewritten"),
		body("signed as Python writes it", `{"id": "1", "n": [1, 2]}`, `{"id":"1","n":[1,2]}`, "body_rewritten"),
		body("escapes of PHP lost", `{"id":"1","u":"https:\/\/x"}`, `{"id":"1","u":"https://x"}`, "body_rewritten"),
		body("unicode escapes lost", `{"id":"1","u":"caf\u00e9"}`, `{"id":"1","u":"café"}`, "body_rewritten"),
		body("keys were signed sorted", `{"a":1,"b":2}`, `{"b":2,"a":1}`, "body_rewritten"),
		body("a newline added", doc, doc+"\n", "body_newline"),
		body("a newline lost", doc+"\n", doc, "body_newline"),
		body("CRLF", "{\n\"a\":\"b\"\n}", "{\r\n\"a\":\"b\"\r\n}", "body_line_ends"),
		body("a byte order mark added", doc, "\ufeff"+doc, "body_bom"),
		body("converted to Latin-1", `{"n":"é"}`, "{\"n\":\"\xe9\"}", "body_charset"),
		body("UTF-8 encoded twice", `{"n":"é"}`, `{"n":"Ã©"}`, "body_charset"),
		body("JSON encoded twice", small, string(jsonText(small)), "body_double_json"),
		body("put into a form", small, "payload="+url.QueryEscape(small), "body_form"),
		body("base64 of a gateway", small, base64.StdEncoding.EncodeToString([]byte(small)), "body_base64"),
		body("percent-encoded", small, url.QueryEscape(small), "body_escaped"),
		{name: "an empty body is signed", scheme: "github", want: causes{"body_not_signed"}, config: one(gh),
			fields: id,
			by:     func(r *http.Request, b []byte) []byte { _ = gh.Scheme.(signer).Sign(r, nil, signedAt); return b }},
		packed, unpacked, consumed, clipped,
	}
}

func jsonText(text string) []byte {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	_ = e.Encode(text)
	return bytes.TrimSuffix(b.Bytes(), []byte("\n"))
}

func timePlants(*testing.T) []plant {
	stripe := preset.Stripe("whsec_live_live_live")
	after := func(name string, late time.Duration, want explain.Cause) plant {
		return plant{name: name, scheme: "stripe", want: causes{want}, config: one(stripe), late: late}
	}
	again := after("the same bytes an hour later", 65*time.Minute, "replayed")
	again.after = set("Date", signedAt.Add(65*time.Minute).UTC().Format(http.TimeFormat))
	millis := stripeWith("whsec_live_live_live")
	millis.TimestampUnit = verify.Milliseconds
	return []plant{
		after("seven minutes late", 7*time.Minute, "stale"),
		after("a clock ahead", -3*time.Minute, "clock_skew"),
		after("local time as UTC", 2*time.Hour, "time_zone"),
		again,
		{name: "milliseconds", scheme: "stripe", want: causes{"time_unit"}, config: one(stripe), by: millis},
	}
}
