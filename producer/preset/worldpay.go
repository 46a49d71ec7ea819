package preset

import (
	"cmp"

	"github.com/eyelet-dev/eyelet/producer"
	"github.com/eyelet-dev/eyelet/verify"
)

// Worldpay receives events of Access Worldpay. Keys are its shared secrets by key id ("1",
// "2"); a signature with another id does not match. The vendor accepts only 200, within 10
// seconds, and retries for a week.
//
// Commas separate entries. That the signature is in hex is documented for account payouts and
// assumed for all events; the setting `encoding: base64` accepts the other encoding.
//
// https://developer.worldpay.com/products/access/events
func Worldpay(keys map[string]string) producer.Producer {
	return worldpay.producer(Settings{Keys: keys})
}

var worldpay = Preset{
	Name: "worldpay", Docs: "https://developer.worldpay.com/products/access/events",
	Auth: "HMAC-SHA256 of the body", ID: "body eventId", Deadline: "10s", Wants: "200 only; 7 days",
	Uses: []string{"keys", "encoding"},
	key:  producer.JSON("eventId"), kind: producer.JSON("eventDetails.type"),
	eventTime: producer.JSON("eventTimestamp"), fingerprint: producer.FingerprintNone, window: 8 * day,
	build: func(p *producer.Producer, s Settings) {
		secrets := make(map[string]verify.Secret, len(s.Keys))
		for id, k := range s.Keys {
			secrets[id] = verify.Secret(k)
		}
		signedBy(p, &verify.HMAC{
			Headers: []string{"Event-Signature"}, Separator: ",", Entries: []string{"{kid}/{alg}/{sig}"},
			Hashes: []verify.Hash{verify.SHA256}, Keys: secrets,
			Encoding: cmp.Or(verify.Encoding(s.Encoding), verify.Hex),
		})
	},
}
