package producer_test

import (
	"net/netip"
	"strings"
	"time"

	"github.com/eyelet-dev/eyelet/producer/preset"
)

const (
	testHex    = "DFB1EB5485895CFA84146406857104ABB4CBCABDC8AAF103A624C8F6A3EAAB00"
	testWhsec  = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
	testSecret = "the-kettle-is-on-17"
	testToken  = "callback-token-17"
	testHook   = "https://hooks.example/webhooks/in"
)

var testNow = time.Unix(1_790_000_000, 0)

// presetSettings open each preset with shared secrets. The last of each list is another secret,
// for rotation.
func presetSettings() map[string]preset.Settings {
	plain := preset.Settings{Secrets: []string{testSecret, "second-" + testSecret}}
	hexed := preset.Settings{Secrets: []string{testHex, strings.Repeat("0b", 32)}}
	standard := preset.Settings{Secrets: []string{testWhsec, "whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD"}}
	return map[string]preset.Settings{
		"adyen": hexed, "adyen-platform": hexed, "datatrans": hexed,
		"aws-eventbridge":  {Header: "X-Api-Key", Value: testSecret},
		"chargebee":        {Username: "kettle", Password: testSecret},
		"azure-event-grid": {Query: "code", Value: testSecret}, "cloudevents": {Bearer: testSecret},
		"dwolla": plain, "github": plain, "gitlab": plain, "interledger-rafiki": plain, "razorpay": plain,
		"docusign": plain,
		"calendly": plain, "intercom": plain, "line": plain, "linear": plain, "okta": plain, "paddle": plain,
		"mailgun": plain, "mcp-events": {Keys: map[string]string{"sub_17": testWhsec}}, "twitch": plain,
		"zendesk": plain, "twilio-event-streams": plain, "hubspot": plain,
		"swt":      {Secrets: plain.Secrets, Issuers: []string{"https://shop.example"}},
		"telegram": plain, "typeform": plain, "workos": plain, "gitlab-signed": standard,
		"shopify":        plain,
		"shopify-events": plain, "slack": plain, "twilio": plain, "zoom": plain, "stripe": plain,
		"meta":     {Secrets: plain.Secrets, VerifyToken: "meta-" + testSecret},
		"square":   {Secrets: plain.Secrets, NotificationURL: testHook},
		"trello":   {Secrets: plain.Secrets, NotificationURL: testHook},
		"mandrill": {Secrets: plain.Secrets, NotificationURL: testHook},
		"postmark": {Username: "kettle", Password: testSecret}, "deepgram": {Username: "kettle", Password: testSecret},
		"strava": {Query: "key", Value: testSecret, VerifyToken: "strava-" + testSecret},
		"graph":  {Secrets: plain.Secrets}, "lark": {Secrets: plain.Secrets, VerifyToken: "lark-" + testSecret},
		"standard-webhooks": standard, "svix": standard,
		"vercel": plain, "webflow": plain, "elevenlabs": plain, "bitbucket": plain, "woocommerce": plain, "xero": plain,
		"clerk": standard, "resend": standard, "openai": standard,
		"webengage": {LicenseCode: "~17", SecretKey: testSecret},
		"websub": {Subscriptions: []preset.Subscription{{Topic: "https://blog.example/feed", Secret: testSecret,
			Token: testToken}}},
		"worldpay": {Keys: map[string]string{"1": testSecret, "2": "second-" + testSecret}},
		"xsolla":   {Keys: map[string]string{"acc_123": testSecret, "acc_124": "second-" + testSecret}},
		"yookassa": {AllowedIPs: []netip.Prefix{netip.MustParsePrefix("192.0.2.0/24")}},
	}
}
