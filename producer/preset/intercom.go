package preset

import (
	"net/http"

	"github.com/eyelet-dev/eyelet/producer"
	"github.com/eyelet-dev/eyelet/verify"
)

// Intercom receives webhooks of Intercom. A secret is the app's client secret. Intercom signs
// with HMAC-SHA1 only.
//
// The signed id identifies the event; delivery_attempts and first_sent_at in the body differ
// between attempts.
//
// Sources, read in November 2026: Intercom's documentation of signed notifications. That
// Intercom waits 5 seconds and tries once more after a minute is general knowledge.
//
// https://developers.intercom.com/docs/webhooks/setting-up-webhooks
func Intercom(secrets ...string) producer.Producer {
	return intercom.producer(Settings{Secrets: secrets})
}

var intercom = Preset{
	Name: "intercom", Docs: "https://developers.intercom.com/docs/webhooks/setting-up-webhooks",
	Auth: "HMAC-SHA1 of the body", ID: "body id", Deadline: "5s", Wants: "200; 1 retry",
	Uses: []string{"secrets"}, fields: []string{"X-Hub-Signature", "Intercom-*"},
	key: producer.JSON("id"), kind: producer.JSON("topic"), eventTime: producer.JSON("created_at"),
	fingerprint: producer.FingerprintNone, window: 2 * day,
	build: func(p *producer.Producer, s Settings) {
		p.Pings = []string{http.MethodHead} // it checks the URL before it is saved
		signedByHMAC(p, &verify.HMAC{
			Headers: []string{"X-Hub-Signature"}, Entries: []string{"sha1={sig}"}, Hash: verify.SHA1,
			Encoding: verify.Hex,
		}, s.Secrets)
	},
}
