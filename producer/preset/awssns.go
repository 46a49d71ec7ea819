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

// AWSSNS receives messages of Amazon SNS topics; topics are their ARNs. Raw message delivery must be off: it
// has no signature. The event type is the message type ("Notification"); topic, subject and time are in the
// event's attributes.
//
// The signature leaves members of the body out: MessageAttributes, and the addresses. Who can change a delivery on
// its way can change them.
//
// A SubscriptionConfirmation for one of the topics is confirmed by fetching its SubscribeURL, only from a host
// of SNS and only after its signature held. The end of a subscription is noted and not undone.
//
// SNS tries for an hour at most and drops a message on any 4xx but 429; that it waits 15 seconds is from secondary
// sources. Its certificate comes without its issuer's, so that by default host, name and dates are checked and not
// the chain (check_chain, and roots for its authorities).
//
// https://docs.aws.amazon.com/sns/latest/dg/sns-verify-signature-of-message.html
func AWSSNS(topics ...string) producer.Producer { return awsSNS(Settings{Topics: topics}) }

func awsSNS(s Settings) producer.Producer {
	p := webhook("aws-sns", "https://docs.aws.amazon.com/sns/latest/dg/sns-verify-signature-of-message.html")
	roots, err := s.roots()
	p.Err = err
	p = signedBy(p, &verify.SNS{
		Topics: s.Topics, MinVersion: s.MinVersion,
		Certs: &verify.Certs{Fetch: s.Fetch, Roots: roots, SkipChain: !s.CheckChain, Pinned: s.PinnedKeys},
	})
	p.Tolerance = verify.Tolerance{Past: 24 * time.Hour, Future: 5 * time.Minute}
	p.Key, p.KeyRequired = producer.JSON("MessageId"), true
	p.Type = producer.JSON("Type")
	// The identifier is signed. Other members of the body, MessageAttributes among them, are not.
	p.Fingerprint = producer.FingerprintNone
	p.Attributes = attributes(map[string]producer.Extractor{
		"topic": producer.JSON("TopicArn"), "subject": producer.JSON("Subject"), "time": producer.JSON("Timestamp"),
	})
	p.Window = 25 * time.Hour
	fetch := s.Fetch
	if fetch == nil {
		fetch = verify.FetchPublic
	}
	p.Handshake = func(ctx context.Context, d *producer.Delivery) (*dedup.Response, error) {
		return confirmSNS(ctx, d, fetch)
	}
	return p
}

// confirmSNS answers the messages about subscriptions; they are verified, and their topic is on the list.
func confirmSNS(ctx context.Context, d *producer.Delivery, fetch func(context.Context, string) ([]byte, error)) (*dedup.Response, error) {
	kind, err := producer.JSON("Type").Extract(d)
	if err != nil || kind == "Notification" {
		return nil, err
	}
	if kind != "SubscriptionConfirmation" {
		return &dedup.Response{Status: http.StatusOK}, nil // the end of a subscription
	}
	address, err := producer.JSON("SubscribeURL").Extract(d)
	if err != nil {
		return nil, err
	}
	if !verify.IsSNSURL(address) {
		return nil, &verify.Error{Code: verify.ChallengeUnexpected, Component: "SubscribeURL"}
	}
	if _, err := fetch(ctx, address); err != nil {
		return nil, &verify.Error{
			Code: verify.KeysUnavailable, Component: "SubscribeURL", RetryAfter: 10 * time.Second,
			Err: errors.Join(errors.New("the subscription could not be confirmed"), err),
		}
	}
	return &dedup.Response{Status: http.StatusOK}, nil
}
