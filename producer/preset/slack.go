package preset

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/eyelet-dev/eyelet/dedup"
	"github.com/eyelet-dev/eyelet/producer"
	"github.com/eyelet-dev/eyelet/verify"
)

// Slack receives the Events API, slash commands and interactions of Slack. A secret is the app's signing
// secret. The signed challenge by which Slack checks an address (url_verification) is answered.
//
// Events carry a signed event_id. Commands and interactions are forms without an id, so a digest of the body
// names them; each press of a button has a trigger_id of its own in it. Slack wants its answer within 3 seconds
// and sends the event again at that moment, while the first request may still run, then after 1 and 5 minutes
// (the schedule is from secondary sources).
//
// https://docs.slack.dev/authentication/verifying-requests-from-slack
func Slack(secrets ...string) producer.Producer {
	p := webhook("slack", "https://docs.slack.dev/authentication/verifying-requests-from-slack")
	list, err := plainSecrets(secrets)
	p = signedBy(p, &verify.HMAC{
		Headers: []string{"X-Slack-Signature"}, TimestampHeaders: []string{"X-Slack-Request-Timestamp"},
		Entries: []string{"v0={sig}"}, Encoding: verify.Hex, Content: "v0:{timestamp}:{body}", Secrets: list,
	})
	p.Err = errors.Join(err, p.Err)
	p.Tolerance = verify.Tolerance{Past: 5 * time.Minute, Future: 5 * time.Minute}
	p.Key = producer.JSON("event_id")
	p.Type = producer.First(producer.JSON("event.type"), producer.JSON("type"))
	p.Fingerprint = producer.FingerprintNone
	p.Handshake = slackHandshake
	p.Window = 25 * time.Hour
	return p
}

func slackHandshake(_ context.Context, d *producer.Delivery) (*dedup.Response, error) {
	if kind, err := producer.JSON("type").Extract(d); kind != "url_verification" {
		return nil, err
	}
	challenge, err := producer.JSON("challenge").Extract(d)
	if err != nil {
		return nil, err
	}
	if challenge == "" {
		return nil, &verify.Error{Code: verify.EventMalformed, Component: "json:challenge"}
	}
	return echo(challenge), nil
}

// echo answers a challenge with itself. It is text whatever it holds, and no browser takes it for more.
func echo(challenge string) *dedup.Response {
	return &dedup.Response{
		Status: http.StatusOK, Header: http.Header{"Content-Type": {"text/plain"}, "X-Content-Type-Options": {"nosniff"}},
		Body: []byte(challenge),
	}
}
