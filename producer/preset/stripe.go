package preset

import (
	"errors"
	"strings"
	"time"

	"github.com/eyelet-dev/eyelet/producer"
	"github.com/eyelet-dev/eyelet/verify"
)

// Stripe receives webhooks of Stripe. A secret is the endpoint's signing secret as the
// dashboard shows it; the whole text, "whsec_" included, is the key. During a rotation
// deliveries have a signature for each secret.
//
// Signatures are valid for 5 minutes, as in the vendor's libraries. Those accept any time in
// the future; we allow 60 seconds. Stripe retries for 3 days and signs each attempt. The body
// contains a counter of pending webhooks and so differs between attempts; the signed id alone
// identifies the event.
//
// https://docs.stripe.com/webhooks/signature
func Stripe(secrets ...string) producer.Producer { return stripe.producer(Settings{Secrets: secrets}) }

var stripe = Preset{
	Name: "stripe", Docs: "https://docs.stripe.com/webhooks/signature",
	Auth: "HMAC-SHA256 of time and body", ID: "body id", Wants: "2xx; 3 days",
	Uses: []string{"secrets"},
	key:  producer.JSON("id"), keyRequired: true, kind: producer.JSON("type"), fingerprint: producer.FingerprintNone,
	tolerance: verify.Tolerance{Past: 5 * time.Minute, Future: time.Minute}, window: 4 * day,
	build: func(p *producer.Producer, s Settings) {
		signedBy(p, &verify.HMAC{
			Headers: []string{"Stripe-Signature"}, Separator: ",", Entries: []string{"t={timestamp}", "v1={sig}"},
			Encoding: verify.Hex, Content: "{timestamp}.{body}", Secrets: verify.Secrets(s.Secrets...),
		})
		for _, s := range s.Secrets {
			if strings.HasPrefix(s, "sk_") || strings.HasPrefix(s, "rk_") || strings.HasPrefix(s, "pk_") {
				p.Err = errors.Join(p.Err, errors.New("a secret is an API key; the signing secret begins with whsec_"))
			}
		}
	},
}
