package preset

import (
	"regexp"

	"github.com/eyelet-dev/eyelet/producer"
	"github.com/eyelet-dev/eyelet/verify"
)

// WooCommerce receives webhooks of a WooCommerce shop. A secret is the webhook's secret. The event
// type is the topic ("order.created", "action.woocommerce_add_to_cart"). The unsigned ping of a new
// webhook, a form with webhook_id, gets the 200 that WooCommerce wants.
//
// Only the body is signed. X-WC-Webhook-Delivery-ID is made from the webhook and the second, so two
// events can share it, and the bodies of two topics are often equal, because a body is made when it
// is sent. A digest of the body, with the topic, identifies the event: each topic with a handler of
// its own gets a body once, and handlers of several topics get it for at most 9. The same body of
// a topic under another identifier is quarantined, except those of deletions and of actions, which
// have no time: up to 16.
//
// WooCommerce tries once, waits a minute, and disables a webhook after more than 5 failures in a
// row: a refused event is lost.
//
// Sources, read in November 2026: class-wc-webhook.php of WooCommerce 11.2.
//
// https://woocommerce.com/document/webhooks/
func WooCommerce(secrets ...string) producer.Producer { return wooCommerce.with(secrets) }

// wooTopic is the form of all topics: a resource and what happened to it.
var wooTopic = regexp.MustCompile(`^[a-z0-9_]+\.[a-z0-9_]+$`)

var wooCommerce = Preset{
	Name: "woocommerce", Docs: "https://woocommerce.com/document/webhooks/",
	Auth: "HMAC-SHA256 of the body", ID: "X-WC-Webhook-Delivery-ID", Deadline: "60s", Wants: "2xx; tries once",
	Uses: []string{"secret"}, fields: []string{"X-WC-Webhook-*"},
	key: producer.Header("X-WC-Webhook-Delivery-ID"), kind: producer.Header("X-WC-Webhook-Topic"), window: 2 * day,
	pings: []string{"form:webhook_id"},
	hmac:  &verify.HMAC{Headers: []string{"X-WC-Webhook-Signature"}, Encoding: verify.Base64},
	build: func(p *producer.Producer, _ Settings) {
		p.KeyedByType = wooTopic
		p.Repeatable = producer.Shapes(16, []string{"id", "!date_created"}, []string{"action", "arg"})
	},
}
