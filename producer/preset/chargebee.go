package preset

import (
	"time"

	"github.com/eyelet-dev/eyelet/producer"
	"github.com/eyelet-dev/eyelet/verify"
)

// Chargebee receives webhooks of Chargebee with the credential that was entered beside the address: verify.Basic,
// or verify.QueryValue for a key in the URL. Nothing is signed.
//
// The body tells the state of its own delivery and so changes between attempts; what makes two deliveries the same
// is id, type and time of the event. Chargebee tries 7 times in 3.3 days.
//
// https://www.chargebee.com/docs/billing/2.0/site-configuration/webhook_settings
func Chargebee(credential *verify.Static) producer.Producer {
	p := webhook("chargebee", "https://www.chargebee.com/docs/billing/2.0/site-configuration/webhook_settings")
	p = withCredential(p, credential)
	p.Key = producer.JSON("id")
	p.Type = producer.JSON("event_type")
	p.Fingerprint = producer.FingerprintFields(producer.JSON("id"), producer.JSON("event_type"), producer.JSON("occurred_at"))
	p.Window = 103 * time.Hour
	return p
}
