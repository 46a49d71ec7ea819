package preset

import (
	"github.com/eyelet-dev/eyelet/producer"
	"github.com/eyelet-dev/eyelet/verify"
)

// Zendesk receives webhooks of Zendesk. A secret is the webhook's signing secret. The signed
// time is a date-time (RFC 3339) before the body; the tolerance of 5 minutes is ours.
//
// X-Zendesk-Webhook-Invocation-Id identifies the invocation and is not signed: the same bytes
// under another identifier are quarantined. A body made by a trigger or automation has the type
// that it names in its member "type", or none.
//
// Sources, read in November 2026: Zendesk's page on verification. That Zendesk waits 12 seconds
// and retries a few times is general knowledge. Deliveries without a body (GET, DELETE) are
// refused.
//
// https://developer.zendesk.com/documentation/webhooks/verifying/
func Zendesk(secrets ...string) producer.Producer {
	return zendesk.producer(Settings{Secrets: secrets})
}

var zendesk = Preset{
	Name: "zendesk", Docs: "https://developer.zendesk.com/documentation/webhooks/verifying/",
	Auth: "HMAC-SHA256 of time and body", ID: "X-Zendesk-Webhook-Invocation-Id", Deadline: "12s",
	Wants: "2xx; a few retries",
	Uses:  []string{"secrets"}, fields: []string{"X-Zendesk-*"},
	key: producer.Header("X-Zendesk-Webhook-Invocation-Id"), kind: producer.JSON("type"),
	tolerance: fiveMinutes, window: 2 * day,
	build: func(p *producer.Producer, s Settings) {
		signedByHMAC(p, &verify.HMAC{
			Headers:          []string{"X-Zendesk-Webhook-Signature"},
			TimestampHeaders: []string{"X-Zendesk-Webhook-Signature-Timestamp"}, TimestampRFC3339: true,
			Encoding: verify.Base64, Content: "{timestamp}{body}",
		}, s.Secrets)
	},
}
