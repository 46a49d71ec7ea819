package preset

import (
	"github.com/eyelet-dev/eyelet/producer"
	"github.com/eyelet-dev/eyelet/verify"
)

// Vercel receives webhooks of a Vercel team or integration. A secret is the webhook's secret, or
// the client secret of the integration. Vercel signs with HMAC-SHA1 only. The signed id identifies
// the event.
//
// Sources, read in November 2026: Vercel's page on webhooks. That Vercel waits 30 seconds and tries
// for 24 hours is general knowledge.
//
// https://vercel.com/docs/webhooks
func Vercel(secrets ...string) producer.Producer { return vercel.producer(Settings{Secrets: secrets}) }

var vercel = Preset{
	Name: "vercel", Docs: "https://vercel.com/docs/webhooks",
	Auth: "HMAC-SHA1 of the body", ID: "body id", Deadline: "30s", Wants: "2xx; 24h",
	Uses: []string{"secrets"}, fields: []string{"X-Vercel-*"},
	key: producer.JSON("id"), keyRequired: true, kind: producer.JSON("type"), eventTime: producer.JSON("createdAt"),
	fingerprint: producer.FingerprintNone, window: 2 * day,
	build: func(p *producer.Producer, s Settings) {
		signedByHMAC(p, &verify.HMAC{
			Headers: []string{"x-vercel-signature"}, Hash: verify.SHA1, Encoding: verify.Hex,
		}, s.Secrets)
	},
}
