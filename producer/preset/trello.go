package preset

import (
	"net/http"
	"time"

	"github.com/eyelet-dev/eyelet/producer"
	"github.com/eyelet-dev/eyelet/verify"
)

// Trello receives webhooks of Trello. A secret is the application's OAuth secret. Body and
// callback URL, exactly as registered, are signed with HMAC-SHA1. With an empty notificationURL
// the public URL of the endpoint is used; it must not have a query, from which bytes could be
// moved into the body. A registered URL with a query needs notificationURL.
//
// The HEAD with which Trello checks a new webhook is answered. The signed id of the action
// identifies the event: webhooks of one URL that report one action (of a board and of its card)
// bring one event.
//
// Sources, read in November 2026: Atlassian's guide to Trello's webhooks. That Trello tries again
// after 30, 60 and 120 seconds, and that a 410 deletes the webhook, is general knowledge.
//
// https://developer.atlassian.com/cloud/trello/guides/rest-api/webhooks/
func Trello(notificationURL string, secrets ...string) producer.Producer {
	return trello.producer(Settings{NotificationURL: notificationURL, Secrets: secrets})
}

var trello = Preset{
	Name: "trello", Docs: "https://developer.atlassian.com/cloud/trello/guides/rest-api/webhooks/",
	Auth: "HMAC-SHA1 of body and URL", ID: "body action.id", Wants: "200; 4m",
	Uses: []string{"secrets", "notification_url"}, fields: []string{"X-Trello-*"},
	key: producer.JSON("action.id"), keyRequired: true, kind: producer.JSON("action.type"),
	eventTime: producer.JSON("action.date"), fingerprint: producer.FingerprintNone, window: day + time.Hour,
	build: func(p *producer.Producer, s Settings) {
		p.Pings = []string{http.MethodHead}
		signedWithURL(p, s, &verify.HMAC{
			Headers: []string{"X-Trello-Webhook"}, Hash: verify.SHA1, Encoding: verify.Base64, Content: "{body}{url}",
		})
	},
}
