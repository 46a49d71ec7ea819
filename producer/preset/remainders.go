package preset

import (
	"encoding/hex"
	"errors"
	"strings"

	"github.com/eyelet-dev/eyelet/internal/strictjson"
	"github.com/eyelet-dev/eyelet/producer"
	"github.com/eyelet-dev/eyelet/verify"
)

// What the rows of presets.yaml cannot say of these vendors.

var stripe = Preset{
	Name: "stripe", secretPrefix: "whsec_", // the whole text is the key
	build: func(p *producer.Producer, s Settings) {
		for _, s := range s.Secrets {
			if strings.HasPrefix(s, "sk_") || strings.HasPrefix(s, "rk_") || strings.HasPrefix(s, "pk_") {
				p.Err = errors.Join(p.Err, errors.New("a secret is an API key; the signing secret begins with whsec_"))
			}
		}
	},
}

var xero = Preset{
	Name: "xero",
	build: func(p *producer.Producer, _ Settings) {
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

var twitch = Preset{
	Name: "twitch", build: func(p *producer.Producer, _ Settings) { p.Type = twitchKind{} },
}

// twitchKind reads the type of the subscription, or "revocation" if it has ended.
type twitchKind struct{}

func (twitchKind) Extract(d *producer.Delivery) (string, error) {
	status, err := producer.JSON("subscription.status").Extract(d)
	if err != nil || status != "enabled" && status != "" {
		return "revocation", err
	}
	return producer.JSON("subscription.type").Extract(d)
}

func (twitchKind) Consumes() []string { return []string{"@body"} }
func (twitchKind) String() string     { return "json:subscription.type" }

var telegram = Preset{
	Name: "telegram", build: func(p *producer.Producer, _ Settings) { p.Type = updateKind{} },
}

// updateKind reads the name of the first member of an update other than update_id.
type updateKind struct{}

func (updateKind) Extract(d *producer.Delivery) (string, error) {
	doc, err := d.JSON()
	if err != nil || doc[0] != '{' {
		return "", nil //nolint:nilerr // the identifier is missing, which is reported
	}
	kind := ""
	err = strictjson.EachMember(doc, func(name, _ []byte) error {
		if text := strictjson.String(name); text != "update_id" && kind == "" {
			kind = text
		}
		return nil
	})
	return kind, err
}

func (updateKind) Consumes() []string { return []string{"@body"} }
func (updateKind) String() string     { return "the member beside update_id" }

var hubSpot = Preset{
	Name: "hubspot",
	build: func(p *producer.Producer, s Settings) {
		signedByHMAC(p, &verify.HMAC{
			Headers: []string{"X-HubSpot-Signature-v3"}, TimestampHeaders: []string{"X-HubSpot-Request-Timestamp"},
			TimestampUnit: verify.Milliseconds, Encoding: verify.Base64, Content: "POST{url}{body}{timestamp}",
			Malleable: true, URL: s.SignedURL, OtherURL: hubSpotDecoded.Replace,
		}, s.Secrets)
		p.SignsURL = true
	},
}

// hubSpotDecoded decodes the escapes that HubSpot's page on validating requests lists.
var hubSpotDecoded = strings.NewReplacer(
	"%3A", ":", "%2F", "/", "%3F", "?", "%40", "@", "%21", "!", "%24", "$", "%27", "'", "%28", "(", "%29", ")",
	"%2A", "*", "%2C", ",", "%3B", ";",
	"%3a", ":", "%2f", "/", "%3f", "?", "%2a", "*", "%2c", ",", "%3b", ";")

var openPayments = Preset{
	Name: "openpayments",
	build: func(p *producer.Producer, _ Settings) {
		p.Key = producer.First(producer.IdempotencyKey{}, signatureID{})
	},
}

// signatureID identifies what is signed, its time included.
type signatureID struct{}

func (signatureID) Extract(d *producer.Delivery) (string, error) {
	return hex.EncodeToString(d.Identity.Signed), nil
}
func (signatureID) Consumes() []string { return nil }
func (signatureID) String() string     { return "the signature" }
