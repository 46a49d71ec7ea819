package preset

import (
	"net/http"
	"time"

	"github.com/eyelet-dev/eyelet/dedup"
	"github.com/eyelet-dev/eyelet/producer"
	"github.com/eyelet-dev/eyelet/verify"
)

// adyenHorizon is how long Adyen tries: 30 days. A day is added.
const adyenHorizon = 30 * 24 * time.Hour

// Adyen receives payment notifications of Adyen (the "standard webhook"). A key is the HMAC key of the webhook in
// hex, as the Customer Area shows it; for a while after a change Adyen goes on using the old one, so give both.
// Set Scheme to verify.All{verify.Basic(...), p.Scheme} to demand the webhook's user and password too.
//
// A notification is a batch. Each item is an event pspReference:eventCode:success, all of them signed, and only
// eight members of an item are; see [verify.Adyen]. Adyen wants 2xx or "[accepted]" within 10 seconds.
//
// https://docs.adyen.com/development-resources/webhooks/verify-hmac-signatures/
func Adyen(keys ...string) producer.Producer {
	p := webhook("adyen", "https://docs.adyen.com/development-resources/webhooks/verify-hmac-signatures/")
	p = signedBy(p, verify.NewAdyen(keys...))
	p.Split = adyenItems
	p.Fingerprint = producer.FingerprintNone
	p.Accepted = accepted()
	p.Window = adyenHorizon + 24*time.Hour
	return p
}

func accepted() dedup.Response {
	return dedup.Response{Status: 200, Header: http.Header{"Content-Type": {"text/plain"}}, Body: []byte("[accepted]")}
}

func adyenItems(d *producer.Delivery) ([]producer.Item, error) {
	parts, err := verify.AdyenItems(d.Body)
	if err != nil {
		return nil, err
	}
	items := make([]producer.Item, len(parts))
	for i, it := range parts {
		items[i] = producer.Item{ID: producer.JoinID(it.PSPReference, it.EventCode, it.Success), Type: it.EventCode, Body: it.Body}
	}
	return items, nil
}

// AdyenPlatform receives webhooks of Adyen's Balance and Management platforms, whose signature is in a header
// field and covers the body. Keys are as for [Adyen]. Its data.id names the object and not the event, so a
// digest of the body is the identifier. The field HmacSignature is confirmed by a sample repository and by users'
// code more than by the documentation.
//
// https://docs.adyen.com/development-resources/webhooks/verify-hmac-signatures/
func AdyenPlatform(keys ...string) producer.Producer {
	p := webhook("adyen-platform", "https://docs.adyen.com/development-resources/webhooks/verify-hmac-signatures/")
	p = signedBy(p, &verify.HMAC{
		Headers: []string{"HmacSignature"}, Encoding: verify.Base64, Secrets: verify.Secrets(keys...), SecretEncoding: verify.Hex,
	})
	p.Key = producer.BodyDigest()
	p.Type = producer.JSON("type")
	p.EventTime = producer.JSON("timestamp")
	p.Accepted = accepted()
	p.Window = adyenHorizon + 24*time.Hour
	return p
}
