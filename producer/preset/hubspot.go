package preset

import (
	"strings"
	"time"

	"github.com/eyelet-dev/eyelet/producer"
	"github.com/eyelet-dev/eyelet/verify"
)

// HubSpot receives webhooks of HubSpot apps by their signature of version 3. A secret is the app's
// client secret. The signed content holds the URL as registered with HubSpot: set the public URL,
// or signed_url where the registered one has a query. HubSpot documents that some escapes of
// the URL are decoded before it signs, and its libraries do not decode them: the URL is verified
// as it is, then decoded.
//
// A body is an array of up to 100 events, in any order. HubSpot does not promise that eventId is
// unique, so eventId, subscriptionId and occurredAt together identify an event; attemptNumber
// changes with each attempt. The event type is subscriptionType ("contact.creation"). Parts of the
// content have no separator; bytes that move between them leave another URL or no JSON array, and
// are refused.
//
// Sources, read in November 2026: the official hubspot-api-python (utils/signature.py) and the
// values of its tests, and descriptions of HubSpot's pages on validating requests and webhooks.
// That HubSpot waits 5 seconds and tries 10 times in 24 hours is from secondary sources.
//
// https://developers.hubspot.com/docs/apps/legacy-apps/authentication/validating-requests
func HubSpot(secrets ...string) producer.Producer { return hubSpot.with(secrets) }

var hubSpot = Preset{
	Name: "hubspot", Docs: "https://developers.hubspot.com/docs/apps/legacy-apps/authentication/validating-requests",
	Auth: "HMAC-SHA256 of URL, body and time", ID: "each event's eventId, subscriptionId and occurredAt",
	Deadline: "5s", Wants: "2xx; 24h", Uses: []string{"secret", "signed_url"},
	like: producer.Producer{
		Fields: []string{"X-HubSpot-*"}, EventTime: producer.JSON("0.occurredAt"),
		Fingerprint: producer.FingerprintNone, Tolerance: fiveMinutes, Window: 2 * day,
	},
	build: func(p *producer.Producer, s Settings) {
		signedByHMAC(p, &verify.HMAC{
			Headers: []string{"X-HubSpot-Signature-v3"}, TimestampHeaders: []string{"X-HubSpot-Request-Timestamp"},
			TimestampUnit: time.Millisecond, Encoding: verify.Base64, Content: "POST{url}{body}{timestamp}",
			Malleable: true, URL: s.SignedURL, OtherURL: hubSpotDecoded.Replace,
		}, s.Secrets)
		p.SignsURL = true
		p.Split = batch{
			ID:   producer.Join(producer.JSON("eventId"), producer.JSON("subscriptionId"), producer.JSON("occurredAt")),
			Kind: producer.JSON("subscriptionType"), Varies: "attemptNumber",
		}.split
	},
	typeFrom: "json:*.subscriptionType",
}

// hubSpotDecoded decodes the escapes that HubSpot's page on validating requests lists.
var hubSpotDecoded = strings.NewReplacer(
	"%3A", ":", "%2F", "/", "%3F", "?", "%40", "@", "%21", "!", "%24", "$", "%27", "'", "%28", "(", "%29", ")",
	"%2A", "*", "%2C", ",", "%3B", ";",
	"%3a", ":", "%2f", "/", "%3f", "?", "%2a", "*", "%2c", ",", "%3b", ";")
