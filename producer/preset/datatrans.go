package preset

import (
	"time"

	"github.com/eyelet-dev/eyelet/producer"
	"github.com/eyelet-dev/eyelet/verify"
)

// Datatrans receives webhooks of Datatrans. A key is the merchant's sign key in hex. Signed are the time in
// milliseconds and the body, without anything between them. Digits that were moved from one to the other are recognized
// by the digest of the signed bytes. The tolerance of 5 minutes is ours.
//
// There is no event id, and transactionId with status is none: it would drop the second partial capture. A
// digest of the body names the event. How long Datatrans tries, and that any 2xx will do, was not found written.
//
// https://docs.datatrans.ch/docs/additional-security
func Datatrans(keys ...string) producer.Producer {
	p := signedBy(webhook("datatrans", "https://docs.datatrans.ch/docs/additional-security"), &verify.HMAC{
		Headers: []string{"Datatrans-Signature"}, Separator: ",", Entries: []string{"t={timestamp}", "s0={sig}"},
		TimestampUnit: time.Millisecond, Encoding: verify.Hex, Content: "{timestamp}{body}", Malleable: true,
		Secrets: verify.Secrets(keys...), SecretEncoding: verify.Hex,
	})
	p.Tolerance = verify.Tolerance{Past: 5 * time.Minute, Future: 5 * time.Minute}
	p.Key = producer.BodyDigest()
	p.Type = producer.JSON("status")
	p.Window = 48 * time.Hour
	return p
}
