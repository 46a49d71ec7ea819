package preset

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"

	"github.com/eyelet-dev/eyelet/dedup"
	"github.com/eyelet-dev/eyelet/producer"
	"github.com/eyelet-dev/eyelet/verify"
)

var zoom = Preset{
	Name: "zoom",
	build: func(p *producer.Producer, s Settings) {
		scheme := p.Scheme.(*verify.HMAC) //nolint:forcetypeassert // that of its row
		p.Handshake = func(_ context.Context, d *producer.Delivery) (*dedup.Response, error) {
			return zoomHandshake(d, scheme, verify.Secrets(s.Secrets...))
		}
	},
}

// isZoomToken reports whether a token may be answered with its MAC. The same secret signs
// "v0:TIME:BODY", so a token with a colon could obtain the signature of a forged webhook.
func isZoomToken(s string) bool {
	for i := range len(s) {
		switch c := s[i]; {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9', c == '-', c == '_':
		default:
			return false
		}
	}
	return s != "" && len(s) <= 256
}

func zoomHandshake(d *producer.Delivery, scheme *verify.HMAC, secrets []verify.Secret) (*dedup.Response, error) {
	if kind, err := producer.JSON("event").Extract(d); kind != "endpoint.url_validation" {
		return nil, err
	}
	token, err := producer.JSON("payload.plainToken").Extract(d)
	if err != nil {
		return nil, err
	}
	if !isZoomToken(token) {
		return nil, &verify.Error{Code: verify.EventMalformed, Component: "json:payload.plainToken"}
	}
	for _, s := range secrets { // answer with the secret that signed the challenge
		one := scheme.WithSecrets([]verify.Secret{s})
		if _, err := one.Verify(d.Request, func() ([]byte, error) { return d.Body, nil }); err != nil {
			continue
		}
		mac := hmac.New(sha256.New, []byte(s))
		mac.Write([]byte(token))
		encrypted := hex.EncodeToString(mac.Sum(nil))
		return jsonResponse(map[string]string{"plainToken": token, "encryptedToken": encrypted}), nil
	}
	return nil, &verify.Error{Code: verify.SignatureMismatch}
}
