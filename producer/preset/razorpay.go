package preset

import (
	"github.com/eyelet-dev/eyelet/producer"
	"github.com/eyelet-dev/eyelet/verify"
)

// Razorpay receives webhooks of Razorpay. After a change of the secret, retries of older events
// are still signed with the old one: set both for a day. The identifier x-razorpay-event-id is
// not signed, so a digest of the body, which contains a time, identifies the event. Razorpay
// wants 2xx within 5 seconds, retries for 24 hours and then disables the webhook. Undelivered
// events can be resent by hand for 7 days, which the window allows for.
//
// https://razorpay.com/docs/webhooks/validate-test/
func Razorpay(secrets ...string) producer.Producer {
	return razorpay.producer(Settings{Secrets: secrets})
}

var razorpay = Preset{
	Name: "razorpay", Docs: "https://razorpay.com/docs/webhooks/validate-test/",
	Auth: "HMAC-SHA256 of the body", ID: "x-razorpay-event-id", Deadline: "5s", Wants: "2xx; 24h",
	Uses: []string{"secrets"}, fields: []string{"X-Razorpay-*"},
	key: producer.Header("x-razorpay-event-id"), kind: producer.JSON("event"), eventTime: producer.JSON("created_at"),
	window: 9 * day,
	build: func(p *producer.Producer, s Settings) {
		signedByHMAC(p, &verify.HMAC{Headers: []string{"X-Razorpay-Signature"}, Encoding: verify.Hex}, s.Secrets)
	},
}
