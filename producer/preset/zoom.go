package preset

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"net/http"
	"time"

	"github.com/eyelet-dev/eyelet/dedup"
	"github.com/eyelet-dev/eyelet/producer"
	"github.com/eyelet-dev/eyelet/verify"
)

// Zoom receives webhooks of Zoom. A secret is the app's secret token. The signed challenge by which Zoom checks
// an address, again every 72 hours (endpoint.url_validation), is answered where its plainToken is 1 to 256 letters,
// digits, "-" and "_".
//
// Zoom gives events no id; a digest of the body names them. It wants 200 or 204 within 3 seconds. All of this is
// from secondary sources; the tolerance of 5 minutes is ours, and that it tries 3 times is general knowledge.
//
// https://developers.zoom.us/docs/api/webhooks/
func Zoom(secrets ...string) producer.Producer {
	p := webhook("zoom", "https://developers.zoom.us/docs/api/webhooks/")
	list, err := plainSecrets(secrets)
	p = signedBy(p, zoomScheme(list...))
	p.Err = errors.Join(err, p.Err)
	p.Tolerance = verify.Tolerance{Past: 5 * time.Minute, Future: 5 * time.Minute}
	p.Key = producer.BodyDigest()
	p.Type = producer.JSON("event")
	p.Handshake = func(_ context.Context, d *producer.Delivery) (*dedup.Response, error) { return zoomHandshake(d, list) }
	p.Window = 48 * time.Hour
	return p
}

func zoomScheme(secrets ...verify.Secret) *verify.HMAC {
	return &verify.HMAC{
		Headers: []string{"x-zm-signature"}, TimestampHeaders: []string{"x-zm-request-timestamp"},
		Entries: []string{"v0={sig}"}, Encoding: verify.Hex, Content: "v0:{timestamp}:{body}", Secrets: secrets,
	}
}

// isZoomToken reports whether a text is what is answered with its MAC: 1 to 256 letters, digits, "-" and "_". Under the
// same secret a webhook's signature is a MAC of "v0:TIME:BODY", which must never be made of a challenge.
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
	for _, s := range secrets { // the answer is made with the secret that the question was signed with
		if _, err := zoomScheme(s).Verify(d.Request, func() ([]byte, error) { return d.Body, nil }); err != nil {
			continue
		}
		mac := hmac.New(sha256.New, []byte(s))
		mac.Write([]byte(token))
		body, err := json.Marshal(map[string]string{"plainToken": token, "encryptedToken": hex.EncodeToString(mac.Sum(nil))})
		return &dedup.Response{Status: http.StatusOK, Header: http.Header{"Content-Type": {"application/json"}}, Body: body}, err
	}
	return nil, &verify.Error{Code: verify.SignatureMismatch}
}
