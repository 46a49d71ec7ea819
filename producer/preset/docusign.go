package preset

import (
	"net/http"
	"strings"

	"github.com/eyelet-dev/eyelet/producer"
	"github.com/eyelet-dev/eyelet/verify"
)

// DocuSign receives webhooks of DocuSign Connect in its JSON format. A secret is a Connect key,
// used as the text that the console shows.
//
// Every Connect key of the account signs the body, in X-DocuSign-Signature-1, -2 and so on; one
// that matches is enough. A message has no identifier: its event, resource, recipient,
// configuration and time are one. Bodies are not compared, because retryCount differs between
// attempts. Messages in XML are identified by a digest of the body.
//
// Sources, read on 23 November 2026: DocuSign's pages on validating an HMAC signature and on its
// JSON format, its Connect guide (only a 200 counts) and its Ruby library (ten retries, at least
// 24 hours apart). That the time is that of the event rather than of the attempt, that individual
// messages are retried for 15 days and that DocuSign waits 100 seconds are general knowledge.
//
// https://developers.docusign.com/platform/webhooks/connect/validate
// https://developers.docusign.com/platform/webhooks/connect/json-sim-event-model
func DocuSign(keys ...string) producer.Producer { return docuSign.with(keys) }

var docuSign = Preset{
	Name: "docusign", Docs: "https://developers.docusign.com/platform/webhooks/connect/validate",
	Auth: "HMAC-SHA256 of the body, one for each key",
	ID:   "event, uri, recipient, configuration and time in the body", Deadline: "100s", Wants: "200; 15 days",
	Uses: []string{"secret"},
	like: producer.Producer{
		Fields: []string{"X-DocuSign-*", "X-Authorization-Digest"},
		Key: producer.Join(producer.JSON("event"), producer.JSON("uri"), producer.JSON("generatedDateTime"),
			producer.First(producer.JSON("data.recipientId"), producer.Const("0")),
			producer.First(producer.JSON("configurationId"), producer.Const("0"))),
		Type: producer.JSON("event"), EventTime: producer.JSON("generatedDateTime"),
		Fingerprint: producer.FingerprintNone, Window: 16 * day,
	},
	build: func(p *producer.Producer, s Settings) {
		scheme := &verify.HMAC{Headers: []string{docuSignField + "1"}, Separator: ",", Encoding: verify.Base64}
		signedByHMAC(p, scheme, s.Secrets)
		p.Scheme, p.MaxBody = docuSignScheme{scheme}, 25<<20 // a message may hold documents
	},
}

// docuSignField is the canonical name of the fields with a signature, before their number.
const docuSignField = "X-Docusign-Signature-"

// docuSignScheme reads the signatures of all numbered fields as entries of the first one.
type docuSignScheme struct{ *verify.HMAC }

// Verify implements [verify.Scheme].
func (s docuSignScheme) Verify(r *http.Request, body func() ([]byte, error)) (verify.Identity, error) {
	return s.verify(s.HMAC, r, body)
}

func (s docuSignScheme) verify(inner verify.Scheme, r *http.Request, body func() ([]byte, error)) (
	verify.Identity, error,
) {
	var all []string
	for name, lines := range r.Header {
		number, ok := strings.CutPrefix(name, docuSignField)
		if !ok || number == "" || strings.Trim(number, "0123456789") != "" {
			continue
		}
		if len(lines) > 1 {
			return verify.Identity{}, &verify.Error{Code: verify.AmbiguousField, Component: name}
		}
		all = append(all, lines...)
	}
	joined := r.WithContext(r.Context()) // a shallow copy
	joined.Header = http.Header{docuSignField + "1": {strings.Join(all, ",")}}
	return inner.Verify(joined, body)
}
