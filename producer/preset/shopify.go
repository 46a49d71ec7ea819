package preset

import (
	"regexp"
	"time"

	"github.com/eyelet-dev/eyelet/producer"
	"github.com/eyelet-dev/eyelet/verify"
)

// Shopify receives webhooks of Shopify apps. A secret is the app's client secret. During a
// rotation Shopify signs with the oldest one that is not revoked.
//
// X-Shopify-Event-Id, X-Shopify-Webhook-Id and the topic are not signed, and several topics can
// have the same body: a digest of the body, with the topic, identifies the event. Each topic
// with a handler of its own gets a body once; handlers of several topics ("orders/*", "*") get
// it for at most 9 topics. The same topic with another Event-Id is quarantined, except shop/redact,
// whose body has nothing of its own; with another Webhook-Id alone it is a duplicate. Shopify wants
// 200 within 5 seconds, tries 8 times in 4 hours, and then removes a subscription that was made
// through its API.
//
// https://shopify.dev/docs/apps/build/webhooks/subscribe/https
func Shopify(secrets ...string) producer.Producer { return shopify.with(secrets) }

var shopify = Preset{
	Name: "shopify", Docs: "https://shopify.dev/docs/apps/build/webhooks/subscribe/https",
	Auth: "HMAC-SHA256 of the body", ID: "X-Shopify-Event-Id", Deadline: "5s", Wants: "200; 4h",
	Uses: []string{"secret"}, fields: []string{"X-Shopify-*"},
	build: func(p *producer.Producer, s Settings) { buildShopify(p, s, "X-Shopify-") },
}

// ShopifyEvents receives the preview of Shopify's new events. Their fields have no "X-", and
// the identifier is Shopify-Webhook-Id.
//
// https://shopify.dev/docs/apps/build/webhooks/ignore-duplicates
func ShopifyEvents(secrets ...string) producer.Producer { return shopifyEvents.with(secrets) }

var shopifyEvents = Preset{
	Name: "shopify-events", Docs: "https://shopify.dev/docs/apps/build/webhooks/ignore-duplicates",
	Auth: "HMAC-SHA256 of the body", ID: "Shopify-Webhook-Id", Deadline: "5s", Wants: "200; 4h",
	Uses: []string{"secret"}, fields: []string{"Shopify-*"},
	build: func(p *producer.Producer, s Settings) {
		buildShopify(p, s, "Shopify-")
		p.Key = producer.Header("Shopify-Webhook-Id")
	},
}

// shopifyTopic is the form of all topics, such as orders/create.
var shopifyTopic = regexp.MustCompile(`^[a-z0-9_]+/[a-z0-9_]+$`)

func buildShopify(p *producer.Producer, s Settings, prefix string) {
	signedByHMAC(p, &verify.HMAC{Headers: []string{prefix + "Hmac-Sha256"}, Encoding: verify.Base64}, s.Secrets)
	p.Key = producer.First(producer.Header(prefix+"Event-Id"), producer.Header(prefix+"Webhook-Id"))
	p.Type = producer.Header(prefix + "Topic")
	p.EventTime = producer.JSON("updated_at")
	p.KeyedByType = shopifyTopic
	shopRedact := []string{"shop_id", "shop_domain", "!customer", "!data_request", "!id"}
	p.Repeatable = producer.Shapes(16, shopRedact)
	p.Attributes = attributes(map[string]producer.Extractor{"shop": producer.Header(prefix + "Shop-Domain")})
	p.Window = 28 * time.Hour
}
