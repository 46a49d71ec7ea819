package explain_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/eyelet-dev/eyelet/explain"
	"github.com/eyelet-dev/eyelet/producer"
	"github.com/eyelet-dev/eyelet/producer/preset"
	"github.com/eyelet-dev/eyelet/verify"
)

// nearPlants have names of fields, entries and labels that are almost right.
func nearPlants(t *testing.T) (plants []plant) {
	k1 := newPair(t, "k1", verify.Ed25519)
	labelled := shop(k1)
	labelled.Scheme.(*verify.RFC9421).Label = "sig1"
	by := map[string]any{"shop": k1.by, "static": func(r *http.Request, body []byte) []byte {
		r.Header.Set("X-Token", "tok_0123456789")
		return body
	}}
	add := func(p producer.Producer, want explain.Cause, name string, edit func(*http.Request)) {
		plants = append(plants, plant{name: name, scheme: p.Name, want: causes{want}, certain: true, config: one(p),
			by: by[p.Name], after: edit, fields: map[string]string{"Idempotency-Key": `"e"`, "webhook-id": "m"}})
	}
	gh, stripe := preset.GitHub(hexSecret), preset.Stripe("whsec_live_live_live_live")
	std, slack := preset.With("standard-webhooks", "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"), preset.Slack(hexSecret)
	token := static(verify.HeaderValue("X-Token", "tok_0123456789"))
	for _, c := range []struct {
		p      producer.Producer
		of, is string
	}{
		{gh, "X-Hub-Signature-256", "X-HubSignature256"}, {gh, "X-Hub-Signature-256", "X-Hub-Signatur-256"},
		{gh, "X-Hub-Signature-256", "X-Hub-Signature-265"}, {std, "Webhook-Id", "Webhookid"},
		{std, "Webhook-Timestamp", "Webhook-Time-Stamp"}, {token, "X-Token", "X-Tokn"},
		{slack, "X-Slack-Request-Timestamp", "X-Slack-Request-Timestmp"},
		{shop(k1), "Signature-Input", "Signature-Imput"},
		{shop(k1), "Signature", "Signatur"}, {shop(k1), "Content-Digest", "ContentDigest"},
	} {
		add(c.p, "header_renamed", c.is, moved(c.of, c.is))
	}
	edited := func(p producer.Producer, want explain.Cause, field, of string, forms ...string) {
		for _, is := range forms {
			add(p, want, is, changed(field, func(v string) string { return strings.Replace(v, of, is, 1) }))
		}
	}
	edited(gh, "signature_form", "X-Hub-Signature-256", "sha256=", "sha-256=", "sha25=", "hmac=")
	edited(stripe, "signature_form", "Stripe-Signature", "v1=", "V1=", "v-1=", "v2=")
	edited(stripe, "signature_form", "Stripe-Signature", "t=", "T=", "ts=", "t:")
	edited(std, "signature_form", "Webhook-Signature", "v1,", "V1,", "v1:")
	for _, p := range []producer.Producer{labelled, shop(k1)} {
		edited(p, "label", "Signature", "sig1=", "Sig1=", "sig-1=", "sig=")
		edited(p, "label", "Signature-Input", "sig1=", "Sig1=", "sig2=")
	}
	add(labelled, "label", "Sig1 in both", func(r *http.Request) {
		for _, name := range []string{"Signature", "Signature-Input"} {
			r.Header.Set(name, "S"+r.Header.Get(name)[1:])
		}
	})
	return plants
}
