package preset

import (
	"github.com/eyelet-dev/eyelet/producer"
	"github.com/eyelet-dev/eyelet/verify"
)

// Bitbucket receives webhooks of Bitbucket Cloud and Bitbucket Data Center that have a secret. The
// event type is X-Event-Key ("repo:push", "repo:refs_changed"). The ping with which Data Center
// tests a URL (diagnostics:ping) is answered; it is not an event.
//
// X-Request-UUID (of Data Center X-Request-Id) is not signed, so a digest of the body identifies
// the event: the same body under another identifier is quarantined.
//
// Sources, read in November 2026: Atlassian's pages on event payloads of both products and on
// securing webhooks. That Cloud waits 10 seconds and tries twice more after a 5xx is general
// knowledge.
//
// https://support.atlassian.com/bitbucket-cloud/docs/event-payloads/
// https://confluence.atlassian.com/bitbucketserver/event-payload-938025882.html
func Bitbucket(secrets ...string) producer.Producer {
	return bitbucket.producer(Settings{Secrets: secrets})
}

var bitbucket = Preset{
	Name: "bitbucket", Docs: "https://support.atlassian.com/bitbucket-cloud/docs/manage-webhooks/",
	Auth: "HMAC-SHA256 of the body", ID: "X-Request-UUID", Deadline: "10s", Wants: "2xx; 2 retries",
	Uses: []string{"secrets"},
	fields: []string{"X-Event-Key", "X-Hook-UUID", "X-Request-UUID", "X-Request-Id", "X-Attempt-Number",
		"X-Hub-Signature"},
	key:  producer.First(producer.Header("X-Request-UUID"), producer.Header("X-Request-Id")),
	kind: producer.Header("X-Event-Key"), window: 2 * day,
	build: func(p *producer.Producer, s Settings) {
		p.Pings = []string{"header:X-Event-Key=diagnostics:ping"}
		signedByHMAC(p, &verify.HMAC{
			Headers: []string{"X-Hub-Signature"}, Entries: []string{"sha256={sig}"}, Encoding: verify.Hex,
		}, s.Secrets)
	},
}
