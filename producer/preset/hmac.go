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

// Bitbucket receives webhooks of Bitbucket Cloud and Bitbucket Data Center that have a secret. The
// event type is X-Event-Key ("repo:push", "repo:refs_changed"). The ping with which Data Center
// tests a URL (diagnostics:ping) is answered; it is not an event.
//
// X-Request-UUID (of Data Center X-Request-Id) is not signed, so a digest of the body identifies
// the event: the same body under another identifier is quarantined.
//
// Sources, read in November 2026: Atlassian's pages on event payloads of both products and on
// securing webhooks. That Cloud waits 10 seconds and tries twice more after a 5xx is general
// knowledge.
//
// https://support.atlassian.com/bitbucket-cloud/docs/event-payloads/
// https://confluence.atlassian.com/bitbucketserver/event-payload-938025882.html
func Bitbucket(secrets ...string) producer.Producer { return vendor("bitbucket").with(secrets) }

// Calendly receives webhooks of Calendly. A secret is the signing key of the webhook
// subscription.
//
// Calendly sends no id; a digest of the body identifies the event. Its example accepts a
// signature for 3 minutes; we accept 5. It tries for 24 hours and then disables the
// subscription.
//
// Sources, read in November 2026: Calendly's documentation of signatures and its community page
// on disabled webhooks.
//
// https://developer.calendly.com/api-docs/overview/webhooks/webhook-signatures
func Calendly(keys ...string) producer.Producer { return vendor("calendly").with(keys) }

// Datatrans receives webhooks of Datatrans. A key is the merchant's sign key in hex. The time
// in milliseconds and the body are signed without a separator; the digest of the signed bytes
// detects digits moved from one to the other. The tolerance of 5 minutes is ours.
//
// There is no event id. transactionId with status would drop the second partial capture, so a
// digest of the body identifies the event. How long Datatrans retries, and that any 2xx will
// do, is not documented.
//
// https://docs.datatrans.ch/docs/additional-security
func Datatrans(keys ...string) producer.Producer { return vendor("datatrans").with(keys) }

// Dwolla receives webhooks of Dwolla. A secret is the one given when the subscription was
// created. The signed body contains the identifier. Dwolla wants 2xx within 10 seconds and
// tries 8 times in 72 hours.
//
// https://developers.dwolla.com/docs/balance/webhooks/process-validate
func Dwolla(secrets ...string) producer.Producer { return vendor("dwolla").with(secrets) }

// ElevenLabs receives webhooks of an ElevenLabs workspace. A secret is the webhook's shared secret.
// A signature is valid for 30 minutes, as in the vendor's library.
//
// ElevenLabs sends no id; a digest of the body identifies the event. It wants 200. Retries are off
// unless they are enabled: then it tries 5 times more after 5xx, 429 and 408. Ten failures in a row
// may disable the webhook. Bodies of up to 25 MiB are accepted, because one may hold the audio of a
// call; that size is ours.
//
// Sources, read in November 2026: ElevenLabs' pages on webhooks and on post-call webhooks, and
// elevenlabs-js 2.
//
// https://elevenlabs.io/docs/eleven-api/resources/webhooks
func ElevenLabs(secrets ...string) producer.Producer { return vendor("elevenlabs").with(secrets) }

// Intercom receives webhooks of Intercom. A secret is the app's client secret. Intercom signs
// with HMAC-SHA1 only.
//
// The signed id identifies the event; delivery_attempts and first_sent_at in the body differ
// between attempts.
//
// Sources, read in November 2026: Intercom's documentation of signed notifications. That
// Intercom waits 5 seconds and tries once more after a minute is general knowledge.
//
// https://developers.intercom.com/docs/webhooks/setting-up-webhooks
func Intercom(secrets ...string) producer.Producer { return vendor("intercom").with(secrets) }

// Rafiki receives webhooks of Rafiki, the reference implementation of Interledger. The signature
// covers the canonical form of the JSON body (RFC 8785), not its bytes. Bodies that two parsers
// could read differently are refused: repeated members, numbers from 2^53 on. So are bodies of more
// than 64 KiB, 10,000 values or 1,000 members. The tolerance of 5 minutes is ours.
//
// Rafiki accepts only 200. It retries without end, at most every minute; the window of 31 days
// is ours. Open Payments itself signs with RFC 9421: use producer.Signed for it.
//
// https://rafiki.dev/integration/requirements/webhook-events/
func Rafiki(secrets ...string) producer.Producer { return vendor("interledger-rafiki").with(secrets) }

// LINE receives webhooks of the LINE Messaging API. A secret is the channel secret.
//
// A delivery is a batch of events, which is empty when the console checks the URL. Each event
// has a webhookEventId. A redelivery, which must be enabled, has the same identifier and differs
// in deliveryContext.isRedelivery. The bot's id ("destination") is an attribute of every event.
//
// Sources, read in November 2026: line-bot-sdk-go 8.14.0, @line/bot-sdk 11.0.0 and LINE's
// documentation. How long LINE redelivers is not documented.
//
// https://developers.line.biz/en/docs/messaging-api/receiving-messages/
func LINE(secrets ...string) producer.Producer { return line.with(secrets) }

