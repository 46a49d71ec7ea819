package explain_test

import (
	"crypto"
	"encoding/asn1"
	"encoding/base64"
	"encoding/hex"
	"math/big"
	"net/http"
	"strings"
	"testing"

	"github.com/eyelet-dev/eyelet/explain"
	"github.com/eyelet-dev/eyelet/producer"
	"github.com/eyelet-dev/eyelet/producer/preset"
	"github.com/eyelet-dev/eyelet/verify"
)

// der writes the signature of the plant as DER, as most libraries of ECDSA do.
func (p plant) der(t *testing.T, pair keyPair) plant {
	t.Helper()
	p.by = func(r *http.Request, body []byte) []byte {
		if err := pair.by.Sign(r, body, signedAt); err != nil {
			t.Fatal(err)
		}
		text := strings.TrimSuffix(strings.TrimPrefix(r.Header.Get("Signature"), "sig1=:"), ":")
		flat, err := base64.StdEncoding.DecodeString(text)
		if err != nil {
			t.Fatal(err)
		}
		half := len(flat) / 2
		der, err := asn1.Marshal(struct{ R, S *big.Int }{new(big.Int).SetBytes(flat[:half]),
			new(big.Int).SetBytes(flat[half:])})
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Signature", "sig1=:"+base64.StdEncoding.EncodeToString(der)+":")
		return body
	}
	return p
}

func static(s *verify.Static) producer.Producer {
	return producer.Producer{Name: "static", Scheme: s, Key: producer.JSON("id"), Contract: producer.Webhook}
}

func credentialPlants(*testing.T) []plant {
	header := static(verify.HeaderValue("X-Token", "tok_0123456789"))
	bearer := static(verify.BearerToken("tok_0123456789"))
	basic := static(verify.Basic("shop", "pass-0123456789"))
	query := static(verify.QueryValue("key", "tok_0123456789"))
	telegram := preset.With("telegram", "telegram-secret-0123")
	other := static(verify.BearerToken("tok_of_the_other_one"))
	other.Name = "other"
	nothing := func(_ *http.Request, body []byte) []byte { return body }
	cred := func(name, scheme string, p producer.Producer, want explain.Cause, after func(*http.Request)) plant {
		return plant{name: name, scheme: scheme, want: causes{want}, config: one(p), by: nothing, after: after}
	}
	elsewhere := cred("the other endpoint's token", "bearer", bearer, "other_endpoint", set("Authorization",
		"Bearer tok_of_the_other_one"))
	elsewhere.config = append(elsewhere.config, other)
	return []plant{
		cred("in quotes", "header value", header, "credential_form", set("X-Token", `"tok_0123456789"`)),
		cred("with Bearer before it", "header value", header, "credential_form", set("X-Token",
			"Bearer tok_0123456789")),
		cred("without its prefix", "header value", header, "secret_characters", set("X-Token", "0123456789")),
		cred("Bearer twice", "bearer", bearer, "credential_form", set("Authorization", "Bearer Bearer tok_0123456789")),
		cred("without Bearer", "bearer", bearer, "credential_form", set("Authorization", "tok_0123456789")),
		elsewhere,
		cred("user and password swapped", "basic", basic, "credential_form",
			func(r *http.Request) { r.SetBasicAuth("pass-0123456789", "shop") }),
		cred("a password in Latin-1", "basic", static(verify.Basic("shop", "p\u00e4ss-0123456789")),
			"secret_characters",
			func(r *http.Request) { r.SetBasicAuth("shop", "p\xe4ss-0123456789") }),
		cred("another user name", "basic", basic, "user_name", func(r *http.Request) {
			r.SetBasicAuth("admin",
				"pass-0123456789")
		}),
		cred("in the field in place of the query", "query value", query, "credential_form", set("Authorization",
			"Bearer tok_0123456789")),
		cred("no credential", "query value", query, "unsigned", nil),
		cred("a newline that was percent-encoded", "telegram", telegram, "secret_characters",
			set("X-Telegram-Bot-Api-Secret-Token", "TELEGRAM-SECRET-0123")),
	}
}

