package preset

import (
	"crypto/ed25519"
	"encoding/base64"
	"errors"
	"strings"
	"time"

	"github.com/eyelet-dev/eyelet/producer"
	"github.com/eyelet-dev/eyelet/verify"
)

// StandardWebhooks receives from any sender that follows Standard Webhooks 1.0.0. A secret is
// "whsec_" and base64 for HMAC-SHA256 (prefix and padding are optional), or "whpk_" and base64
// for the public key of Ed25519 signatures (v1a). Identifier, time and body are signed. An
// identifier with a full stop, which would make that ambiguous, is refused.
//
// The window is the example of the specification, 75 hours and 35 minutes of attempts, and a day.
//
// https://github.com/standard-webhooks/standard-webhooks/blob/main/spec/standard-webhooks.md
func StandardWebhooks(secrets ...string) producer.Producer { return standardWebhooks.with(secrets) }

var standardWebhooks = Preset{
	Name: "standard-webhooks", Docs: "https://www.standardwebhooks.com/",
	Auth: "HMAC-SHA256 or Ed25519 of id, time and body", ID: "webhook-id",
	Deadline: "15-30s", Wants: "2xx; about 76h",
	Uses: []string{"secret"}, fields: []string{"Webhook-*"},
	build: func(p *producer.Producer, s Settings) { buildStandard(p, s, 100*time.Hour, "webhook") },
}

// Svix receives webhooks sent through Svix: Standard Webhooks in svix-* fields, or webhook-* if
// the sender removed the brand. Svix tries 8 times in 27.6 hours.
//
// https://docs.svix.com/receiving/verifying-payloads/how-manual
func Svix(secrets ...string) producer.Producer { return svix.with(secrets) }

var svix = Preset{
	Name: "svix", Docs: "https://docs.svix.com/receiving/verifying-payloads/how-manual",
	Auth: "HMAC-SHA256 or Ed25519 of id, time and body", ID: "svix-id or webhook-id",
	Deadline: "15-30s", Wants: "2xx; about 28h",
	Uses: []string{"secret"}, fields: []string{"Svix-*", "Webhook-*"},
	build: func(p *producer.Producer, s Settings) { buildStandard(p, s, 52*time.Hour, "svix", "webhook") },
}

// sentBy returns the preset for another sender that follows its scheme, with the sender's name and
// documentation.
func (p Preset) sentBy(name, docs string) Preset {
	p.Name, p.Docs, p.Auth = name, docs, "that of "+p.Name
	return p
}

// Clerk receives webhooks of Clerk, which sends them through Svix: see [Svix]. A secret is the
// endpoint's signing secret ("whsec_" and base64).
//
// Sources, read in November 2026: Clerk's overview of webhooks and @clerk/backend 2.29.
//
// https://clerk.com/docs/guides/development/webhooks/overview
func Clerk(secrets ...string) producer.Producer { return clerk.with(secrets) }

var clerk = svix.sentBy("clerk", "https://clerk.com/docs/guides/development/webhooks/overview")

// OpenAI receives webhooks of an OpenAI project, which follow Standard Webhooks: see
// [StandardWebhooks]. A secret is the endpoint's signing secret ("whsec_" and base64). OpenAI wants
// 2xx, takes a redirect for a failure, and tries for 72 hours with one webhook-id.
//
// Sources, read in November 2026: OpenAI's guide to webhooks.
//
// https://developers.openai.com/api/docs/guides/webhooks
func OpenAI(secrets ...string) producer.Producer { return openAI.with(secrets) }

var openAI = Preset{
	Name: "openai", Docs: "https://developers.openai.com/api/docs/guides/webhooks",
	Auth: "HMAC-SHA256 of id, time and body", ID: "webhook-id", Deadline: "a few s", Wants: "2xx; 72h",
	Uses: []string{"secret"}, fields: []string{"Webhook-*"},
	build: func(p *producer.Producer, s Settings) { buildStandard(p, s, 96*time.Hour, "webhook") },
}

// Resend receives webhooks of Resend, which sends them through Svix: see [Svix]. A secret is the
// endpoint's signing secret ("whsec_" and base64). Resend documents the schedule of Svix.
//
// Sources, read in November 2026: Resend's page on retries and replays.
//
// https://resend.com/docs/webhooks/retries-and-replays
func Resend(secrets ...string) producer.Producer { return resend.with(secrets) }

var resend = svix.sentBy("resend", "https://resend.com/docs/webhooks/introduction")

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
func GitLabSigned(tokens ...string) producer.Producer { return gitLabSigned.with(tokens) }

var gitLabSigned = Preset{
	Name: "gitlab-signed", Docs: "https://docs.gitlab.com/user/project/integrations/webhooks/",
	Auth: "HMAC-SHA256 of id, time and body", ID: "webhook-id", Deadline: "10s", Wants: "2xx",
	Uses:   []string{"secret"},
	fields: append([]string{"Webhook-*"}, gitLab.fields...),
	build: func(p *producer.Producer, s Settings) {
		buildStandard(p, s, 2*day, "webhook")
		p.Type = producer.First(producer.JSON("object_kind"), producer.JSON("event_name"))
		p.SecretHeaders = []string{"X-Gitlab-Token"}
		p.MaxBody = 25 << 20
	},
}

func buildStandard(p *producer.Producer, s Settings, window time.Duration, prefixes ...string) {
	scheme := &verify.HMAC{
		Separator: " ", Entries: []string{"v1,{sig}", "v1a,{ed25519}"}, Encoding: verify.Base64,
		SecretEncoding: verify.Whsec, Content: "{id}.{timestamp}.{body}",
	}
	var ids coveredHeader
	for _, prefix := range prefixes {
		scheme.Headers = append(scheme.Headers, prefix+"-signature")
		scheme.IDHeaders = append(scheme.IDHeaders, prefix+"-id")
		scheme.TimestampHeaders = append(scheme.TimestampHeaders, prefix+"-timestamp")
		ids = append(ids, prefix+"-id")
	}
	for _, s := range s.Secrets {
		text, public := strings.CutPrefix(s, "whpk_")
		if !public {
			scheme.Secrets = append(scheme.Secrets, verify.Secret(s))
			continue
		}
		key, err := base64.RawStdEncoding.Strict().DecodeString(strings.TrimRight(text, "="))
		if err != nil {
			p.Err = errors.Join(p.Err, errors.New("a whpk_ key is not base64"))
			continue
		}
		scheme.PublicKeys = append(scheme.PublicKeys, ed25519.PublicKey(key))
	}
	if p.Err != nil {
		return
	}
	signedBy(p, scheme)
	p.Tolerance = fiveMinutes
	p.Key, p.KeyRequired = ids, true
	p.Type = producer.JSON("type")
	p.Fingerprint = producer.FingerprintNone
	p.Window = window
}

// coveredHeader reads the one of several fields that the signature covers, so that adding
// another has no effect.
type coveredHeader []string

func (c coveredHeader) Extract(d *producer.Delivery) (string, error) {
	for _, name := range c {
		if d.Identity.Covers(name) {
			return producer.Header(name).Extract(d)
		}
	}
	return "", nil
}

// Consumes lists nothing: only a covered field is read.
func (c coveredHeader) Consumes() []string { return nil }
func (c coveredHeader) String() string     { return "header:" + strings.Join(c, " | header:") }
