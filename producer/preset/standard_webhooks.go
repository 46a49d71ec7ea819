package preset

import (
	"crypto/ed25519"
	"encoding/base64"
	"errors"
	"strings"

	"github.com/eyelet-dev/eyelet/producer"
	"github.com/eyelet-dev/eyelet/verify"
)

// buildStandard sets the scheme of Standard Webhooks 1.0.0, in fields with one of the prefixes.
func buildStandard(p *producer.Producer, s Settings, prefixes ...string) {
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
	p.Key = ids
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
