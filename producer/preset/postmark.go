package preset

import "github.com/eyelet-dev/eyelet/producer"

// Postmark receives webhooks of Postmark, inbound messages included. Postmark signs nothing; the
// credential is one of user and password in the webhook's URL, a header field that the webhook is
// given, or a parameter of its URL. It authenticates the sender but not the body.
//
// Events have no identifier, only that of their message, so a digest of the body identifies one.
// The event type is RecordType ("Bounce", "Delivery"); an inbound message has none. Bodies of up
// to 50 MiB are accepted, because an inbound message holds its attachments.
//
// Sources, read in November 2026: Postmark's overview of webhooks and its article on retries of
// inbound webhooks. It wants 200, tries for 10.5 hours, and stops at 403. That the largest
// inbound message has 35 MB is general knowledge.
//
// https://postmarkapp.com/developer/webhooks/webhooks-overview
func Postmark(s Settings) producer.Producer { return postmark.producer(s) }

var postmark = Preset{
	Name: "postmark", Docs: "https://postmarkapp.com/developer/webhooks/webhooks-overview",
	Auth: "basic, a header field, or a key in the URL", ID: "digest of the body", Wants: "200; 10.5h",
	Uses: []string{"username", "password", "header", "query", "value", "secrets"},
	key:  producer.BodyDigest(), kind: producer.JSON("RecordType"), window: 2 * day,
	build: func(p *producer.Producer, s Settings) {
		withCredential(p, s.credential())
		p.MaxBody = 50 << 20
	},
}
