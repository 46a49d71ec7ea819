package preset

import (
	"cmp"
	"crypto/md5"
	"encoding/hex"
	"errors"
	"net/netip"
	"time"

	"github.com/eyelet-dev/eyelet/producer"
	"github.com/eyelet-dev/eyelet/verify"
)

// This file has vendors that sign nothing: a shared credential, or an address, authenticates them.

// EventBridge receives from an API destination of Amazon EventBridge, with the credential of
// its connection: verify.HeaderValue for an API key (make it long and random) or verify.Basic.
// Nothing is signed. OAuth connections send tokens of the receiver's own authorization server;
// use a JWT scheme for them.
//
// The body is the event unless an input transformer changes it; then set Key and Type.
// EventBridge wants 2xx within 5 seconds and retries for 24 hours, but only after 401, 407,
// 409, 429 and 5xx (according to secondary sources).
//
// https://docs.aws.amazon.com/eventbridge/latest/userguide/eb-api-destinations.html
func EventBridge(credential *verify.Static) producer.Producer {
	return awsEventBridge.producer(Settings{static: credential})
}

var awsEventBridge = Preset{
	Name: "aws-eventbridge", Docs: "https://docs.aws.amazon.com/eventbridge/latest/userguide/eb-api-destinations.html",
	Auth: "API key, basic or bearer", ID: "body id", Deadline: "5s", Wants: "2xx; 24h",
	Uses: []string{"username", "password", "header", "query", "value", "bearer", "secret"},
	key:  producer.JSON("id"), kind: producer.JSON("detail-type"), window: 2 * day,
	build:      byCredential,
	attributes: map[string]producer.Extractor{"source": producer.JSON("source"), "time": producer.JSON("time")},
}

// Chargebee receives webhooks of Chargebee, with the credential entered beside the URL:
// verify.Basic, or verify.QueryValue for a key in the URL. Nothing is signed.
//
// The body contains the state of its own delivery and so differs between attempts; id, type and
// time identify the event. Chargebee tries 7 times in 3.3 days.
//
// https://www.chargebee.com/docs/billing/2.0/site-configuration/webhook_settings
func Chargebee(credential *verify.Static) producer.Producer {
	return chargebee.producer(Settings{static: credential})
}

var chargebee = Preset{
	Name: "chargebee", Docs: "https://www.chargebee.com/docs/billing/2.0/site-configuration/webhook_settings",
	Auth: "basic, or a key in the URL", ID: "body id", Wants: "2xx; 3.3 days",
	Uses: []string{"username", "password", "header", "query", "value", "bearer", "secret"},
	key:  producer.JSON("id"), kind: producer.JSON("event_type"), window: 103 * time.Hour,
	fingerprint: producer.FingerprintFields(
		producer.JSON("id"), producer.JSON("event_type"), producer.JSON("occurred_at")),
	build: byCredential,
}

// Deepgram receives callbacks of Deepgram. Deepgram signs nothing; the credential is one of user
// and password, or a parameter, in the callback's URL. Since October 2026 its field dg-token,
// which holds the id of an API key, does not count any more.
//
// A digest of the body identifies a callback, because all results of a stream have one
// request_id. The type is the member "type" of streamed results, and "callback" for others.
// Bodies of up to 25 MiB are accepted; that size is ours.
//
// Sources, read in November 2026: Deepgram's page on callbacks and its changelog of 27 October
// 2026. That it tries 10 times more, every 30 seconds, is general knowledge.
//
// https://developers.deepgram.com/docs/callback
func Deepgram(s Settings) producer.Producer { return deepgram.producer(s) }

var deepgram = Preset{
	Name: "deepgram", Docs: "https://developers.deepgram.com/docs/callback",
	Auth: "basic, or a key in the URL", ID: "digest of the body", Wants: "2xx; 5m",
	Uses:   []string{"username", "password", "query", "value", "secret"},
	fields: []string{"Dg-Token"},
	key:    producer.BodyDigest(), kind: producer.First(producer.JSON("type"), producer.Const("callback")),
	window: day + time.Hour,
	build:  byCredential, maxBody: 25 << 20,
}

// GitLab receives webhooks of GitLab. A token is the webhook's secret token. It is sent as it
// is and authenticates the sender but not the body, so accept it over TLS only.
//
// The identifier is the field Idempotency-Key, equal on every attempt. Older versions send
// none, and a digest of the body identifies the event. (X-Gitlab-Event-UUID is not an
// identifier: webhooks that trigger each other share it.) That GitLab waits 10 seconds, sends
// up to 25 MB, and disables a webhook that keeps failing is general knowledge.
//
// https://docs.gitlab.com/user/project/integrations/webhooks/
func GitLab(tokens ...string) producer.Producer { return gitLab.with(tokens) }

