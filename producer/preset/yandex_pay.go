package preset

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"time"

	"github.com/eyelet-dev/eyelet/producer"
	"github.com/eyelet-dev/eyelet/verify"
)

// yandexPay receives webhooks of Yandex Pay for the accounts, ids of merchants. The body is a token
// signed by Yandex (ES256), with its times in the JOSE header. Handlers get its claims as the body.
//
// Yandex sends no identifier. It is order, event, status and time joined; other kinds of events
// have an operation in place of the order, else a digest of the claims. Operations and other
// kinds are general knowledge, not re-read. Yandex accepts only 200 and retries for 24 hours.
//
// https://pay.yandex.ru/docs/en/custom/backend/merchant-api/webhook
var yandexPay = Preset{
	Name: "yandex-pay", Docs: "https://pay.yandex.ru/docs/en/custom/backend/merchant-api/webhook",
	Auth: "the body is a token signed with ES256", ID: "order, event, status and time", Wants: "200 only; 24h",
	Uses: []string{"account", "jwks_url", "alg"},
	like: producer.Producer{Type: producer.JWT("event"), Window: 2 * day},
	build: func(p *producer.Producer, s Settings) {
		if len(s.Account) == 0 {
			p.Err = errors.New("set account, the merchant's id: tokens for other merchants have the same keys")
		} else {
			signedByTokens(p, s, "https://pay.yandex.ru/api/jwks", &verify.JWT{
				Algorithms: algorithms(s, "ES256"), Body: true, HeaderTimes: true,
				Claims: []verify.ClaimRule{{Names: []string{"merchantId"}, Values: s.Account}},
			})
		}
		claims := func(names ...string) producer.Extractor {
			var parts []producer.Extractor
			for _, name := range names {
				parts = append(parts, producer.JWT(name))
			}
			return producer.Join(parts...)
		}
		p.Key = producer.First(
			claims("order.orderId", "event", "order.paymentStatus", "eventTime"),
			claims("operation.operationId", "event", "operation.status", "eventTime"),
			claimsDigest{},
		)
		p.Attributes = attributes(map[string]producer.Extractor{
			"time": producer.JWT("eventTime"), "subject": producer.JWT("order.orderId"),
		})
		p.Payload = claimsPayload
		p.Tolerance = verify.Tolerance{Past: day, Future: 5 * time.Minute} // the token's own end applies too
	},
	signWith: signAsToken("ES256", true),
}

// claimsDigest identifies an event by its claims, which stay the same when the token is signed
// again.
type claimsDigest struct{}

func (claimsDigest) Extract(d *producer.Delivery) (string, error) {
	sum := sha256.Sum256(d.Identity.Claims)
	return "sha256:" + hex.EncodeToString(sum[:]), nil
}

func (claimsDigest) Consumes() []string { return nil }
func (claimsDigest) String() string     { return "digest:claims" }
