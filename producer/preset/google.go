package preset

import (
	"errors"
	"time"

	"github.com/eyelet-dev/eyelet/producer"
	"github.com/eyelet-dev/eyelet/verify"
)

// GoogleEventarc receives from Eventarc: CloudEvents in binary mode, or Pub/Sub push messages, under a bearer
// token that Google signed. Audience is what the trigger was told, by default the URL of the service; email is
// the trigger's service account. Both are required: any customer of Google can get a token for any audience.
//
// The token does not bind the body and is used for about an hour, so only the identifier tells a repetition:
// source and id of the CloudEvent, or the Pub/Sub message id. Eventarc Standard tries for 24 hours, Advanced 5
// times; which answers it takes is from secondary sources.
//
// https://cloud.google.com/eventarc/docs/run/pubsub#authenticate
func GoogleEventarc(audience, email string) producer.Producer {
	return googleEventarc(Settings{Audience: []string{audience}, Email: email})
}

func googleEventarc(s Settings) producer.Producer {
	p := google("google-eventarc", "https://cloud.google.com/eventarc/standard/docs/event-driven-applications", s)
	p.Key = producer.First(producer.CloudEventID(), producer.JSON("message.messageId"))
	p.Type = producer.First(producer.CloudEventType(), producer.JSON("subscription"))
	push := p.Attributes
	p.Attributes = func(d *producer.Delivery) (map[string]string, error) {
		if found, err := producer.CloudEventAttributes(d); err == nil {
			return found, nil
		}
		return push(d)
	}
	return p
}

// GooglePubSub receives Pub/Sub push messages, wrapped or not, under a bearer token that Google signed;
// audience and email as for [GoogleEventarc]. The event type is the subscription; attributes of the message
// stay in the body.
//
// Pub/Sub tries everything but 102, 200, 201, 202 and 204 (a list from secondary sources) again until the message's retention ends (24 hours
// here; up to 31 days by setting), so that an event which can never be handled is accepted and becomes a dead
// letter here.
//
// https://cloud.google.com/pubsub/docs/authenticate-push-subscriptions
func GooglePubSub(audience, email string) producer.Producer {
	return googlePubSub(Settings{Audience: []string{audience}, Email: email})
}

func googlePubSub(s Settings) producer.Producer {
	p := google("google-pubsub", "https://cloud.google.com/pubsub/docs/authenticate-push-subscriptions", s)
	p.Key = producer.First(producer.JSON("message.messageId"), producer.Header("X-Goog-Pubsub-Message-Id"))
	p.Type = producer.First(producer.JSON("subscription"), producer.Header("X-Goog-Pubsub-Subscription-Name"))
	p.MaxBody = 16 << 20 // a message has up to 10 MB, in base64
	return p
}

func google(name, docs string, s Settings) producer.Producer {
	p := webhook(name, docs)
	issuers := s.Issuers
	if len(issuers) == 0 {
		issuers = []string{"https://accounts.google.com", "accounts.google.com"}
	}
	if len(s.Audience) == 0 || s.Email == "" {
		p.Err = errors.New("set audience and email: Google signs tokens for any audience for all its customers")
	} else {
		p = signedByTokens(p, s, "https://www.googleapis.com/oauth2/v3/certs", &verify.JWT{
			Algorithms: algorithms(s, "RS256"), Issuers: issuers, Audiences: s.Audience,
			Claims: []verify.ClaimRule{
				{Names: []string{"email"}, Values: []string{s.Email}},
				{Names: []string{"email_verified"}, Values: []string{"true"}},
			},
		})
	}
	p.KeyRequired = true
	p.Attributes = attributes(map[string]producer.Extractor{
		"source": producer.JSON("subscription"), "time": producer.JSON("message.publishTime"), "orderingkey": producer.JSON("message.orderingKey"),
		"deliveryattempt": producer.JSON("deliveryAttempt"),
	})
	// The attempt is counted in the body, so bodies of one message differ.
	p.Fingerprint = fingerprintMessage
	p.Window = 48 * time.Hour
	return p
}

// fingerprintMessage compares the message of a push and not the counter beside it.
func fingerprintMessage(d *producer.Delivery, it producer.Item) [32]byte {
	if message := valueAt(it.Body, "message"); message != nil {
		return producer.FingerprintBody(d, producer.Item{Body: message})
	}
	return producer.FingerprintBody(d, it)
}
