package preset

import (
	"time"

	"github.com/eyelet-dev/eyelet/producer"
	"github.com/eyelet-dev/eyelet/verify"
)

// Slack receives the Events API, slash commands and interactions of Slack. A secret is the
// app's signing secret. The signed challenge with which Slack checks a URL (url_verification)
// is answered.
//
// Events have a signed event_id. Commands and interactions are forms without an id, so a digest
// of the body identifies them; it contains a trigger_id for each press of a button. Handlers get
// the JSON of an interaction ("block_actions") in place of the form. Slack shows the body of a
// response to its users, so it is empty. It wants one within 3 seconds and resends the event at
// once, possibly while the first request is in flight, then after 1 and 5 minutes (the schedule is
// from secondary sources).
//
// https://docs.slack.dev/authentication/verifying-requests-from-slack
func Slack(secrets ...string) producer.Producer { return slack.producer(Settings{Secrets: secrets}) }

var slack = Preset{
	Name: "slack", Docs: "https://docs.slack.dev/authentication/verifying-requests-from-slack",
	Auth: "HMAC-SHA256 of time and body", ID: "body event_id", Deadline: "3s", Wants: "2xx; 6m",
	Uses: []string{"secrets"}, fields: []string{"X-Slack-*"},
	key: producer.JSON("event_id"), kind: producer.First(producer.JSON("event.type"), producer.JSON("type")),
	fingerprint: producer.FingerprintNone, tolerance: fiveMinutes, window: day + time.Hour,
	build: func(p *producer.Producer, s Settings) {
		signedByHMAC(p, &verify.HMAC{
			Headers: []string{"X-Slack-Signature"}, TimestampHeaders: []string{"X-Slack-Request-Timestamp"},
			Entries: []string{"v0={sig}"}, Encoding: verify.Hex, Content: "v0:{timestamp}:{body}",
		}, s.Secrets)
		p.Handshake, p.FormMember = echoesChallenge(producer.JSON("type"), "url_verification", echo), "payload"
		p.Accepted.Body = []byte{}
	},
}
