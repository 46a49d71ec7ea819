package preset

import (
	"github.com/eyelet-dev/eyelet/producer"
	"github.com/eyelet-dev/eyelet/verify"
)

// Dwolla receives webhooks of Dwolla. A secret is the one given when the subscription was
// created. The signed body contains the identifier. Dwolla wants 2xx within 10 seconds and
// tries 8 times in 72 hours.
//
// https://developers.dwolla.com/docs/balance/webhooks/process-validate
func Dwolla(secrets ...string) producer.Producer { return dwolla.producer(Settings{Secrets: secrets}) }

var dwolla = Preset{
	Name: "dwolla", Docs: "https://developers.dwolla.com/docs/balance/webhooks/process-validate",
	Auth: "HMAC-SHA256 of the body", ID: "body id", Deadline: "10s", Wants: "2xx; 72h",
	Uses: []string{"secrets"}, fields: []string{"X-Dwolla-*"},
	key: producer.JSON("id"), kind: producer.JSON("topic"), eventTime: producer.JSON("timestamp"),
	fingerprint: producer.FingerprintNone, window: 4 * day,
	build: func(p *producer.Producer, s Settings) {
		signedByHMAC(p, &verify.HMAC{Headers: []string{"X-Request-Signature-SHA-256"}, Encoding: verify.Hex}, s.Secrets)
	},
}
