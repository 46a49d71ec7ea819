package preset

import (
	"github.com/eyelet-dev/eyelet/producer"
	"github.com/eyelet-dev/eyelet/verify"
)

// Typeform receives webhooks of Typeform. A secret is the webhook's secret. The signed event_id
// identifies the event.
//
// Sources, read in November 2026: Typeform's documentation of signatures. That Typeform waits 30
// seconds and tries for 10 hours is general knowledge.
//
// https://www.typeform.com/developers/webhooks/secure-your-webhooks/
func Typeform(secrets ...string) producer.Producer {
	return typeform.producer(Settings{Secrets: secrets})
}

var typeform = Preset{
	Name: "typeform", Docs: "https://www.typeform.com/developers/webhooks/secure-your-webhooks/",
	Auth: "HMAC-SHA256 of the body", ID: "body event_id", Deadline: "30s", Wants: "2xx; 10h",
	Uses: []string{"secrets"}, fields: []string{"Typeform-*"},
	key: producer.JSON("event_id"), keyRequired: true, kind: producer.JSON("event_type"),
	eventTime: producer.JSON("form_response.submitted_at"), fingerprint: producer.FingerprintNone, window: 2 * day,
	build: func(p *producer.Producer, s Settings) {
		signedByHMAC(p, &verify.HMAC{
			Headers: []string{"Typeform-Signature"}, Entries: []string{"sha256={sig}"}, Encoding: verify.Base64,
		}, s.Secrets)
	},
}
