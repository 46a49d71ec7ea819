package preset

import (
	"github.com/eyelet-dev/eyelet/producer"
)

// GitLabSigned receives webhooks of GitLab that have a signing token: Standard Webhooks, with
// the token ("whsec_" and base64) as the secret. [GitLab] is for webhooks that have a secret
// token only, which is sent as it is; this preset ignores that token.
//
// The identifier webhook-id equals Idempotency-Key. The event type is the signed object_kind
// ("push", "merge_request"), or event_name of system hooks; the field X-Gitlab-Event is not
// signed.
//
// Sources, read in November 2026: GitLab's merge requests 230944 and 231325 (April 2026). The
// limits are those of [GitLab].
//
// https://docs.gitlab.com/user/project/integrations/webhooks/
func GitLabSigned(tokens ...string) producer.Producer {
	return gitLabSigned.producer(Settings{Secrets: tokens})
}

var gitLabSigned = Preset{
	Name: "gitlab-signed", Docs: "https://docs.gitlab.com/user/project/integrations/webhooks/",
	Auth: "HMAC-SHA256 of id, time and body", ID: "webhook-id", Deadline: "10s", Wants: "2xx",
	Uses:   []string{"secrets"},
	fields: append([]string{"Webhook-*"}, gitLab.fields...),
	build: func(p *producer.Producer, s Settings) {
		buildStandard(p, s, 2*day, "webhook")
		p.Type = producer.First(producer.JSON("object_kind"), producer.JSON("event_name"))
		p.SecretHeaders = []string{"X-Gitlab-Token"}
		p.MaxBody = 25 << 20
	},
}
