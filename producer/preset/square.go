package preset

import (
	"github.com/eyelet-dev/eyelet/producer"
	"github.com/eyelet-dev/eyelet/verify"
)

// Square receives webhooks of Square. A secret is the subscription's signature key. The
// notification URL, exactly as registered, and the body are signed without a separator. With an
// empty notificationURL the public URL of the endpoint is used; it must not have a query, into
// which bytes of the body could be moved. A registered URL with a query needs notificationURL.
//
// Square wants 2xx within 10 seconds and retries for 24 hours (older pages say 72, which the
// window allows for).
//
// https://developer.squareup.com/docs/webhooks/step3validate
func Square(notificationURL string, keys ...string) producer.Producer {
	return square.producer(Settings{NotificationURL: notificationURL, Secrets: keys})
}

var square = Preset{
	Name: "square", Docs: "https://developer.squareup.com/docs/webhooks/step3validate",
	Auth: "HMAC-SHA256 of URL and body", ID: "body event_id", Deadline: "10s", Wants: "2xx; 24h",
	Uses: []string{"secrets", "notification_url"}, fields: []string{"Square-*", "X-Square-*"},
	key: producer.JSON("event_id"), kind: producer.JSON("type"), eventTime: producer.JSON("created_at"),
	fingerprint: producer.FingerprintNone, window: 4 * day,
	build: func(p *producer.Producer, s Settings) {
		signedWithURL(p, s, &verify.HMAC{
			Headers: []string{"x-square-hmacsha256-signature"}, Encoding: verify.Base64, Content: "{url}{body}",
		})
	},
}
