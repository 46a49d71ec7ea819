package explain_test

import (
	"net/http"
	"testing"
	"time"

	"github.com/eyelet-dev/eyelet/explain"
	"github.com/eyelet-dev/eyelet/producer"
	"github.com/eyelet-dev/eyelet/producer/preset"
	"github.com/eyelet-dev/eyelet/verify"
)

// pairPlants have two mistakes each.
func pairPlants(t *testing.T) []plant {
	gh := preset.GitHub("s3cr3t-s3cr3t-s3cr3t")
	id := map[string]string{"X-GitHub-Delivery": "1", "X-GitHub-Event": "push"}
	live := preset.Stripe("whsec_live_live_live", "whsec_older_older_older")
	addressed := custom(func(h *verify.HMAC) { h.Content = "{url}\n{body}" })
	addressed.Name = "x"
	const small = `{"id":"1","n":[1,2]}`
	k1 := newPair(t, "k1", verify.Ed25519)
	secret := secretPair(t, "h1", hexSecret)
	pair := func(name, scheme string, p producer.Producer, by any, want ...explain.Cause) plant {
		return plant{name: name, scheme: scheme, want: want, config: one(p), by: by, signed: small}
	}
	sent := func(p plant, body string) plant { p.sent = body; return p }
	late := func(p plant, d time.Duration) plant { p.late = d; return p }
	via := func(p plant, f ...func(*http.Request)) plant {
		p.after = func(r *http.Request) {
			for _, g := range f {
				g(r)
			}
		}
		return p
	}
	from := func(p plant, u string) plant { p.url = u; return via(p, called(at("/webhooks/"+p.config[0].Name))) }
	with := func(p plant, fields map[string]string) plant { p.fields = fields; return p }
	base64 := custom(func(h *verify.HMAC) { h.Encoding = verify.Base64 })
	hash := custom(func(h *verify.HMAC) { h.Hash = verify.SHA512 }).Scheme
	sha1 := custom(func(h *verify.HMAC) { h.Hash = verify.SHA1 }).Scheme
	hexed := custom(func(h *verify.HMAC) { h.SecretEncoding = verify.Hex }).Scheme
	tunnel := from(pair("the tunnel's host, and an indented body", "hmac of URL", addressed, nil, "url_host",
		"body_rewritten"),
		"https://tunnel.example/webhooks/x")
	tunnel = via(sent(tunnel, indented(small)), called(at("/webhooks/x")), set("X-Forwarded-Host", "tunnel.example"))
	renamedKey := func(s *verify.Signer, id string) *verify.Signer { c := *s; c.KeyID = id; return &c }
	newline := &verify.Signer{KeyID: "h1", Secret: []byte(hexSecret + "\n")}
	return []plant{
		sent(pair("http, and an indented body", "hmac of URL", addressed, nil, "url_scheme",
			"body_rewritten").at("http://hooks.example/webhooks/x"),
			indented(small)),
		tunnel,
		late(pair("a newline after the secret, and three days late", "stripe", live,
			stripeWith("whsec_live_live_live\n"),
			"secret_characters", "stale"), 3*24*time.Hour+7*time.Minute),
		sent(pair("a newline after the secret, and one after the body", "stripe", live,
			stripeWith("whsec_live_live_live\n"),
			"secret_characters", "body_newline"), small+"\n"),
		sent(pair("the older secret in quotes, and an indented body", "stripe", live,
			stripeWith(`"whsec_older_older_older"`),
			"secret_characters", "body_rewritten"), indented(small)),
		pair("SHA-512 in hex", "hmac", base64, hash, "hash", "encoding"),
		sent(pair("SHA-1, and a newline", "hmac", custom(nil), sha1, "hash", "body_newline"), small+"\n"),
		pair("the secret decoded from hex, and the signature in hex", "hmac", base64, hexed, "secret_encoding",
			"encoding"),
		sent(pair("the secret decoded from hex, and a newline", "hmac", custom(nil),
			custom(func(h *verify.HMAC) { h.SecretEncoding = verify.Hex }).Scheme, "secret_encoding", "body_newline"),
			small+"\n"),
		with(sent(pair("the secret in quotes, and a byte order mark", "github", gh, &verify.HMAC{
			Headers: []string{"X-Hub-Signature-256"}, Entries: []string{"sha256={sig}"}, Encoding: verify.Hex,
			Secrets: verify.Secrets(`"s3cr3t-s3cr3t-s3cr3t"`)}, "secret_characters", "body_bom"), "\ufeff"+small), id),
		with(from(pair("a known key under another id, and http", "rfc9421", shop(k1), renamedKey(k1.by, "prod-1"),
			"key_id", "url_scheme"),
			"http://hooks.example/webhooks/shop"), idempotency),
		with(from(pair("a newline after the shared secret, and http", "rfc9421", shop(secret), newline,
			"secret_characters", "url_scheme"),
			"http://hooks.example/webhooks/shop"), idempotency),
		with(late(from(pair("http, and late", "rfc9421", shop(k1), k1.by, "url_scheme", "stale"),
			"http://hooks.example/webhooks/shop"), 7*time.Minute), idempotency),
		with(via(pair("a known key under another id, and another media type", "rfc9421", shop(k1), renamedKey(k1.by,
			"prod-1"),
			"key_id", "header_changed"), set("Content-Type", "application/json; charset=utf-8")), idempotency),
		late(sent(pair("an indented body, and local time as UTC", "stripe", live, stripeWith("whsec_live_live_live"),
			"body_rewritten", "time_zone"), indented(small)), -5*time.Hour),
		from(pair("http, and a newline after the secret", "square", preset.With("square", hexSecret),
			&verify.HMAC{Headers: []string{"x-square-hmacsha256-signature"}, Encoding: verify.Base64,
				Content:   "{url}{body}",
				Malleable: true, SecretEncoding: verify.Hex,
				Secrets: verify.Secrets("3031323334353637383961626364656630313233343536373839616263646566" + "0a")},
			"url_scheme", "secret_characters"), "http://hooks.example/webhooks/square"),
	}
}

// at returns the plant with the URL that is signed; the endpoint is called at its own.
func (p plant) at(signed string) plant {
	p.url, p.after = signed, called(at("/webhooks/"+p.config[0].Name))
	return p
}