var line = Preset{
	Name: "line", Docs: "https://developers.line.biz/en/docs/messaging-api/receiving-messages/",
	Auth: "HMAC-SHA256 of the body", ID: "each event's webhookEventId", Wants: "2xx; redelivers if enabled",
	Uses: []string{"secret"}, fields: []string{"X-Line-*"},
	eventTime: producer.JSON("events.0.timestamp"), fingerprint: producer.FingerprintNone, window: 2 * day,
	hmac: &verify.HMAC{Headers: []string{"X-Line-Signature"}, Encoding: verify.Base64},
	split: batch{
		path: []string{"events"}, id: producer.JSON("webhookEventId"), kind: producer.JSON("type"),
		varies: "deliveryContext",
		common: map[string]producer.Extractor{"destination": producer.JSON("destination")},
	}.split,
	typeFrom: "json:events.*.type",
}

// Linear receives webhooks of Linear. A secret is the webhook's signing secret. The event type
// is the kind of the changed object ("Issue", "Comment"); the attribute "action" is create,
// update or remove.
//
// The signed time is the member webhookTimestamp of the body, in milliseconds. Linear's library
// accepts 60 seconds; we accept 5 minutes, because a captured delivery is a duplicate anyway.
// The identifier Linear-Delivery is not signed: the same bytes under another identifier are
// quarantined. An attempt has its own time, so members that stay the same are compared.
//
// Sources, read in November 2026: @linear/sdk 98.0.0. That Linear waits 5 seconds and tries
// again after 1 minute, 1 hour and 6 hours is general knowledge.
//
// https://linear.app/developers/webhooks
func Linear(secrets ...string) producer.Producer { return linear.with(secrets) }

var linear = Preset{
	Name: "linear", Docs: "https://linear.app/developers/webhooks",
	Auth: "HMAC-SHA256 of the body, with a time in it", ID: "Linear-Delivery", Deadline: "5s", Wants: "200; 7h",
	Uses: []string{"secret"}, fields: []string{"Linear-*"},
	key: producer.Header("Linear-Delivery"), keyRequired: true, kind: producer.JSON("type"),
	fingerprint: producer.FingerprintFields(producer.JSON("type"), producer.JSON("action"),
		producer.JSON("createdAt"), producer.JSON("data.id"), producer.JSON("data.updatedAt")),
	tolerance: fiveMinutes, window: 2 * day,
	build: func(p *producer.Producer, s Settings) {
		p.Err = checkText(s.Secrets)
		signedBy(p, &bodyTimed{member: "webhookTimestamp", HMAC: &verify.HMAC{
			Headers: []string{"Linear-Signature"}, Encoding: verify.Hex, Secrets: verify.Secrets(s.Secrets...),
		}})
		p.Attributes = attributes(map[string]producer.Extractor{"action": producer.JSON("action")})
	},
}

// Paddle receives notifications of Paddle Billing. A secret is the secret key of the
// notification destination. A rotation adds a signature for each key.
//
// Paddle's Node library accepts a signature for 5 seconds, its Go library without a limit unless
// one is set; we accept 5 minutes. The signed event_id identifies the event.
//
// Sources, read in November 2026: paddle-go-sdk 4.1.0, @paddle/paddle-node-sdk 3.10.0. That
// Paddle waits 5 seconds and tries for 3 days is general knowledge.
//
// https://developer.paddle.com/webhooks/signature-verification
func Paddle(secrets ...string) producer.Producer { return vendor("paddle").with(secrets) }

// Razorpay receives webhooks of Razorpay. After a change of the secret, retries of older events
// are still signed with the old one: set both for a day. The identifier x-razorpay-event-id is
// not signed, so a digest of the body, which contains a time, identifies the event. Razorpay
// wants 2xx within 5 seconds, retries for 24 hours and then disables the webhook. Undelivered
// events can be resent by hand for 7 days, which the window allows for.
//
// https://razorpay.com/docs/webhooks/validate-test/
func Razorpay(secrets ...string) producer.Producer { return vendor("razorpay").with(secrets) }

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
	Uses: []string{"secret"}, fields: []string{"X-Slack-*"},
	key: producer.JSON("event_id"), kind: producer.First(producer.JSON("event.type"), producer.JSON("type")),
	fingerprint: producer.FingerprintNone, tolerance: fiveMinutes, window: day + time.Hour,
	hmac: &verify.HMAC{
		Headers: []string{"X-Slack-Signature"}, TimestampHeaders: []string{"X-Slack-Request-Timestamp"},
		Entries: []string{"v0={sig}"}, Encoding: verify.Hex, Content: "v0:{timestamp}:{body}",
	},
	build: func(p *producer.Producer, _ Settings) {
		p.Handshake, p.FormMember = echoesChallenge(producer.JSON("type"), "url_verification", echo), "payload"
		p.Accepted.Body = []byte{}
	},
}

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
	return vendor("square").producer(Settings{NotificationURL: notificationURL, Secrets: keys})
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
	Name: "stripe", Docs: "https://docs.stripe.com/webhooks/signature",
	Auth: "HMAC-SHA256 of time and body", ID: "body id", Wants: "2xx; 3 days",
	Uses: []string{"secret"},
	key:  producer.JSON("id"), keyRequired: true, kind: producer.JSON("type"), fingerprint: producer.FingerprintNone,
	tolerance: verify.Tolerance{Past: 5 * time.Minute, Future: time.Minute}, window: 4 * day,
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
	return vendor("trello").producer(Settings{NotificationURL: notificationURL, Secrets: secrets})
}

