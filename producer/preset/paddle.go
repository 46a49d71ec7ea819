package preset

import (
	"github.com/eyelet-dev/eyelet/producer"
	"github.com/eyelet-dev/eyelet/verify"
)

// Paddle receives notifications of Paddle Billing. A secret is the secret key of the
// notification destination. A rotation adds a signature for each key.
//
// Paddle's Node library accepts a signature for 5 seconds, its Go library without a limit unless
// one is set; we accept 5 minutes. The signed event_id identifies the event.
//
// Sources, read in November 2026: paddle-go-sdk 4.1.0, @paddle/paddle-node-sdk 3.10.0. That
// Paddle waits 5 seconds and tries for 3 days is general knowledge.
//
// https://developer.paddle.com/webhooks/signature-verification
func Paddle(secrets ...string) producer.Producer { return paddle.producer(Settings{Secrets: secrets}) }

var paddle = Preset{
	Name: "paddle", Docs: "https://developer.paddle.com/webhooks/signature-verification",
	Auth: "HMAC-SHA256 of time and body", ID: "body event_id", Deadline: "5s", Wants: "2xx; 3 days",
	Uses: []string{"secrets"}, fields: []string{"Paddle-*"},
	key: producer.JSON("event_id"), keyRequired: true, kind: producer.JSON("event_type"),
	fingerprint: producer.FingerprintNone, tolerance: fiveMinutes, window: 4 * day,
	build: func(p *producer.Producer, s Settings) {
		signedByHMAC(p, &verify.HMAC{
			Headers: []string{"Paddle-Signature"}, Separator: ";", Entries: []string{"ts={timestamp}", "h1={sig}"},
			Encoding: verify.Hex, Content: "{timestamp}:{body}",
		}, s.Secrets)
	},
}
