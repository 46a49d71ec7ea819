package preset

import (
	"cmp"
	"errors"
	"strings"
	"time"

	"github.com/eyelet-dev/eyelet/dedup"
	"github.com/eyelet-dev/eyelet/producer"
	"github.com/eyelet-dev/eyelet/verify"
)

// This file has the vendors that sign with an HMAC and need little else. What describes those that
// need nothing is in presets.yaml.

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
func Slack(secrets ...string) producer.Producer { return slack.with(secrets) }

var slack = Preset{
	Name: "slack", Docs: "https://docs.slack.dev/authentication/verifying-requests-from-slack",
	Auth: "HMAC-SHA256 of time and body", ID: "body event_id", Deadline: "3s", Wants: "2xx; 6m",
	Uses: []string{"secret"},
	like: producer.Producer{
		Fields: []string{"X-Slack-*"}, Key: producer.JSON("event_id"),
		Type:        producer.First(producer.JSON("event.type"), producer.JSON("type")),
		Fingerprint: producer.FingerprintNone, Tolerance: fiveMinutes, Window: day + time.Hour,
	},
	hmac: &verify.HMAC{
		Headers: []string{"X-Slack-Signature"}, TimestampHeaders: []string{"X-Slack-Request-Timestamp"},
		Entries: []string{"v0={sig}"}, Encoding: verify.Hex, Content: "v0:{timestamp}:{body}",
	},
	build: func(p *producer.Producer, _ Settings) {
		p.Handshake, p.FormMember = echoesChallenge(producer.JSON("type"), "url_verification", echo), "payload"
		p.Accepted.Body = []byte{}
	},
}

// Stripe receives webhooks of Stripe. A secret is the endpoint's signing secret as the
// dashboard shows it; the whole text, "whsec_" included, is the key. During a rotation
// deliveries have a signature for each secret.
//
// Signatures are valid for 5 minutes, as in the vendor's libraries. Those accept any time in
// the future; we allow 60 seconds. Stripe retries for 3 days and signs each attempt. The body
// contains a counter of pending webhooks and so differs between attempts; the signed id alone
// identifies the event.
//
// https://docs.stripe.com/webhooks/signature
func Stripe(secrets ...string) producer.Producer { return stripe.with(secrets) }

var stripe = Preset{
	Name: "stripe", Docs: "https://docs.stripe.com/webhooks/signature", Auth: "HMAC-SHA256 of time and body",
	ID: "body id", Wants: "2xx; 3 days", Uses: []string{"secret"}, secretPrefix: "whsec_",
	like: producer.Producer{
		Key: producer.JSON("id"), KeyRequired: true, Type: producer.JSON("type"),
		Fingerprint: producer.FingerprintNone,
		Tolerance:   verify.Tolerance{Past: 5 * time.Minute, Future: time.Minute}, Window: 4 * day,
	},
	build: func(p *producer.Producer, s Settings) {
		signedBy(p, &verify.HMAC{
			Headers: []string{"Stripe-Signature"}, Separator: ",", Entries: []string{"t={timestamp}", "v1={sig}"},
			Encoding: verify.Hex, Content: "{timestamp}.{body}", Secrets: verify.Secrets(s.Secrets...),
		})
		for _, s := range s.Secrets {
			if strings.HasPrefix(s, "sk_") || strings.HasPrefix(s, "rk_") || strings.HasPrefix(s, "pk_") {
				p.Err = errors.Join(p.Err, errors.New("a secret is an API key; the signing secret begins with whsec_"))
			}
		}
	},
}

// Worldpay receives events of Access Worldpay. Keys are its shared secrets by key id ("1",
// "2"); a signature with another id does not match. The vendor accepts only 200, within 10
// seconds, and retries for a week.
//
// Commas separate entries. That the signature is in hex is documented for account payouts and
// assumed for all events; the setting `encoding: base64` accepts the other encoding.
//
// https://developer.worldpay.com/products/access/events
func Worldpay(keys map[string]string) producer.Producer {
	return worldpay.producer(Settings{Keys: keys})
}

var worldpay = Preset{
	Name: "worldpay", Docs: "https://developer.worldpay.com/products/access/events", Auth: "HMAC-SHA256 of the body",
	ID: "body eventId", Deadline: "10s", Wants: "200 only; 7 days", Uses: []string{"keys", "encoding"},
	like: producer.Producer{
		Key: producer.JSON("eventId"), Type: producer.JSON("eventDetails.type"),
		EventTime: producer.JSON("eventTimestamp"), Fingerprint: producer.FingerprintNone, Window: 8 * day,
	},
	build: func(p *producer.Producer, s Settings) {
		secrets := make(map[string]verify.Secret, len(s.Keys))
		for id, k := range s.Keys {
			secrets[id] = verify.Secret(k)
		}
		signedBy(p, &verify.HMAC{
			Headers: []string{"Event-Signature"}, Separator: ",", Entries: []string{"{kid}/{alg}/{sig}"},
			Hashes: []verify.Hash{verify.SHA256}, Keys: secrets,
			Encoding: cmp.Or(verify.Encoding(s.Encoding), verify.Hex),
		})
	},
}

// Xero receives webhooks of a Xero app. A key is the app's webhook signing key, used as the text
// that the developer portal shows. The "intent to receive", a series of deliveries without events
// of which some are signed wrongly, gets an empty 200 and a 401, as Xero wants.
//
// A delivery is a batch. An event has no identifier: its tenant, category, resource, type and time
// are one. The event type is category and type ("INVOICE:UPDATE").
//
// Sources, read in November 2026: Xero's page on configuring a server. It wants 200 without a body
// within 5 seconds, tries for 24 hours, and then disables the webhook.
//
// https://developer.xero.com/documentation/guides/webhooks/configuring-your-server/
func Xero(keys ...string) producer.Producer { return xero.with(keys) }

var xero = Preset{
	Name: "xero", Docs: "https://developer.xero.com/documentation/guides/webhooks/configuring-your-server/",
	Auth: "HMAC-SHA256 of the body", ID: "tenant, category, resource, type and time",
	Deadline: "5s", Wants: "200, empty; 24h",
	Uses: []string{"secret"},
	like: producer.Producer{
		Fields: []string{"X-Xero-*"}, Fingerprint: producer.FingerprintNone, Window: 2 * day,
		Accepted: dedup.Response{Body: []byte{}},
	},
	build: func(p *producer.Producer, s Settings) {
		signedByHMAC(p, &verify.HMAC{Headers: []string{"x-xero-signature"}, Encoding: verify.Base64}, s.Secrets)
		kind := producer.First(producer.Join(producer.JSON("eventCategory"), producer.JSON("eventType")),
			producer.JSON("eventType"))
		p.Split = batch{
			Path: []string{"events"}, Kind: kind,
			ID: producer.Join(producer.JSON("tenantId"), kind, producer.JSON("resourceId"),
				producer.JSON("eventDateUtc")),
			Own: map[string]producer.Extractor{
				"source": producer.JSON("tenantId"), "subject": producer.JSON("resourceUrl"),
				"time": producer.JSON("eventDateUtc"),
			},
		}.split
	},
	typeFrom: "json:events.*.eventCategory:eventType",
}
