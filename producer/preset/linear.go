package preset

import (
	"github.com/eyelet-dev/eyelet/producer"
	"github.com/eyelet-dev/eyelet/verify"
)

// Linear receives webhooks of Linear. A secret is the webhook's signing secret. The event type
// is the kind of the changed object ("Issue", "Comment"); the attribute "action" is create,
// update or remove.
//
// The signed time is the member webhookTimestamp of the body, in milliseconds. Linear's library
// accepts 60 seconds; we accept 5 minutes, because a captured delivery is a duplicate anyway.
// The identifier Linear-Delivery is not signed: the same bytes under another identifier are
// quarantined. An attempt has its own time, so members that stay the same are compared.
//
// Sources, read in November 2026: @linear/sdk 98.0.0. That Linear waits 5 seconds and tries
// again after 1 minute, 1 hour and 6 hours is general knowledge.
//
// https://linear.app/developers/webhooks
func Linear(secrets ...string) producer.Producer { return linear.producer(Settings{Secrets: secrets}) }

var linear = Preset{
	Name: "linear", Docs: "https://linear.app/developers/webhooks",
	Auth: "HMAC-SHA256 of the body, with a time in it", ID: "Linear-Delivery", Deadline: "5s", Wants: "200; 7h",
	Uses: []string{"secrets"}, fields: []string{"Linear-*"},
	key: producer.Header("Linear-Delivery"), keyRequired: true, kind: producer.JSON("type"),
	fingerprint: producer.FingerprintFields(producer.JSON("type"), producer.JSON("action"),
		producer.JSON("createdAt"), producer.JSON("data.id"), producer.JSON("data.updatedAt")),
	tolerance: fiveMinutes, window: 2 * day,
	build: func(p *producer.Producer, s Settings) {
		p.Err = checkText(s.Secrets)
		signedBy(p, &bodyTimed{member: "webhookTimestamp", HMAC: &verify.HMAC{
			Headers: []string{"Linear-Signature"}, Encoding: verify.Hex, Secrets: verify.Secrets(s.Secrets...),
		}})
		p.Attributes = attributes(map[string]producer.Extractor{"action": producer.JSON("action")})
	},
}
