package preset

import (
	"time"

	"github.com/eyelet-dev/eyelet/producer"
)

// OpenAI receives webhooks of an OpenAI project, which follow Standard Webhooks: see
// [StandardWebhooks]. A secret is the endpoint's signing secret ("whsec_" and base64). OpenAI wants
// 2xx, takes a redirect for a failure, and tries for 72 hours with one webhook-id.
//
// Sources, read in November 2026: OpenAI's guide to webhooks.
//
// https://developers.openai.com/api/docs/guides/webhooks
func OpenAI(secrets ...string) producer.Producer { return openAI.producer(Settings{Secrets: secrets}) }

var openAI = Preset{
	Name: "openai", Docs: "https://developers.openai.com/api/docs/guides/webhooks",
	Auth: "HMAC-SHA256 of id, time and body", ID: "webhook-id", Deadline: "a few s", Wants: "2xx; 72h",
	Uses: []string{"secrets"}, fields: []string{"Webhook-*"},
	build: func(p *producer.Producer, s Settings) { buildStandard(p, s, 96*time.Hour, "webhook") },
}
