// Package preset has a function for each vendor, such as [GitHub], which returns the vendor's [producer.Producer], and the table of
// them, [All].
package preset

import (
	"slices"
	"strings"

	"github.com/eyelet-dev/eyelet/producer"
	"github.com/eyelet-dev/eyelet/verify"
)

// Presets returns the vendors that the package knows, in the order of their names. The table is what
// `eyelet producers` prints and where the configuration finds `preset: NAME`: name, authentication, identifier,
// deadline, answer and horizon, settings, constructor.
func All() []Preset {
	all := append(secretPresets(), tokenPresets()...)
	slices.SortFunc(all, func(a, b Preset) int { return strings.Compare(a.Name, b.Name) })
	return all
}

// secretPresets are the presets with shared secrets.
func secretPresets() []Preset {
	secrets := []string{"secrets"}
	credential := []string{"username", "password", "header", "query", "value", "bearer", "secrets"}
	list := func(f func(...string) producer.Producer) func(Settings) producer.Producer {
		return func(s Settings) producer.Producer { return f(s.Secrets...) }
	}
	return []Preset{
		{"adyen", "HMAC-SHA256 of 8 members of each item", "pspReference:eventCode:success", "10 s", "2xx or [accepted]; 30 days",
			[]string{"secrets", "username", "password"}, adyenFrom},
		{"adyen-platform", "HMAC-SHA256 of the body", "digest of the body", "10 s", "2xx or [accepted]; 30 days", secrets, list(AdyenPlatform)},
		{"aws-eventbridge", "API key, basic or bearer", "body id", "5 s", "2xx; 24 h", credential,
			func(s Settings) producer.Producer { return EventBridge(s.credential()) }},
		{"chargebee", "basic, or a key in the URL", "body id", "", "2xx; 3.3 days", credential,
			func(s Settings) producer.Producer { return Chargebee(s.credential()) }},
		{"datatrans", "HMAC-SHA256 of time and body", "digest of the body", "", "2xx (assumed)", secrets, list(Datatrans)},
		{"dwolla", "HMAC-SHA256 of the body", "body id", "10 s", "2xx; 72 h", secrets, list(Dwolla)},
		{"github", "HMAC-SHA256 of the body", "X-GitHub-Delivery", "10 s", "2xx; tries once", []string{"secrets", "allow_sha1", "algs"}, gitHub},
		{"gitlab", "token in X-Gitlab-Token", "Idempotency-Key", "10 s", "2xx", []string{"secrets", "header", "value"}, gitLabFrom},
		{"interledger-rafiki", "HMAC-SHA256 of time and canonical JSON", "body id", "", "200 only; without end", secrets, list(Rafiki)},
		{"meta", "HMAC-SHA256 of the body", "digest of the body", "", "200; 36 h", []string{"secrets", "verify_token", "allow_sha1", "algs"}, meta},
		{"razorpay", "HMAC-SHA256 of the body", "x-razorpay-event-id", "5 s", "2xx; 24 h", secrets, list(Razorpay)},
		{"shopify", "HMAC-SHA256 of the body", "X-Shopify-Event-Id", "5 s", "200; 4 h", secrets, list(Shopify)},
		{"shopify-events", "HMAC-SHA256 of the body", "Shopify-Webhook-Id", "5 s", "200; 4 h", secrets, list(ShopifyEvents)},
		{"slack", "HMAC-SHA256 of time and body", "body event_id", "3 s", "2xx; 6 min", secrets, list(Slack)},
		{"square", "HMAC-SHA256 of URL and body", "body event_id", "10 s", "2xx; 24 h", []string{"secrets", "notification_url"},
			func(s Settings) producer.Producer { return Square(s.NotificationURL, s.Secrets...) }},
		{"standard-webhooks", "HMAC-SHA256 or Ed25519 of id, time and body", "webhook-id", "15-30 s", "2xx; about 76 h", secrets, list(StandardWebhooks)},
		{"stripe", "HMAC-SHA256 of time and body", "body id", "", "2xx; 3 days", secrets, list(Stripe)},
		{"svix", "HMAC-SHA256 or Ed25519 of id, time and body", "svix-id or webhook-id", "15-30 s", "2xx; about 28 h", secrets, list(Svix)},
		{"twilio", "HMAC-SHA1 of URL and form", "I-Twilio-Idempotency-Token", "15 s", "2xx, the body counts; 1 retry", secrets, list(Twilio)},
		{"webengage", "MD5 in the query", "x-request-id", "", "200 only", []string{"license_code", "secret_key"},
			func(s Settings) producer.Producer { return WebEngage(s.LicenseCode, s.SecretKey) }},
		{"websub", "HMAC of the body", "digest of the body", "", "2xx; up to the hub", []string{"secrets", "subscriptions", "algs"}, webSubFrom},
		{"worldpay", "HMAC-SHA256 of the body", "body eventId", "10 s", "200 only; 7 days", []string{"keys", "encoding"}, worldpayFrom},
		{"yookassa", "none: addresses only", "event and object id", "", "200; 24 h", nil,
			func(s Settings) producer.Producer { return YooKassa(s.AllowedIPs...) }},
		{"zoom", "HMAC-SHA256 of time and body", "digest of the body", "3 s", "200 or 204", secrets, list(Zoom)},
	}
}

