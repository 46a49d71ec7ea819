package preset

import (
	"time"

	"github.com/eyelet-dev/eyelet/producer"
	"github.com/eyelet-dev/eyelet/verify"
)

// WorkOS receives events of WorkOS. A secret is the endpoint's signing secret. The signed id
// identifies the event.
//
// The signed time is in milliseconds. WorkOS' libraries accept 3 minutes; we accept 5.
//
// Sources, read in November 2026: @workos-inc/node 8.13.0 and workos-go. That WorkOS tries 6
// times in 3 days is general knowledge.
//
// https://workos.com/docs/events/data-syncing/webhooks
func WorkOS(secrets ...string) producer.Producer { return workOS.producer(Settings{Secrets: secrets}) }

var workOS = Preset{
	Name: "workos", Docs: "https://workos.com/docs/events/data-syncing/webhooks",
	Auth: "HMAC-SHA256 of time and body", ID: "body id", Wants: "200; 3 days",
	Uses: []string{"secrets"}, fields: []string{"WorkOS-*"},
	key: producer.JSON("id"), keyRequired: true, kind: producer.JSON("event"),
	fingerprint: producer.FingerprintNone, tolerance: fiveMinutes, window: 4 * day,
	build: func(p *producer.Producer, s Settings) {
		signedByHMAC(p, &verify.HMAC{
			Headers: []string{"WorkOS-Signature"}, Separator: ",", Entries: []string{"t={timestamp}", "v1={sig}"},
			TimestampUnit: time.Millisecond, Encoding: verify.Hex, Content: "{timestamp}.{body}",
		}, s.Secrets)
	},
}
