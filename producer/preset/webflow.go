package preset

import (
	"time"

	"github.com/eyelet-dev/eyelet/producer"
	"github.com/eyelet-dev/eyelet/verify"
)

// Webflow receives webhooks of Webflow that were made through its API: those of the dashboard are
// not signed. A secret is the client secret of the OAuth application that made them, or the key of
// the webhook. Time and body are signed; a signature is valid for 5 minutes, as Webflow advises.
//
// Webflow sends no id; a digest of the body identifies the event. It wants 200, follows no
// redirect, and tries 3 times more, every 10 minutes.
//
// Sources, read in November 2026: Webflow's pages on request signatures and on limits and retries,
// and webflow-api 3 (the raw body is signed).
//
// https://developers.webflow.com/data/docs/working-with-webhooks
func Webflow(secrets ...string) producer.Producer {
	return webflow.producer(Settings{Secrets: secrets})
}

var webflow = Preset{
	Name: "webflow", Docs: "https://developers.webflow.com/data/docs/working-with-webhooks",
	Auth: "HMAC-SHA256 of time and body", ID: "digest of the body", Wants: "200; 30m",
	Uses: []string{"secrets"}, fields: []string{"X-Webflow-*"},
	key: producer.BodyDigest(), kind: producer.JSON("triggerType"), tolerance: fiveMinutes, window: day + time.Hour,
	build: func(p *producer.Producer, s Settings) {
		signedByHMAC(p, &verify.HMAC{
			Headers: []string{"x-webflow-signature"}, TimestampHeaders: []string{"x-webflow-timestamp"},
			TimestampUnit: time.Millisecond, Encoding: verify.Hex, Content: "{timestamp}:{body}",
		}, s.Secrets)
	},
}
