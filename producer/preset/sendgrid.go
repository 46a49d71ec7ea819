package preset

import (
	"crypto/ecdsa"
	"crypto/x509"
	"encoding/base64"
	"errors"

	"github.com/eyelet-dev/eyelet/producer"
	"github.com/eyelet-dev/eyelet/verify"
)

// SendGrid receives the signed Event Webhook of Twilio SendGrid. A key is the verification key
// that SendGrid shows: base64 of a public key for ECDSA with P-256.
//
// A body is an array of events. The signed sg_event_id identifies an event, and its type is its
// member "event". Time and body are signed without a separator; digits that move between them
// leave no JSON array, which is refused. SendGrid retries for up to 24 hours.
//
// Sources, read in November 2026: sendgrid-go 3.16 (helpers/eventwebhook) and SendGrid's pages on
// the Event Webhook. How long it waits for a response, and the tolerance, are ours.
//
// https://www.twilio.com/docs/sendgrid/for-developers/tracking-events/getting-started-event-webhook-security-features
func SendGrid(keys ...string) producer.Producer { return sendGrid.with(keys) }

var sendGrid = Preset{
	Name: "sendgrid",
	Docs: "https://www.twilio.com/docs/sendgrid/for-developers/tracking-events/" +
		"getting-started-event-webhook-security-features",
	Auth: "ECDSA of time and body", ID: "each event's sg_event_id", Wants: "2xx; 24h", Uses: []string{"secret"},
	like: producer.Producer{
		Fields: []string{"X-Twilio-Email-Event-Webhook-*"}, EventTime: producer.JSON("0.timestamp"),
		Fingerprint: producer.FingerprintNone, Tolerance: fiveMinutes, Window: 2 * day,
	},
	build: func(p *producer.Producer, s Settings) {
		scheme := &verify.HMAC{
			Headers: []string{"X-Twilio-Email-Event-Webhook-Signature"}, Entries: []string{"{ecdsa}"},
			TimestampHeaders: []string{"X-Twilio-Email-Event-Webhook-Timestamp"}, Encoding: verify.Base64,
			Content: "{timestamp}{body}", Malleable: true,
		}
		for _, text := range s.Secrets {
			key, err := ecdsaKey(text)
			if err != nil {
				p.Err = errors.Join(p.Err, err)
				continue
			}
			scheme.ECDSAKeys = append(scheme.ECDSAKeys, key)
		}
		if p.Err != nil {
			return
		}
		signedBy(p, scheme)
		p.Split = batch{ID: producer.JSON("sg_event_id"), Kind: producer.JSON("event")}.split
	},
	typeFrom: "json:*.event", signWith: signSendGrid,
}

// ecdsaKey reads the base64 of a SubjectPublicKeyInfo (RFC 5280 section 4.1).
func ecdsaKey(text string) (*ecdsa.PublicKey, error) {
	der, err := base64.StdEncoding.DecodeString(text)
	if err != nil {
		return nil, errors.New("a verification key is not base64")
	}
	parsed, err := x509.ParsePKIXPublicKey(der)
	key, ok := parsed.(*ecdsa.PublicKey)
	if err != nil || !ok {
		return nil, errors.New("a verification key is not one for ECDSA")
	}
	return key, nil
}
