package preset

import (
	"time"

	"github.com/eyelet-dev/eyelet/producer"
	"github.com/eyelet-dev/eyelet/verify"
)

// PayPal receives webhooks of PayPal; webhookID is the id that PayPal shows for the webhook. PayPal tries 25
// times in 3 days and keeps transmission id and time, so signatures of up to 3 days and 2 hours are accepted.
//
// The body is bound by a CRC-32 only: see [verify.PayPal] for what that means. A forged body under a captured
// signature has the signed content of the original and is kept aside, not run. Before money moves on an event,
// ask PayPal (POST /v1/notifications/verify-webhook-signature).
//
// Certificates are fetched from hosts below paypal.com and must chain to a root of the system, or of the setting
// roots; that PayPal's
// do is documented, and was not tried against its servers.
//
// https://developer.paypal.com/api/rest/webhooks/rest/
func PayPal(webhookID string) producer.Producer { return payPal(Settings{WebhookID: webhookID}) }

func payPal(s Settings) producer.Producer {
	p := webhook("paypal", "https://developer.paypal.com/api/rest/webhooks/rest/")
	roots, err := s.roots()
	p.Err = err
	p = signedBy(p, &verify.PayPal{
		WebhookID: s.WebhookID,
		Certs:     &verify.Certs{Fetch: s.Fetch, Roots: roots, Pinned: s.PinnedKeys},
	})
	p.Tolerance = verify.Tolerance{Past: 74 * time.Hour, Future: 5 * time.Minute}
	p.Key, p.KeyRequired = producer.JSON("id"), true
	p.Type = producer.JSON("event_type")
	p.Attributes = attributes(map[string]producer.Extractor{
		"transmission": producer.Header("Paypal-Transmission-Id"), "resource_type": producer.JSON("resource_type"), "time": producer.JSON("create_time"),
	})
	p.Window = 4 * 24 * time.Hour
	return p
}
