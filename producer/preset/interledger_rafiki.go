package preset

import (
	"github.com/eyelet-dev/eyelet/producer"
	"github.com/eyelet-dev/eyelet/verify"
)

// Rafiki receives webhooks of Rafiki, the reference implementation of Interledger. The signature
// covers the canonical form of the JSON body (RFC 8785), not its bytes. Bodies that two parsers
// could read differently are refused: repeated members, numbers from 2^53 on. So are bodies of more
// than 64 KiB, 10,000 values or 1,000 members. The tolerance of 5 minutes is ours.
//
// Rafiki accepts only 200. It retries without end, at most every minute; the window of 31 days
// is ours. Open Payments itself signs with RFC 9421: use producer.Signed for it.
//
// https://rafiki.dev/integration/requirements/webhook-events/
func Rafiki(secrets ...string) producer.Producer {
	return interledgerRafiki.producer(Settings{Secrets: secrets})
}

var interledgerRafiki = Preset{
	Name: "interledger-rafiki", Docs: "https://rafiki.dev/integration/requirements/webhook-events/",
	Auth: "HMAC-SHA256 of time and canonical JSON", ID: "body id", Wants: "200 only; without end",
	Uses: []string{"secrets"},
	key:  producer.JSON("id"), kind: producer.JSON("type"), fingerprint: producer.FingerprintNone,
	tolerance: fiveMinutes, window: 31 * day,
	build: func(p *producer.Producer, s Settings) {
		signedByHMAC(p, &verify.HMAC{
			Headers: []string{"Rafiki-Signature"}, Separator: ",", Entries: []string{"t={timestamp}", "v1={sig}"},
			Encoding: verify.Hex, Content: "{timestamp}.{jcs}",
		}, s.Secrets)
		p.MaxBody = 64 << 10 // the canonical form is computed before verification
	},
}
