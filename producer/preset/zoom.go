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

// Zoom receives webhooks of Zoom. A secret is the app's secret token. The signed challenge with
// which Zoom checks a URL every 72 hours (endpoint.url_validation) is answered if its
// plainToken is 1 to 256 letters, digits, "-" and "_".
//
// Zoom sends no id; a digest of the body identifies the event. It wants 200 or 204 within 3
// seconds. All of this is from secondary sources. The tolerance of 5 minutes is ours. That Zoom
// tries 3 times is general knowledge.
//
// https://developers.zoom.us/docs/api/webhooks/
func Zoom(secrets ...string) producer.Producer { return zoom.with(secrets) }

var zoom = Preset{
	Name: "zoom", Docs: "https://developers.zoom.us/docs/api/webhooks/", Auth: "HMAC-SHA256 of time and body",
	ID: "digest of the body", Deadline: "3s", Wants: "200 or 204", Uses: []string{"secret"},
	like: producer.Producer{
		Fields: []string{"X-Zm-*"}, Key: producer.BodyDigest(), Type: producer.JSON("event"), Tolerance: fiveMinutes,
		Window: 2 * day,
	},
	build: func(p *producer.Producer, s Settings) {
		signedByHMAC(p, zoomScheme(), s.Secrets)
		p.Handshake = func(_ context.Context, d *producer.Delivery) (*dedup.Response, error) {
			return zoomHandshake(d, verify.Secrets(s.Secrets...))
		}
	},
}

func zoomScheme(secrets ...verify.Secret) *verify.HMAC {
	return &verify.HMAC{
		Headers: []string{"x-zm-signature"}, TimestampHeaders: []string{"x-zm-request-timestamp"},
		Entries: []string{"v0={sig}"}, Encoding: verify.Hex, Content: "v0:{timestamp}:{body}", Secrets: secrets,
	}
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

func zoomHandshake(d *producer.Delivery, secrets []verify.Secret) (*dedup.Response, error) {
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
		if _, err := zoomScheme(s).Verify(d.Request, func() ([]byte, error) { return d.Body, nil }); err != nil {
			continue
		}
		mac := hmac.New(sha256.New, []byte(s))
		mac.Write([]byte(token))
		encrypted := hex.EncodeToString(mac.Sum(nil))
		return jsonResponse(map[string]string{"plainToken": token, "encryptedToken": encrypted}), nil
	}
	return nil, &verify.Error{Code: verify.SignatureMismatch}
}
