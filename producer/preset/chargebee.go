package preset

import (
	"time"

	"github.com/eyelet-dev/eyelet/producer"
	"github.com/eyelet-dev/eyelet/verify"
)

// Chargebee receives webhooks of Chargebee, with the credential entered beside the URL:
// verify.Basic, or verify.QueryValue for a key in the URL. Nothing is signed.
//
// The body contains the state of its own delivery and so differs between attempts; id, type and
// time identify the event. Chargebee tries 7 times in 3.3 days.
//
// https://www.chargebee.com/docs/billing/2.0/site-configuration/webhook_settings
func Chargebee(credential *verify.Static) producer.Producer {
	return chargebee.producer(Settings{static: credential})
}

var chargebee = Preset{
	Name: "chargebee", Docs: "https://www.chargebee.com/docs/billing/2.0/site-configuration/webhook_settings",
	Auth: "basic, or a key in the URL", ID: "body id", Wants: "2xx; 3.3 days",
	Uses: []string{"username", "password", "header", "query", "value", "bearer", "secrets"},
	key:  producer.JSON("id"), kind: producer.JSON("event_type"), window: 103 * time.Hour,
	build: func(p *producer.Producer, s Settings) {
		withCredential(p, s.credential())
		p.Fingerprint = producer.FingerprintFields(p.Key, p.Type, producer.JSON("occurred_at"))
	},
}
