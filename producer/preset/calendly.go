package preset

import (
	"github.com/eyelet-dev/eyelet/producer"
	"github.com/eyelet-dev/eyelet/verify"
)

// Calendly receives webhooks of Calendly. A secret is the signing key of the webhook
// subscription.
//
// Calendly sends no id; a digest of the body identifies the event. Its example accepts a
// signature for 3 minutes; we accept 5. It tries for 24 hours and then disables the
// subscription.
//
// Sources, read in November 2026: Calendly's documentation of signatures and its community page
// on disabled webhooks.
//
// https://developer.calendly.com/api-docs/overview/webhooks/webhook-signatures
func Calendly(keys ...string) producer.Producer { return calendly.producer(Settings{Secrets: keys}) }

var calendly = Preset{
	Name: "calendly", Docs: "https://developer.calendly.com/api-docs/overview/webhooks/webhook-signatures",
	Auth: "HMAC-SHA256 of time and body", ID: "digest of the body", Wants: "2xx; 24h",
	Uses: []string{"secrets"}, fields: []string{"Calendly-*"},
	key: producer.BodyDigest(), kind: producer.JSON("event"), tolerance: fiveMinutes, window: 2 * day,
	build: func(p *producer.Producer, s Settings) {
		signedByHMAC(p, &verify.HMAC{
			Headers: []string{"Calendly-Webhook-Signature"}, Separator: ",",
			Entries: []string{"t={timestamp}", "v1={sig}"}, Encoding: verify.Hex, Content: "{timestamp}.{body}",
		}, s.Secrets)
	},
}
