package preset

import (
	"errors"
	"time"

	"github.com/eyelet-dev/eyelet/producer"
	"github.com/eyelet-dev/eyelet/verify"
)

// GitLab receives webhooks of GitLab. A token is the webhook's secret token, which is sent as it is: it proves the
// sender and nothing about the body, so let it travel over TLS only.
//
// The identifier is the Idempotency-Key field, the same on every attempt. Older versions send none, and a digest
// of the body stands in (X-Gitlab-Event-UUID is no identifier: webhooks that cause each other share it). That
// GitLab waits 10 seconds, sends up to 25 MB, and switches a webhook off that keeps failing is general knowledge.
//
// https://docs.gitlab.com/user/project/integrations/webhooks/
func GitLab(tokens ...string) producer.Producer { return gitLab("X-Gitlab-Token", tokens) }

func gitLab(header string, tokens []string) producer.Producer {
	p := webhook("gitlab", "https://docs.gitlab.com/user/project/integrations/webhooks/")
	p = withCredential(p, verify.HeaderValue(header, tokens...))
	p.Key = producer.IdempotencyKey{}
	p.Type = producer.Header("X-Gitlab-Event")
	p.MaxBody = 25 << 20
	p.Window = 48 * time.Hour
	return p
}

// withCredential sets a shared credential as the scheme, and keeps it out of logs and stores.
func withCredential(p producer.Producer, c *verify.Static) producer.Producer {
	if c == nil {
		p.Err = errors.Join(p.Err, errors.New("a credential must be set: one of user and password, header, query or bearer"))
		return p
	}
	switch c.In {
	case verify.InHeader:
		p.SecretHeaders = []string{c.Name}
	case verify.InQuery:
		p.SecretQuery = []string{c.Name}
	case verify.InBearer:
		if c.Name != "" {
			p.SecretQuery = []string{c.Name}
		}
	}
	return signedBy(p, c)
}
