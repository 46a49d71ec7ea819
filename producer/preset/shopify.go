package preset

import (
	"errors"
	"time"

	"github.com/eyelet-dev/eyelet/producer"
	"github.com/eyelet-dev/eyelet/verify"
)

// Shopify receives webhooks of Shopify apps. A secret is the app's client secret; while it is rotated Shopify
// signs with the oldest one that is not revoked.
//
// Neither X-Shopify-Event-Id nor X-Shopify-Webhook-Id nor the topic is signed, and one body may come under several
// topics: events are named by a digest of the body and the topic. Each topic with a handler of its own gets a body once;
// handlers of several topics ("orders/*", "*") get it under at most 9 topics. The same topic with another Webhook-Id is
// quarantined, except shop/redact, whose body has nothing of its own. Shopify wants 200 within 5 seconds, tries 8
// times in 4 hours, and then removes a subscription that was made through its API.
//
// https://shopify.dev/docs/apps/build/webhooks/subscribe/https
func Shopify(secrets ...string) producer.Producer { return shopify("shopify", "X-Shopify-", secrets) }

// ShopifyEvents receives the preview of Shopify's new events, whose fields have no "X-" and whose identifier is
// Shopify-Webhook-Id.
//
// https://shopify.dev/docs/apps/build/webhooks/ignore-duplicates
func ShopifyEvents(secrets ...string) producer.Producer {
	p := shopify("shopify-events", "Shopify-", secrets)
	p.Docs = "https://shopify.dev/docs/apps/build/webhooks/ignore-duplicates"
	p.Key = producer.Header("Shopify-Webhook-Id")
	return p
}

func shopify(name, prefix string, secrets []string) producer.Producer {
	p := webhook(name, "https://shopify.dev/docs/apps/build/webhooks/subscribe/https")
	list, err := plainSecrets(secrets)
	p = signedBy(p, &verify.HMAC{Headers: []string{prefix + "Hmac-Sha256"}, Encoding: verify.Base64, Secrets: list})
	p.Err = errors.Join(err, p.Err)
	p.Key = producer.First(producer.Header(prefix+"Event-Id"), producer.Header(prefix+"Webhook-Id"))
	p.Sending = producer.Header(prefix + "Webhook-Id")
	p.Type = producer.Header(prefix + "Topic")
	p.EventTime = producer.JSON("updated_at")
	p.KeyedByType = true
	p.Repeatable = producer.Shapes(16, []string{"shop_id", "shop_domain", "!customer", "!data_request", "!id"}) // shop/redact
	p.Attributes = attributes(map[string]producer.Extractor{"shop": producer.Header(prefix + "Shop-Domain")})
	p.Window = 28 * time.Hour
	return p
}
