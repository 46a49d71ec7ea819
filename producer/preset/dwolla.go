package preset

import (
	"errors"
	"time"

	"github.com/eyelet-dev/eyelet/producer"
	"github.com/eyelet-dev/eyelet/verify"
)

// Dwolla receives webhooks of Dwolla. A secret is the one given when the subscription was made. The signed body
// holds the identifier. Dwolla wants 2xx within 10 seconds and tries 8 times in 72 hours.
//
// https://developers.dwolla.com/docs/balance/webhooks/process-validate
func Dwolla(secrets ...string) producer.Producer {
	p := webhook("dwolla", "https://developers.dwolla.com/docs/balance/webhooks/process-validate")
	list, err := plainSecrets(secrets)
	p = signedBy(p, &verify.HMAC{Headers: []string{"X-Request-Signature-SHA-256"}, Encoding: verify.Hex, Secrets: list})
	p.Err = errors.Join(err, p.Err)
	p.Key = producer.JSON("id")
	p.Type = producer.JSON("topic")
	p.EventTime = producer.JSON("timestamp")
	p.Fingerprint = producer.FingerprintNone
	p.Window = 4 * 24 * time.Hour
	return p
}