var gitLab = Preset{
	Name: "gitlab", Docs: "https://docs.gitlab.com/user/project/integrations/webhooks/",
	Auth: "token in X-Gitlab-Token", ID: "Idempotency-Key", Deadline: "10s", Wants: "2xx",
	Uses:   []string{"secret", "header", "value"},
	fields: []string{"X-Gitlab-Event", "X-Gitlab-Event-UUID", "X-Gitlab-Webhook-UUID", "X-Gitlab-Instance"},
	key:    producer.IdempotencyKey{}, kind: producer.Header("X-Gitlab-Event"), window: 2 * day,
	build: func(p *producer.Producer, s Settings) {
		withCredential(p, verify.HeaderValue(cmp.Or(s.Header, "X-Gitlab-Token"), s.secretsAnd(s.Value)...))
		p.MaxBody = 25 << 20
	},
}

// Postmark receives webhooks of Postmark, inbound messages included. Postmark signs nothing; the
// credential is one of user and password in the webhook's URL, a header field that the webhook is
// given, or a parameter of its URL. It authenticates the sender but not the body.
//
// Events have no identifier, only that of their message, so a digest of the body identifies one.
// The event type is RecordType ("Bounce", "Delivery"); an inbound message has none. Bodies of up
// to 50 MiB are accepted, because an inbound message holds its attachments.
//
// Sources, read in November 2026: Postmark's overview of webhooks and its article on retries of
// inbound webhooks. It wants 200, tries for 10.5 hours, and stops at 403. That the largest
// inbound message has 35 MB is general knowledge.
//
// https://postmarkapp.com/developer/webhooks/webhooks-overview
func Postmark(s Settings) producer.Producer { return postmark.producer(s) }

var postmark = Preset{
	Name: "postmark", Docs: "https://postmarkapp.com/developer/webhooks/webhooks-overview",
	Auth: "basic, a header field, or a key in the URL", ID: "digest of the body", Wants: "200; 10.5h",
	Uses: []string{"username", "password", "header", "query", "value", "secret"},
	key:  producer.BodyDigest(), kind: producer.JSON("RecordType"), window: 2 * day,
	build: byCredential, maxBody: 50 << 20,
}

// WebEngage receives webhooks of WebEngage. Its URL contains the license code and, as "secret",
// the MD5 of licenseCode:secretKey in hex: a shared credential that never changes, so the query
// is kept out of logs. Nothing is signed. The vendor accepts only 200; how long it retries is
// not documented.
//
// https://docs.webengage.com/docs/webhooks
func WebEngage(licenseCode, secretKey string) producer.Producer {
	return webEngage.producer(Settings{LicenseCode: licenseCode, SecretKey: secretKey})
}

var webEngage = Preset{
	Name: "webengage", Docs: "https://docs.webengage.com/docs/webhooks",
	Auth: "MD5 in the query", ID: "x-request-id", Wants: "200 only",
	Uses: []string{"license_code", "secret_key"},
	key:  producer.Header("x-request-id"), kind: producer.Query("eventType"), window: 2 * day,
	build: func(p *producer.Producer, s Settings) {
		sum := md5.Sum([]byte(s.LicenseCode + ":" + s.SecretKey)) // the vendor's formula; it hides nothing
		signedBy(p, verify.All{
			verify.QueryValue("licenseCode", s.LicenseCode), verify.QueryValue("secret", hex.EncodeToString(sum[:])),
		})
		if s.LicenseCode == "" || s.SecretKey == "" {
			p.Err = errors.New("license code and secret key must both be set")
		}
		p.SecretQuery = []string{"secret", "licenseCode"}
	},
}

// YooKassa receives notifications of YooKassa. They are not authenticated at all: list the
// addresses that the vendor publishes, and have handlers ask the vendor's API for the object
// before they act. All facts here are general knowledge, not re-read.
//
// https://yookassa.ru/developers/using-api/webhooks
func YooKassa(allowed ...netip.Prefix) producer.Producer {
	return yooKassa.producer(Settings{AllowedIPs: allowed})
}

var yooKassa = Preset{
	Name: "yookassa", Docs: "https://yookassa.ru/developers/using-api/webhooks",
	Auth: "none: addresses only", ID: "event and object id", Wants: "200; 24h",
	key: producer.Join(producer.JSON("event"), producer.JSON("object.id")), kind: producer.JSON("event"),
	window: 2 * day,
	build: func(p *producer.Producer, s Settings) {
		p.AllowedIPs = s.AllowedIPs
		if len(s.AllowedIPs) == 0 {
			p.Err = errors.New("notifications are not signed: allowed_ips must list the vendor's addresses")
		}
	},
}
