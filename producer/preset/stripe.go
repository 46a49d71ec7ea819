package preset

import (
	"errors"
	"strings"
	"time"

	"github.com/eyelet-dev/eyelet/producer"
	"github.com/eyelet-dev/eyelet/verify"
)

// Stripe receives webhooks of Stripe. A secret is the endpoint's signing secret as the dashboard shows it,
// "whsec_" included: the whole text is the key. While a secret is rolled, deliveries carry a signature for
// each.
//
// Signatures are good for 5 minutes, as in the vendor's libraries; those set no bound on times ahead of our
// clock, we allow 60 seconds. Stripe tries for 3 days, each time signed afresh. The body counts its pending
// webhooks and so changes between attempts; the signed id alone decides what is the same event.
//
// https://docs.stripe.com/webhooks/signature
func Stripe(secrets ...string) producer.Producer {
	p := signedBy(webhook("stripe", "https://docs.stripe.com/webhooks/signature"), &verify.HMAC{
		Headers: []string{"Stripe-Signature"}, Separator: ",", Entries: []string{"t={timestamp}", "v1={sig}"},
		Encoding: verify.Hex, Content: "{timestamp}.{body}", Secrets: verify.Secrets(secrets...),
	})
	for _, s := range secrets {
		if strings.HasPrefix(s, "sk_") || strings.HasPrefix(s, "rk_") || strings.HasPrefix(s, "pk_") {
			p.Err = errors.Join(p.Err, errors.New("a secret is an API key; the signing secret begins with whsec_"))
		}
	}
	p.Tolerance = verify.Tolerance{Past: 5 * time.Minute, Future: time.Minute}
	p.Key, p.KeyRequired = producer.JSON("id"), true
	p.Type = producer.JSON("type")
	p.Fingerprint = producer.FingerprintNone
	p.Window = 4 * 24 * time.Hour
	return p
}
