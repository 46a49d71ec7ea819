package preset

import (
	"time"

	"github.com/eyelet-dev/eyelet/producer"
	"github.com/eyelet-dev/eyelet/verify"
)

// Datatrans receives webhooks of Datatrans. A key is the merchant's sign key in hex. The time
// in milliseconds and the body are signed without a separator; the digest of the signed bytes
// detects digits moved from one to the other. The tolerance of 5 minutes is ours.
//
// There is no event id. transactionId with status would drop the second partial capture, so a
// digest of the body identifies the event. How long Datatrans retries, and that any 2xx will
// do, is not documented.
//
// https://docs.datatrans.ch/docs/additional-security
func Datatrans(keys ...string) producer.Producer { return datatrans.producer(Settings{Secrets: keys}) }

var datatrans = Preset{
	Name: "datatrans", Docs: "https://docs.datatrans.ch/docs/additional-security",
	Auth: "HMAC-SHA256 of time and body", ID: "digest of the body", Wants: "2xx (assumed)",
	Uses: []string{"secrets"},
	key:  producer.BodyDigest(), kind: producer.JSON("status"), tolerance: fiveMinutes, window: 2 * day,
	build: func(p *producer.Producer, s Settings) {
		signedBy(p, &verify.HMAC{
			Headers: []string{"Datatrans-Signature"}, Separator: ",", Entries: []string{"t={timestamp}", "s0={sig}"},
			TimestampUnit: time.Millisecond, Encoding: verify.Hex, Content: "{timestamp}{body}", Malleable: true,
			Secrets: verify.Secrets(s.Secrets...), SecretEncoding: verify.Hex,
		})
	},
}
