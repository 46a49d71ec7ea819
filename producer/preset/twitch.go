package preset

import (
	"time"

	"github.com/eyelet-dev/eyelet/producer"
	"github.com/eyelet-dev/eyelet/verify"
)

// Twitch receives EventSub notifications of Twitch. A secret is the one that the app gave when
// it subscribed, 10 to 100 characters. The signed challenge with which Twitch checks a callback
// is answered.
//
// The signed Twitch-Eventsub-Message-Id identifies the message. The event type is the
// subscription's ("channel.follow"), or "revocation" once the subscription is no longer enabled;
// both are read from the body, because Twitch-Eventsub-Message-Type is not signed. Messages are
// accepted for 10 minutes.
//
// Sources, read in November 2026: Twitch's page on webhook events. How long Twitch resends a
// message is not documented.
//
// https://dev.twitch.tv/docs/eventsub/handling-webhook-events
func Twitch(secrets ...string) producer.Producer { return twitch.with(secrets) }

var twitch = Preset{
	Name: "twitch", Docs: "https://dev.twitch.tv/docs/eventsub/handling-webhook-events",
	Auth: "HMAC-SHA256 of id, time and body", ID: "Twitch-Eventsub-Message-Id", Deadline: "a few s", Wants: "2xx",
	Uses: []string{"secret"},
	like: producer.Producer{
		Fields: []string{"Twitch-Eventsub-*"}, Key: producer.Header("Twitch-Eventsub-Message-Id"), KeyRequired: true,
		Type: twitchKind{}, Fingerprint: producer.FingerprintNone, Window: 2 * day,
		Tolerance: verify.Tolerance{Past: 10 * time.Minute, Future: 5 * time.Minute},
	},
	hmac: &verify.HMAC{
		Headers: []string{"Twitch-Eventsub-Message-Signature"}, Entries: []string{"sha256={sig}"},
		IDHeaders:        []string{"Twitch-Eventsub-Message-Id"},
		TimestampHeaders: []string{"Twitch-Eventsub-Message-Timestamp"}, TimestampRFC3339: true,
		Encoding: verify.Hex, Content: "{id}{timestamp}{body}",
	},
	build: func(p *producer.Producer, _ Settings) {
		p.Handshake = echoesChallenge(
			producer.JSON("subscription.status"), "webhook_callback_verification_pending", echo)
	},
}

// twitchKind reads the type of the subscription, or "revocation" if it has ended.
type twitchKind struct{}

func (twitchKind) Extract(d *producer.Delivery) (string, error) {
	status, err := producer.JSON("subscription.status").Extract(d)
	if err != nil || status != "enabled" && status != "" {
		return "revocation", err
	}
	return producer.JSON("subscription.type").Extract(d)
}

func (twitchKind) Consumes() []string { return []string{"@body"} }
func (twitchKind) String() string     { return "json:subscription.type" }
