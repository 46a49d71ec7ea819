package preset

import (
	"errors"

	"github.com/eyelet-dev/eyelet/producer"
	"github.com/eyelet-dev/eyelet/verify"
)

// googleEventarc receives from Eventarc: CloudEvents in binary mode, or Pub/Sub push messages,
// with a bearer token signed by Google. Audience is the trigger's audience, by default the URL
// of the service; email is its service account. Both are required, because any customer of
// Google can get a token for any audience.
//
// The token does not cover the body and is used for about an hour, so only the identifier reveals a
// duplicate: source and id of the CloudEvent, or the id of the Pub/Sub message. Eventarc Standard
// retries for 24 hours, Advanced 5 times. The accepted statuses are from secondary sources.
//
// https://cloud.google.com/eventarc/docs/run/pubsub#authenticate
var googleEventarc = Preset{
	Name: "google-eventarc", Docs: "https://cloud.google.com/eventarc/standard/docs/event-driven-applications",
	Auth: "Google's token: audience and service account", ID: "CloudEvent source and id, or message id",
	Wants: "102, 200, 201, 202, 204; 24h", Uses: []string{"audience", "email", "issuers", "jwks_url", "alg"},
	like: producer.Producer{
		Key:  producer.First(producer.CloudEventID(), producer.JSON("message.messageId")),
		Type: producer.First(producer.CloudEventType(), producer.JSON("subscription")),
	},
	build: func(p *producer.Producer, s Settings) {
		buildGoogle(p, s)
		push := p.Attributes
		p.Attributes = func(d *producer.Delivery) (map[string]string, error) {
			if found, err := producer.CloudEventAttributes(d); err == nil {
				return found, nil
			}
			return push(d)
		}
	},
	signWith: signBearer,
}

// googlePubSub receives Pub/Sub push messages, wrapped or not, with a bearer token signed by
// Google. Audience and email are as for Eventarc. The event type is the subscription.
// Attributes of the message stay in the body.
//
// Pub/Sub retries after anything but 102, 200, 201, 202 and 204 (a list from secondary sources)
// until the message's retention ends: 24 hours by default here, up to 31 days. An event that
// can never be handled is therefore accepted and becomes a dead letter.
//
// https://cloud.google.com/pubsub/docs/authenticate-push-subscriptions
var googlePubSub = Preset{
	Name: "google-pubsub", Docs: "https://cloud.google.com/pubsub/docs/authenticate-push-subscriptions",
	Auth: "Google's token: audience and service account", ID: "message.messageId",
	Wants: "102, 200, 201, 202, 204; 24h", Uses: []string{"audience", "email", "issuers", "jwks_url", "alg"},
	like: producer.Producer{
		Fields: []string{"X-Goog-Pubsub-*"},
		Key:    producer.First(producer.JSON("message.messageId"), producer.Header("X-Goog-Pubsub-Message-Id")),
		Type:   producer.First(producer.JSON("subscription"), producer.Header("X-Goog-Pubsub-Subscription-Name")),
	},
	build: func(p *producer.Producer, s Settings) {
		buildGoogle(p, s)
		p.MaxBody = 16 << 20 // a message has up to 10 MB, in base64
	},
	signWith: signBearer,
}

func buildGoogle(p *producer.Producer, s Settings) {
	issuers := s.Issuers
	if len(issuers) == 0 {
		issuers = []string{"https://accounts.google.com", "accounts.google.com"}
	}
	if len(s.Audience) == 0 || s.Email == "" {
		p.Err = errors.New("set audience and email: Google signs tokens for any audience for all its customers")
	} else {
		signedByTokens(p, s, "https://www.googleapis.com/oauth2/v3/certs", &verify.JWT{
			Algorithms: algorithms(s, "RS256"), Issuers: issuers, Audiences: s.Audience,
			Claims: []verify.ClaimRule{
				{Names: []string{"email"}, Values: []string{s.Email}},
				{Names: []string{"email_verified"}, Values: []string{"true"}},
			},
		})
	}
	p.KeyRequired = true
	p.Attributes = attributes(map[string]producer.Extractor{
		"source": producer.JSON("subscription"), "time": producer.JSON("message.publishTime"),
		"orderingkey": producer.JSON("message.orderingKey"), "deliveryattempt": producer.JSON("deliveryAttempt"),
	})
	p.Fingerprint = fingerprintMessage
	p.Window = 2 * day
}

// fingerprintMessage compares the message of a push without the counter of attempts beside it.
func fingerprintMessage(d *producer.Delivery, it producer.Item) [32]byte {
	if message := valueAt(it.Body, "message"); message != nil {
		return producer.FingerprintBody(d, producer.Item{Body: message})
	}
	return producer.FingerprintBody(d, it)
}
