package producer

import (
	"slices"
	"strings"

	"github.com/eyelet-dev/eyelet/verify"
)

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

// OwnFields lists the header fields that an intermediary sends on with an event, beside those that the signature covers and
// those that describe the content: Fields, those that hold the signature of an HMAC scheme and what goes with it, and those in
// which the identifier, the type and what Reads names are found. A name that ends with a star is the beginning of several.
func (p *Producer) OwnFields() []string {
	fields := slices.Concat(p.Fields, p.consumed())
	mapScheme(p.Scheme, func(s verify.Scheme) verify.Scheme {
		if h, ok := s.(*verify.HMAC); ok {
			fields = slices.Concat(fields, h.Headers, h.TimestampHeaders, h.IDHeaders)
		}
		return s
	})
	return slices.DeleteFunc(fields, func(name string) bool { return strings.HasPrefix(name, "@") })
}
