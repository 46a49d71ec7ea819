package preset

import (
	"crypto/rand"
	"encoding/base64"
	"net/http"
	"time"

	"github.com/eyelet-dev/eyelet/internal/strictjson"
	"github.com/eyelet-dev/eyelet/producer"
	"github.com/eyelet-dev/eyelet/verify"
)

// adCP receives webhooks of a seller that follows the Ad Context Protocol 3.x, signed by RFC 9421
// under the profile adcp/webhook-signing/v1; jwksURL is the jwks_uri of the selling agent in its
// brand.json. One preset is one seller.
//
// Signatures are in base64url, valid for at most 5 minutes and a minute for the clocks, over a path
// in normal form, and carry a nonce of at least 16 bytes, in base64url without padding, that no
// other event may have. A key counts only if its purpose is request-signing or, as
// before, webhook-signing, and if it is not on the list at the setting revoked_url. With 100,000
// nonces of one key in 6 minutes, further deliveries get 429.
//
// The identifier is "idempotency_key", and retries may write the same JSON in another way. Sellers
// retry for 1 to 7 days, as they advertise.
//
// Read in November 2026, as of 22 August: docs/building/by-layer/L1/security.mdx and
// L3/webhooks.mdx of github.com/adcontextprotocol/adcp.
//
// https://adcontextprotocol.org/docs/building/by-layer/L1/security#webhook-callbacks
var adCP = Preset{
	Name: "adcp", Docs: "https://adcontextprotocol.org/docs/building/by-layer/L1/security", Auth: "RFC 9421",
	ID: "body idempotency_key", Wants: "2xx; 1 to 7 days", Uses: []string{"jwks_url", "revoked_url"},
	like: producer.Producer{
		Summary: []string{"{json:status}"},
		Key:     producer.JSON("idempotency_key"),
		Type:    producer.First(producer.JSON("notification_type"), producer.JSON("event"), producer.JSON("task_type")),
		Fingerprint: func(d *producer.Delivery, it producer.Item) [32]byte {
			if canonical, err := strictjson.Canonical(it.Body); err == nil {
				it.Body = canonical
			}
			return producer.FingerprintBody(d, it)
		},
		Tolerance: verify.Tolerance{Past: 6 * time.Minute, Future: time.Minute, End: time.Minute}, Window: 8 * day,
	},
	build: func(p *producer.Producer, s Settings) {
		p.Admit = adCPNonce
		p.Nonce, p.NonceRate = producer.NonceUnique, producer.Rate{Events: 100_000, Per: 6 * time.Minute}
		signedByMessages(p, s, &verify.RFC9421{
			Label: "sig1", Tag: "adcp/webhook-signing/v1", Algs: []verify.Alg{verify.Ed25519, verify.ECDSAP256SHA256},
			Coverage: verify.Coverage{Required: adCPComponents}, Encoding: verify.Base64URL,
			MaxAge: 5 * time.Minute, Params: []string{"alg", "expires", "nonce"}, NormalPath: true,
		}, verify.JWKSConfig{Revoked: s.RevokedURL, Purposes: map[string][]string{
			"use": {"sig"}, "key_ops": {"verify"}, "adcp_use": {"request-signing", "webhook-signing"},
		}})
	},
	signWith: signAdCP,
}

var adCPComponents = []string{"@method", "@target-uri", "@authority", "content-type", "content-digest"}

// adCPNonce refuses a nonce that may be guessed.
func adCPNonce(d *producer.Delivery) error {
	nonce, err := base64.RawURLEncoding.Strict().DecodeString(d.Identity.Nonce)
	if err != nil || len(nonce) < 16 {
		why := verify.Public("it is not base64url of at least 16 bytes, without padding")
		return &verify.Error{Code: verify.SignatureMalformed, KeyID: d.Identity.KeyID, Component: "nonce", Err: why}
	}
	return nil
}

// signAdCP signs over the path as the request has it, which has no encoded characters.
func signAdCP(s Settings, r *http.Request, body []byte, now time.Time) ([]byte, error) {
	nonce := make([]byte, 16)
	rand.Read(nonce) //nolint:errcheck // never fails
	return signsMessages(verify.Signer{
		NameAlg: true, Components: adCPComponents, Expires: 5 * time.Minute,
		Nonce: base64.RawURLEncoding.EncodeToString(nonce),
	})(s, r, body, now)
}
