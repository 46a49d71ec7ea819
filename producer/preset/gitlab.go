package preset

import (
	"cmp"

	"github.com/eyelet-dev/eyelet/producer"
	"github.com/eyelet-dev/eyelet/verify"
)

// GitLab receives webhooks of GitLab. A token is the webhook's secret token. It is sent as it
// is and authenticates the sender but not the body, so accept it over TLS only.
//
// The identifier is the field Idempotency-Key, equal on every attempt. Older versions send
// none, and a digest of the body identifies the event. (X-Gitlab-Event-UUID is not an
// identifier: webhooks that trigger each other share it.) That GitLab waits 10 seconds, sends
// up to 25 MB, and disables a webhook that keeps failing is general knowledge.
//
// https://docs.gitlab.com/user/project/integrations/webhooks/
func GitLab(tokens ...string) producer.Producer { return gitLab.producer(Settings{Secrets: tokens}) }

var gitLab = Preset{
	Name: "gitlab", Docs: "https://docs.gitlab.com/user/project/integrations/webhooks/",
	Auth: "token in X-Gitlab-Token", ID: "Idempotency-Key", Deadline: "10s", Wants: "2xx",
	Uses:   []string{"secrets", "header", "value"},
	fields: []string{"X-Gitlab-Event", "X-Gitlab-Event-UUID", "X-Gitlab-Webhook-UUID", "X-Gitlab-Instance"},
	key:    producer.IdempotencyKey{}, kind: producer.Header("X-Gitlab-Event"), window: 2 * day,
	build: func(p *producer.Producer, s Settings) {
		withCredential(p, verify.HeaderValue(cmp.Or(s.Header, "X-Gitlab-Token"), s.secretsAnd(s.Value)...))
		p.MaxBody = 25 << 20
	},
}
