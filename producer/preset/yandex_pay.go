package preset

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"time"

	"github.com/eyelet-dev/eyelet/producer"
	"github.com/eyelet-dev/eyelet/verify"
)

// YandexPay receives webhooks of Yandex Pay for one merchant. The body is a token that Yandex signs (ES256),
// with its times in the JOSE header; what handlers see as the body are the token's claims.
//
// Yandex gives events no identifier. It is order, event, status and time joined; for other kinds of events the
// operation stands in for the order, else a digest of the claims does. Operations and other kinds are from
// general knowledge, not re-read. Yandex accepts only 200 and tries for 24 hours.
//
// https://pay.yandex.ru/docs/en/custom/backend/merchant-api/webhook
func YandexPay(merchantID string) producer.Producer {
	return yandexPay(Settings{MerchantID: merchantID})
}

func yandexPay(s Settings) producer.Producer {
	p := webhook("yandex-pay", "https://pay.yandex.ru/docs/en/custom/backend/merchant-api/webhook")
	if s.MerchantID == "" {
		p.Err = errors.New("set merchant_id: tokens for other merchants have the same keys")
	} else {
		p = signedByTokens(p, s, "https://pay.yandex.ru/api/jwks", &verify.JWT{
			Algorithms: algorithms(s, "ES256"), Body: true, HeaderTimes: true,
			Claims: []verify.ClaimRule{{Names: []string{"merchantId"}, Values: []string{s.MerchantID}}},
		})
	}
	p.Key = producer.First(
		producer.Join(producer.JWT("order.orderId"), producer.JWT("event"), producer.JWT("order.paymentStatus"), producer.JWT("eventTime")),
		producer.Join(producer.JWT("operation.operationId"), producer.JWT("event"), producer.JWT("operation.status"), producer.JWT("eventTime")),
		claimsDigest{},
	)
	p.Type = producer.JWT("event")
	p.Attributes = attributes(map[string]producer.Extractor{"time": producer.JWT("eventTime"), "subject": producer.JWT("order.orderId")})
	p.Payload = claimsPayload
	// The token's own end decides how old it may be.
	p.Tolerance = verify.Tolerance{Past: 24 * time.Hour, Future: 5 * time.Minute}
	p.Window = 48 * time.Hour
	return p
}

// claimsPayload hands the claims of the verified token to handlers, in place of the token.
func claimsPayload(d *producer.Delivery) ([]byte, error) { return d.Identity.Claims, nil }

// claimsDigest names an event by its claims, which stay the same when the token is signed afresh.
type claimsDigest struct{}

func (claimsDigest) Extract(d *producer.Delivery) (string, error) {
	sum := sha256.Sum256(d.Identity.Claims)
	return "sha256:" + hex.EncodeToString(sum[:]), nil
}

func (claimsDigest) Consumes() []string { return nil }
func (claimsDigest) String() string     { return "digest:claims" }
