package preset

import (
	"errors"
	"time"

	"github.com/eyelet-dev/eyelet/producer"
	"github.com/eyelet-dev/eyelet/verify"
)

// Razorpay receives webhooks of Razorpay. After a change of the secret, retries of older events still come with
// the old one: give both for a day. The identifier x-razorpay-event-id is not signed: events are named by a digest of
// the body, which has a time of its own. Razorpay wants 2xx within 5 seconds, tries for 24 hours, and then switches the
// webhook off; what it could not deliver can be sent again by hand for 7 days, which the window allows for.
//
// https://razorpay.com/docs/webhooks/validate-test/
func Razorpay(secrets ...string) producer.Producer {
	p := webhook("razorpay", "https://razorpay.com/docs/webhooks/validate-test/")
	list, err := plainSecrets(secrets)
	p = signedBy(p, &verify.HMAC{Headers: []string{"X-Razorpay-Signature"}, Encoding: verify.Hex, Secrets: list})
	p.Err = errors.Join(err, p.Err)
	p.Key = producer.Header("x-razorpay-event-id")
	p.Type = producer.JSON("event")
	p.EventTime = producer.JSON("created_at")
	p.Window = 9 * 24 * time.Hour
	return p
}
