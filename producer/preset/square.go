package preset

import (
	"errors"
	"time"

	"github.com/eyelet-dev/eyelet/producer"
	"github.com/eyelet-dev/eyelet/verify"
)

// Square receives webhooks of Square. A secret is the subscription's signature key. Signed are the notification
// URL, exactly as it was registered, and the body, without anything between them. With an empty notificationURL it is
// the public URL of the endpoint, which then has no query: bytes of the body could be moved into it. A registered URL
// with a query needs notificationURL.
//
// Square wants 2xx within 10 seconds and tries for 24 hours (older pages say 72, which the window allows for).
//
// https://developer.squareup.com/docs/webhooks/step3validate
func Square(notificationURL string, keys ...string) producer.Producer {
	p := webhook("square", "https://developer.squareup.com/docs/webhooks/step3validate")
	list, err := plainSecrets(keys)
	scheme := &verify.HMAC{
		Headers: []string{"x-square-hmacsha256-signature"}, Encoding: verify.Base64, Secrets: list,
		Content: "{config:notification_url}{body}", Config: map[string]string{"notification_url": notificationURL},
	}
	if notificationURL == "" {
		scheme.Content, scheme.Config, scheme.Malleable, p.SignsURL = "{url}{body}", nil, true, true
	}
	p = signedBy(p, scheme)
	p.Err = errors.Join(err, p.Err)
	p.Key = producer.JSON("event_id")
	p.Type = producer.JSON("type")
	p.EventTime = producer.JSON("created_at")
	p.Fingerprint = producer.FingerprintNone
	p.Window = 4 * 24 * time.Hour
	return p
}