func adyenFrom(s Settings) producer.Producer {
	p := Adyen(s.Secrets...)
	if s.Username == "" && s.Password == "" {
		return p
	}
	signature := p.Scheme
	basic := withCredential(p, verify.Basic(s.Username, s.Password))
	basic.Scheme = verify.All{basic.Scheme, signature}
	return basic
}

func gitLabFrom(s Settings) producer.Producer {
	if s.Header != "" {
		return gitLab(s.Header, s.values())
	}
	return GitLab(s.values()...)
}

func worldpayFrom(s Settings) producer.Producer {
	if s.Encoding != "" {
		return worldpay(s.Keys, verify.Encoding(s.Encoding))
	}
	return Worldpay(s.Keys)
}

// webSubFrom gives subscriptions without a secret of their own the common ones. Without a subscription the common
// ones are good for any topic, and no challenge is answered.
func webSubFrom(s Settings) producer.Producer {
	var subscriptions []Subscription
	for _, one := range s.Subscriptions {
		if one.Secret != "" || len(s.Secrets) == 0 {
			subscriptions = append(subscriptions, one)
			continue
		}
		for _, secret := range s.Secrets {
			one.Secret = secret
			subscriptions = append(subscriptions, one)
		}
	}
	s.Subscriptions = subscriptions
	if len(subscriptions) > 0 {
		s.Secrets = nil
	}
	return webSub(s)
}

// vendorFields are the header fields of each preset's vendor, for [Producer.Fields]: names, or what several begin with,
// followed by a star. Fields that a scheme of package verify names are not repeated, and none holds a credential.
var vendorFields = map[string][]string{
	"aws-sns":           {"X-Amz-Sns-*"},
	"azure-event-grid":  {"Aeg-Event-Type", "Aeg-Subscription-Name", "Aeg-Delivery-Count", "Aeg-Data-Version", "Aeg-Metadata-Version"},
	"dwolla":            {"X-Dwolla-*"},
	"github":            {"X-GitHub-*", "X-Hub-Signature"},
	"gitlab":            {"X-Gitlab-Event", "X-Gitlab-Event-UUID", "X-Gitlab-Webhook-UUID", "X-Gitlab-Instance"},
	"google-pubsub":     {"X-Goog-Pubsub-*"},
	"openbanking-uk":    {"X-Jws-Signature", "X-Fapi-*"},
	"paypal":            {"Paypal-*"},
	"razorpay":          {"X-Razorpay-*"},
	"shopify":           {"X-Shopify-*"},
	"shopify-events":    {"Shopify-*"},
	"slack":             {"X-Slack-*"},
	"square":            {"Square-*", "X-Square-*"},
	"standard-webhooks": {"Webhook-*"},
	"svix":              {"Svix-*", "Webhook-*"},
	"twilio":            {"X-Twilio-*", "I-Twilio-*"},
	"websub":            {"Link", "X-Hub-Signature"},
	"zoom":              {"X-Zm-*"},
}