func vendorPlants(t *testing.T) []plant {
	const topic = "arn:aws:sns:us-east-1:123456789012:orders"
	private, err := rsaKey()
	if err != nil {
		t.Fatal(err)
	}
	sns, _ := preset.Find("aws-sns")
	adyen, _ := preset.Find("adyen")
	adyenKey := hex.EncodeToString([]byte(hexSecret))
	paypal, _ := preset.Find("paypal")
	signedBy := func(p preset.Preset, s preset.Settings) func(*http.Request, []byte) []byte {
		return func(r *http.Request, _ []byte) []byte {
			sample, body, err := p.Sample(s, r.URL.String(), "", "evt-1", signedAt)
			if err != nil {
				t.Fatal(err)
			}
			r.Header = sample.Header
			return body
		}
	}
	open := func(p preset.Preset, s preset.Settings) producer.Producer {
		made := p.Open(s)
		if made.Err != nil {
			t.Fatal(made.Err)
		}
		return made
	}
	snsHave := preset.Settings{Topics: []string{topic}, SigningKey: private, PinnedKeys: pinnedBy(sns, private)}
	snsWant := snsHave
	snsWant.Topics = []string{topic + "-new"}
	v1 := snsHave
	v1.Algs = []string{"sha256"}
	payPal := preset.Settings{Account: []string{"WH-1"}, SigningKey: private, PinnedKeys: pinnedBy(paypal, private)}
	otherWebhook, simulated, inQuotes := payPal, payPal, payPal
	otherWebhook.Account, simulated.Account = []string{"WH-2"}, []string{"WEBHOOK_ID"}
	inQuotes.Account = []string{`"WH-1"`}
	adyenSet := preset.Settings{Secrets: []string{adyenKey}}
	text := func(p preset.Preset, s preset.Settings, edit func([]byte) []byte) any {
		by := signedBy(p, s)
		return func(r *http.Request, b []byte) []byte { return edit(by(r, b)) }
	}
	return []plant{
		{name: "a topic that is not configured", scheme: "aws-sns", want: causes{"topic"}, config: one(open(sns,
			snsWant)),
			by: func(r *http.Request, b []byte) []byte {
				b = signedBy(sns, snsHave)(r, b)
				r.Header.Set("X-Amz-Sns-Topic-Arn", topic)
				return b
			}},
		{name: "base64 of a gateway", scheme: "aws-sns", want: causes{"body_base64"}, config: one(open(sns, snsHave)),
			by: text(sns, snsHave, func(b []byte) []byte { return []byte(base64.StdEncoding.EncodeToString(b)) })},
		{name: "JSON encoded twice", scheme: "aws-sns", want: causes{"body_double_json"}, config: one(open(sns,
			snsHave)),
			by: text(sns, snsHave, func(b []byte) []byte { return jsonText(string(b)) })},
		{name: "a newline added", scheme: "paypal", want: causes{"body_newline"}, config: one(open(paypal, payPal)),
			by: text(paypal, payPal, func(b []byte) []byte { return append(b, '\n') })},
		{name: "another webhook id", scheme: "paypal", want: causes{"webhook_id"}, config: one(open(paypal, payPal)),
			by: signedBy(paypal, otherWebhook)},
		{name: "another webhook id that is offered", scheme: "paypal", want: causes{"webhook_id"},
			config: one(open(paypal, payPal)), by: signedBy(paypal, otherWebhook),
			secrets: []verify.Offer{{Name: "the secret of new.txt", Secret: "WH-2"}}},
		{name: "an event of the simulator", scheme: "paypal", want: causes{"webhook_id"},
			config: one(open(paypal, payPal)), by: signedBy(paypal, simulated)},
		{name: "a webhook id in quotes, and a newline added", scheme: "paypal",
			want: causes{"webhook_id", "body_newline"}, config: one(open(paypal, inQuotes)),
			by: text(paypal, payPal, func(b []byte) []byte { return append(b, '\n') })},
		{name: "the key as text", scheme: "adyen", want: causes{"secret_encoding"}, config: one(open(adyen, adyenSet)),
			by: signedBy(adyen, preset.Settings{Secrets: []string{hex.EncodeToString([]byte(adyenKey))}})},
		{name: "another key", scheme: "adyen", want: causes{"other_secret"}, config: one(open(adyen, adyenSet)),
			by:      signedBy(adyen, preset.Settings{Secrets: []string{strings.Repeat("ab", 32)}}),
			secrets: []verify.Offer{{Name: "the secret of new.txt", Secret: verify.Secret(strings.Repeat("ab", 32))}}},
		{name: "JSON encoded twice", scheme: "adyen", want: causes{"body_double_json"}, config: one(open(adyen,
			adyenSet)),
			by: text(adyen, adyenSet, func(b []byte) []byte { return jsonText(string(b)) })},
	}
}

// pinnedBy returns the key of the address that samples of a preset name for their certificate.
func pinnedBy(p preset.Preset, private crypto.Signer) map[string]crypto.PublicKey {
	address := "https://sns.us-east-1.amazonaws.com/SimpleNotificationService-sample.pem"
	if p.Name == "paypal" {
		address = "https://api.paypal.com/v1/notifications/certs/CERT-sample"
	}
	return map[string]crypto.PublicKey{address: private.Public()}
}
