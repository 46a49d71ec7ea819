package preset

import (
	"github.com/eyelet-dev/eyelet/dedup"
	"github.com/eyelet-dev/eyelet/producer"
	"github.com/eyelet-dev/eyelet/verify"
)

// Xero receives webhooks of a Xero app. A key is the app's webhook signing key, used as the text
// that the developer portal shows. The "intent to receive", a series of deliveries without events
// of which some are signed wrongly, gets an empty 200 and a 401, as Xero wants.
//
// A delivery is a batch. An event has no identifier: its tenant, category, resource, type and time
// are one. The event type is category and type ("INVOICE:UPDATE").
//
// Sources, read in November 2026: Xero's page on configuring a server. It wants 200 without a body
// within 5 seconds, tries for 24 hours, and then disables the webhook.
//
// https://developer.xero.com/documentation/guides/webhooks/configuring-your-server/
func Xero(keys ...string) producer.Producer { return xero.producer(Settings{Secrets: keys}) }

var xero = Preset{
	Name: "xero", Docs: "https://developer.xero.com/documentation/guides/webhooks/configuring-your-server/",
	Auth: "HMAC-SHA256 of the body", ID: "tenant, category, resource, type and time",
	Deadline: "5s", Wants: "200, empty; 24h",
	Uses: []string{"secrets"}, fields: []string{"X-Xero-*"}, fingerprint: producer.FingerprintNone, window: 2 * day,
	build: func(p *producer.Producer, s Settings) {
		signedByHMAC(p, &verify.HMAC{Headers: []string{"x-xero-signature"}, Encoding: verify.Base64}, s.Secrets)
		p.Accepted = dedup.Response{Body: []byte{}}
		kind := producer.First(producer.Join(producer.JSON("eventCategory"), producer.JSON("eventType")),
			producer.JSON("eventType"))
		p.Split = batch{
			path: []string{"events"}, kind: kind,
			id: producer.Join(producer.JSON("tenantId"), kind, producer.JSON("resourceId"),
				producer.JSON("eventDateUtc")),
			own: map[string]producer.Extractor{
				"source": producer.JSON("tenantId"), "subject": producer.JSON("resourceUrl"),
				"time": producer.JSON("eventDateUtc"),
			},
		}.split
	},
	typeFrom: "json:events.*.eventCategory:eventType",
}