// Typeform receives webhooks of Typeform. A secret is the webhook's secret. The signed event_id
// identifies the event.
//
// Sources, read in November 2026: Typeform's documentation of signatures. That Typeform waits 30
// seconds and tries for 10 hours is general knowledge.
//
// https://www.typeform.com/developers/webhooks/secure-your-webhooks/
func Typeform(secrets ...string) producer.Producer { return vendor("typeform").with(secrets) }

// Vercel receives webhooks of a Vercel team or integration. A secret is the webhook's secret, or
// the client secret of the integration. Vercel signs with HMAC-SHA1 only. The signed id identifies
// the event.
//
// Sources, read in November 2026: Vercel's page on webhooks. That Vercel waits 30 seconds and tries
// for 24 hours is general knowledge.
//
// https://vercel.com/docs/webhooks
func Vercel(secrets ...string) producer.Producer { return vendor("vercel").with(secrets) }

// Webflow receives webhooks of Webflow that were made through its API: those of the dashboard are
// not signed. A secret is the client secret of the OAuth application that made them, or the key of
// the webhook. Time and body are signed; a signature is valid for 5 minutes, as Webflow advises.
//
// Webflow sends no id; a digest of the body identifies the event. It wants 200, follows no
// redirect, and tries 3 times more, every 10 minutes.
//
// Sources, read in November 2026: Webflow's pages on request signatures and on limits and retries,
// and webflow-api 3 (the raw body is signed).
//
// https://developers.webflow.com/data/docs/working-with-webhooks
func Webflow(secrets ...string) producer.Producer { return vendor("webflow").with(secrets) }

// WorkOS receives events of WorkOS. A secret is the endpoint's signing secret. The signed id
// identifies the event.
//
// The signed time is in milliseconds. WorkOS' libraries accept 3 minutes; we accept 5.
//
// Sources, read in November 2026: @workos-inc/node 8.13.0 and workos-go. That WorkOS tries 6
// times in 3 days is general knowledge.
//
// https://workos.com/docs/events/data-syncing/webhooks
func WorkOS(secrets ...string) producer.Producer { return vendor("workos").with(secrets) }

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
	Name: "worldpay", Docs: "https://developer.worldpay.com/products/access/events",
	Auth: "HMAC-SHA256 of the body", ID: "body eventId", Deadline: "10s", Wants: "200 only; 7 days",
	Uses: []string{"keys", "encoding"},
	key:  producer.JSON("eventId"), kind: producer.JSON("eventDetails.type"),
	eventTime: producer.JSON("eventTimestamp"), fingerprint: producer.FingerprintNone, window: 8 * day,
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
	Uses: []string{"secret"}, fields: []string{"X-Xero-*"}, fingerprint: producer.FingerprintNone, window: 2 * day,
	build: func(p *producer.Producer, s Settings) {
		signedByHMAC(p, &verify.HMAC{Headers: []string{"x-xero-signature"}, Encoding: verify.Base64}, s.Secrets)
		p.Accepted = dedup.Response{Body: []byte{}}
		kind := producer.First(producer.Join(producer.JSON("eventCategory"), producer.JSON("eventType")),
			producer.JSON("eventType"))
		p.Split = batch{
			path: []string{"events"}, kind: kind,
			id: producer.Join(producer.JSON("tenantId"), kind, producer.JSON("resourceId"),
				producer.JSON("eventDateUtc")),
			own: map[string]producer.Extractor{
				"source": producer.JSON("tenantId"), "subject": producer.JSON("resourceUrl"),
				"time": producer.JSON("eventDateUtc"),
			},
		}.split
	},
	typeFrom: "json:events.*.eventCategory:eventType",
}

// Zendesk receives webhooks of Zendesk. A secret is the webhook's signing secret. The signed
// time is a date-time (RFC 3339) before the body; the tolerance of 5 minutes is ours.
//
// X-Zendesk-Webhook-Invocation-Id identifies the invocation and is not signed: the same bytes
// under another identifier are quarantined. A body made by a trigger or automation has the type
// that it names in its member "type", or none.
//
// Sources, read in November 2026: Zendesk's page on verification. That Zendesk waits 12 seconds
// and retries a few times is general knowledge. Deliveries without a body (GET, DELETE) are
// refused.
//
// https://developer.zendesk.com/documentation/webhooks/verifying/
func Zendesk(secrets ...string) producer.Producer { return vendor("zendesk").with(secrets) }
