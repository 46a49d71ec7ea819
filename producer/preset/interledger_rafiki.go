package preset

import (
	"errors"
	"time"

	"github.com/eyelet-dev/eyelet/producer"
	"github.com/eyelet-dev/eyelet/verify"
)

// rafikiMaxBody bounds the body in bytes: its canonical form is computed before anything is verified.
const rafikiMaxBody = 64 << 10

// Rafiki receives webhooks of Rafiki, the reference implementation of Interledger. The signature covers the
// canonical form of the JSON body (RFC 8785) and not its bytes, so a body that two parsers could read in two ways
// is refused: members that occur twice, numbers from 2^53 on. So is one of more than 64 KiB, 10,000 values or 1,000
// members. The tolerance of 5 minutes is ours.
//
// Rafiki wants 200, nothing else. It tries without end, at most every minute; the window of 31 days is ours. Open
// Payments itself signs by RFC 9421: use Signed for it.
//
// https://rafiki.dev/integration/requirements/webhook-events/
func Rafiki(secrets ...string) producer.Producer {
	p := webhook("interledger-rafiki", "https://rafiki.dev/integration/requirements/webhook-events/")
	list, err := plainSecrets(secrets)
	p = signedBy(p, &verify.HMAC{
		Headers: []string{"Rafiki-Signature"}, Separator: ",", Entries: []string{"t={timestamp}", "v1={sig}"},
		Encoding: verify.Hex, Content: "{timestamp}.{jcs}", Secrets: list,
	})
	p.Err = errors.Join(err, p.Err)
	p.Tolerance = verify.Tolerance{Past: 5 * time.Minute, Future: 5 * time.Minute}
	p.Key = producer.JSON("id")
	p.Type = producer.JSON("type")
	p.Fingerprint = producer.FingerprintNone
	p.MaxBody = rafikiMaxBody
	p.Window = 31 * 24 * time.Hour
	return p
}
