package preset

import (
	"github.com/eyelet-dev/eyelet/producer"
	"github.com/eyelet-dev/eyelet/verify"
)

// LINE receives webhooks of the LINE Messaging API. A secret is the channel secret.
//
// A delivery is a batch of events, which is empty when the console checks the URL. Each event
// has a webhookEventId. A redelivery, which must be enabled, has the same identifier and differs
// in deliveryContext.isRedelivery. The bot's id ("destination") is an attribute of every event.
//
// Sources, read in November 2026: line-bot-sdk-go 8.14.0, @line/bot-sdk 11.0.0 and LINE's
// documentation. How long LINE redelivers is not documented.
//
// https://developers.line.biz/en/docs/messaging-api/receiving-messages/
func LINE(secrets ...string) producer.Producer { return line.producer(Settings{Secrets: secrets}) }

var line = Preset{
	Name: "line", Docs: "https://developers.line.biz/en/docs/messaging-api/receiving-messages/",
	Auth: "HMAC-SHA256 of the body", ID: "each event's webhookEventId", Wants: "2xx; redelivers if enabled",
	Uses: []string{"secrets"}, fields: []string{"X-Line-*"},
	eventTime: producer.JSON("events.0.timestamp"), fingerprint: producer.FingerprintNone, window: 2 * day,
	build: func(p *producer.Producer, s Settings) {
		signedByHMAC(p, &verify.HMAC{Headers: []string{"X-Line-Signature"}, Encoding: verify.Base64}, s.Secrets)
		p.Split = batch{
			path: []string{"events"}, id: producer.JSON("webhookEventId"), kind: producer.JSON("type"),
			varies: "deliveryContext",
			common: map[string]producer.Extractor{"destination": producer.JSON("destination")},
		}.split
	},
	typeFrom: "json:events.*.type",
}
