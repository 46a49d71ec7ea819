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

// StandardWebhooks receives from any sender that follows Standard Webhooks 1.0.0. A secret is "whsec_" and
// base64 (the prefix and the padding may be missing) for HMAC-SHA256, or "whpk_" and base64 for the public key
// of Ed25519 signatures (v1a). Signed are identifier, time and body; identifiers with a full stop, which
// would make that ambiguous, are refused.
//
// The window is the example of the specification, 75 hours and 35 minutes of attempts, and a day.
//
// https://github.com/standard-webhooks/standard-webhooks/blob/main/spec/standard-webhooks.md
func StandardWebhooks(secrets ...string) producer.Producer {
	return standard("standard-webhooks", "https://www.standardwebhooks.com/", 100*time.Hour, secrets, "webhook")
}

// Svix receives webhooks sent through Svix: Standard Webhooks under svix-* fields, or webhook-* where the
// sender took the brand off. Svix tries 8 times in 27.6 hours.
//
// https://docs.svix.com/receiving/verifying-payloads/how-manual
func Svix(secrets ...string) producer.Producer {
	return standard("svix", "https://docs.svix.com/receiving/verifying-payloads/how-manual", 52*time.Hour, secrets, "svix", "webhook")
}

func standard(name, docs string, window time.Duration, secrets []string, prefixes ...string) producer.Producer {
	p := webhook(name, docs)
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
	for _, s := range secrets {
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
	p = signedBy(p, scheme)
	p.Tolerance = verify.Tolerance{Past: 5 * time.Minute, Future: 5 * time.Minute}
	p.Key, p.KeyRequired = ids, true
	p.Type = producer.JSON("type")
	p.Fingerprint = producer.FingerprintNone
	p.Window = window
	return p
}

// coveredHeader reads the one of several fields that the signature binds, so that nobody can add another.
type coveredHeader []string

func (c coveredHeader) Extract(d *producer.Delivery) (string, error) {
	for _, name := range c {
		if d.Identity.Covers(name) {
			return producer.Header(name).Extract(d)
		}
	}
	return "", nil
}

// Consumes lists nothing: what is read is covered, or else it is not read.
func (c coveredHeader) Consumes() []string { return nil }
func (c coveredHeader) String() string     { return "header:" + strings.Join(c, " | header:") }
