package producer

import (
	"slices"
	"strings"
)

// Presets returns the vendors that the package knows, in the order of their names. The table is what
// `eyelet producers` prints and where the configuration finds `preset: NAME`.
func Presets() []Preset {
	all := append(secretPresets(), tokenPresets()...)
	slices.SortFunc(all, func(a, b Preset) int { return strings.Compare(a.Name, b.Name) })
	return all
}

// secretPresets are the presets with shared secrets.
func secretPresets() []Preset {
	secrets := []string{"secrets"}
	return []Preset{
		{"github", "HMAC-SHA256 of the body", "X-GitHub-Delivery", "10 s", "2xx; tries once", []string{"secrets", "allow_sha1"},
			func(s Settings) Producer { return gitHub(s.AllowSHA1, s.Secrets) }},
		{"standard-webhooks", "HMAC-SHA256 or Ed25519 of id, time and body", "webhook-id", "15-30 s", "2xx; about 76 h", secrets,
			func(s Settings) Producer { return StandardWebhooks(s.Secrets...) }},
		{"stripe", "HMAC-SHA256 of time and body", "body id", "", "2xx; 3 days", secrets,
			func(s Settings) Producer { return Stripe(s.Secrets...) }},
		{"svix", "HMAC-SHA256 or Ed25519 of id, time and body", "svix-id or webhook-id", "15-30 s", "2xx; about 28 h", secrets,
			func(s Settings) Producer { return Svix(s.Secrets...) }},
	}
}

// Subscription is a WebSub topic that is wanted.
type Subscription struct {
	// Topic is the address of the feed, as the hub names it.
	Topic string `conf:"topic"`
	// Mode is what was asked of the hub: "subscribe" or "unsubscribe". Defaults to subscribe.
	Mode string `conf:"mode"`
	// Secret is the hub.secret of the subscription.
	Secret string `conf:"secret"`
}
