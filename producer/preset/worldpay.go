package preset

import (
	"time"

	"github.com/eyelet-dev/eyelet/producer"
	"github.com/eyelet-dev/eyelet/verify"
)

// Worldpay receives events of Access Worldpay. Keys are its shared secrets by key id ("1", "2"); an entry with an
// id that is not among them is a signature that does not match. The vendor wants 200, nothing else, within 10
// seconds, and tries for a week.
//
// Entries stand apart by commas. That the signature is written in hex is documented for account payouts and taken for
// all events; the setting `encoding: base64` takes the other spelling.
//
// https://developer.worldpay.com/products/access/events
func Worldpay(keys map[string]string) producer.Producer { return worldpay(keys, verify.Hex) }

func worldpay(keys map[string]string, encoding verify.Encoding) producer.Producer {
	secrets := make(map[string]verify.Secret, len(keys))
	for id, k := range keys {
		secrets[id] = verify.Secret(k)
	}
	p := signedBy(webhook("worldpay", "https://developer.worldpay.com/products/access/events"), &verify.HMAC{
		Headers: []string{"Event-Signature"}, Separator: ",", Entries: []string{"{kid}/{alg}/{sig}"},
		Hashes: []verify.Hash{verify.SHA256}, Encoding: encoding, Keys: secrets,
	})
	p.Key = producer.JSON("eventId")
	p.Type = producer.JSON("eventDetails.type")
	p.EventTime = producer.JSON("eventTimestamp")
	p.Fingerprint = producer.FingerprintNone
	p.Window = 8 * 24 * time.Hour
	return p
}
