package preset

import (
	"time"

	"github.com/eyelet-dev/eyelet/producer"
)

// TwilioEventStreams receives batches of events of Twilio Event Streams through a webhook sink. A
// secret is the account's auth token. A sink signs as [Twilio] does, and binds its body by
// bodySHA256 in the URL.
//
// A body is an array of CloudEvents. The signed id identifies an event, and its type is that of
// the CloudEvent ("com.twilio.messaging.message.delivered"). Twilio waits 5 seconds and retries
// for up to 4 hours.
//
// Sources, read in November 2026: Twilio's pages on webhook sinks, and on delivery and
// duplication.
//
// https://www.twilio.com/docs/events/webhook-quickstart
func TwilioEventStreams(tokens ...string) producer.Producer { return twilioEventStreams.with(tokens) }

var twilioEventStreams = Preset{
	Name: "twilio-event-streams", Docs: "https://www.twilio.com/docs/events/webhook-quickstart",
	Auth: "HMAC-SHA1 of the URL with the body's digest", ID: "each event's id", Deadline: "5s", Wants: "2xx; 4h",
	Uses: []string{"secret"},
	like: producer.Producer{
		Fields: []string{"X-Twilio-*", "I-Twilio-*"}, EventTime: producer.JSON("0.time"),
		Fingerprint: producer.FingerprintNone, Window: day + 4*time.Hour,
	},
	build: func(p *producer.Producer, s Settings) {
		p.Err = checkText(s.Secrets)
		signedBy(p, newTwilioScheme(s.Secrets...))
		p.SignsURL, p.QueryScope, p.ScopeIgnores = true, true, []string{bodyHashParam}
		p.ScopeQuery = twilioScope
		p.Split = batch{
			ID: producer.JSON("id"), Kind: producer.JSON("type"),
			Own: map[string]producer.Extractor{
				"source": producer.JSON("source"), "subject": producer.JSON("subject"), "time": producer.JSON("time"),
			},
		}.split
	},
	typeFrom: "json:*.type",
}
