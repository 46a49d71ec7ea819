package explain_test

import (
	"bytes"
	"compress/flate"
	"compress/zlib"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"unicode/utf16"

	"github.com/eyelet-dev/eyelet/explain"
	"github.com/eyelet-dev/eyelet/producer/preset"
	"github.com/eyelet-dev/eyelet/verify"
)

// packedWith returns the body in zlib, or in raw deflate.
func packedWith(raw bool, text string) string {
	var b bytes.Buffer
	if raw {
		z, _ := flate.NewWriter(&b, 6)
		_, _ = z.Write([]byte(text))
		_ = z.Close()
		return b.String()
	}
	z := zlib.NewWriter(&b)
	_, _ = z.Write([]byte(text))
	_ = z.Close()
	return b.String()
}

// utf16Text returns the text in UTF-16.
func utf16Text(text string, bigEndian bool) string {
	var out []byte
	for _, u := range utf16.Encode([]rune(text)) {
		pair := []byte{byte(u), byte(u >> 8)}
		if bigEndian {
			slices.Reverse(pair)
		}
		out = append(out, pair...)
	}
	return string(out)
}

// variantPlants are bodies, secrets and contents in forms of other platforms.
func variantPlants(t *testing.T) []plant {
	return slices.Concat(bodyVariants(t), secretVariants(t), signatureVariants(t), contentVariants(t))
}

func bodyVariants(t *testing.T) []plant {
	gh := preset.GitHub("s3cr3t-s3cr3t-s3cr3t")
	id := map[string]string{"X-GitHub-Delivery": "1", "X-GitHub-Event": "push"}
	body := func(name, signed, sent string, want explain.Cause) plant {
		return plant{name: name, scheme: "github", want: causes{want}, config: one(gh), signed: signed, sent: sent,
			fields: id}
	}
	coded := func(p plant, coding string) plant {
		p.after, p.config = set("Content-Encoding", coding), one(signsCoded(gh))
		return p
	}
	emptied := func(by signer) func(*http.Request, []byte) []byte {
		return func(r *http.Request, b []byte) []byte {
			if err := by.Sign(r, b, signedAt); err != nil {
				t.Fatal(err)
			}
			return nil
		}
	}
	const small, accented = `{"id":"1","u":"https://x/é","n":[1,2]}`, "{\"name\":\"Zoë Å\"}"
	const decomposed = "{\"name\":\"Zoe\u0308 A\u030a\"}"
	crlf := func(text string) string { return strings.ReplaceAll(text, "\n", "\r\n") }
	var tabs bytes.Buffer
	_ = json.Indent(&tabs, []byte(doc), "", "\t")
	escaped, _ := json.Marshal(doc)
	return []plant{
		{name: "emptied on the way", scheme: "github", want: causes{"body_consumed"}, config: one(gh), fields: id,
			by: emptied(gh.Scheme.(signer))},
		{name: "emptied on the way", scheme: "stripe", want: causes{"body_consumed"},
			config: one(preset.Stripe("whsec_live_live_live")),
			by:     emptied(preset.Stripe("whsec_live_live_live").Scheme.(signer))},
		coded(body("compressed with zlib after signing", doc, packedWith(false, doc), "body_compressed"), "deflate"),
		coded(body("deflated after signing", doc, packedWith(true, doc), "body_compressed"), "deflate"),
		body("compressed with zlib, without its field", doc, packedWith(false, doc), "body_compressed"),
		coded(body("zlib unpacked on the way", packedWith(false, doc), doc, "body_decompressed"), "deflate"),
		body("the signer compressed it", zipped(doc), doc, "body_decompressed"),
		body("signed in UTF-16", utf16Text(small, false), small, "body_charset"),
		body("signed in UTF-16, big endian", utf16Text(small, true), small, "body_charset"),
		body("signed in UTF-16 with a byte order mark", utf16Text("\ufeff"+small, false), small, "body_charset"),
		body("converted to UTF-16", small, utf16Text(small, false), "body_charset"),
		body("converted to UTF-16 with a byte order mark", small, utf16Text("\ufeff"+small, true), "body_charset"),
		body("decomposed on the way", accented, decomposed, "body_charset"),
		body("composed on the way", decomposed, accented, "body_charset"),
		body("indented with tabs on the way", doc, tabs.String(), "body_rewritten"),
		body("indented with tabs by the signer", tabs.String(), doc, "body_rewritten"),
		body("tabs replaced by spaces", tabs.String(), indented(doc), "body_rewritten"),
		body("indented with CRLF by the signer", crlf(indented(sortedByGo(small))), sortedByGo(small),
			"body_rewritten"),
		body("indented with CRLF on the way", sortedByGo(small), crlf(indented(sortedByGo(small))), "body_rewritten"),
		body("signed as a string that Go writes", string(escaped), doc, "body_double_json"),
		body("signed as a string that PHP writes", strings.ReplaceAll(string(jsonText(small)), "/", `\/`), small,
			"body_double_json"),
		body("signed as a string that Python writes", strings.ReplaceAll(string(jsonText(small)), "é", `\u00e9`),
			small, "body_double_json"),
		body("came as a string that Go writes", doc, string(escaped), "body_double_json"),
		body("came as a string in a string", small, string(jsonText(string(jsonText(small)))), "body_double_json"),
	}
}

func secretVariants(*testing.T) []plant {
	var all []plant
	sum := sha256.Sum256([]byte(hexSecret))
	for _, v := range []struct {
		name, have, used string
		want             explain.Cause
	}{
		{"a tab after the secret", hexSecret, hexSecret + "\t", "secret_characters"},
		{"a tab before the secret", hexSecret, "\t" + hexSecret, "secret_characters"},
		{"a newline before the secret", hexSecret, "\n" + hexSecret, "secret_characters"},
		{"padding left out at the sender", "c2VjcmV0LXNlY3JldA==", "c2VjcmV0LXNlY3JldA", "secret_characters"},
		{"padding left out in the configuration", "c2VjcmV0LXNlY3JldA", "c2VjcmV0LXNlY3JldA==", "secret_characters"},
		{"padding of one left out in the configuration", "c2VjcmV0LXNlY3JldDE", "c2VjcmV0LXNlY3JldDE=",
			"secret_characters"},
		{"padding left out, and decoded", "c2VjcmV0LXNlY3JldA", "secret-secret", "secret_encoding"},
		{"percent-encoded", "abc/def+ghi==!(x)", url.QueryEscape("abc/def+ghi==!(x)"), "secret_characters"},
		{"percent-encoded in lower case", "abc/def+ghi==", "abc%2fdef%2bghi%3d%3d", "secret_characters"},
		{"percent-encoded, as JavaScript writes it", "abc/def!(x) y", "abc%2Fdef!(x)%20y", "secret_characters"},
		{"percent-decoded", "abc%2Fdef%2Bghi%3D%3D", "abc/def+ghi==", "secret_characters"},
		{"a plus that became a space", "abc+def+ghi+jkl", "abc def ghi jkl", "secret_characters"},
		{"its SHA-256 as the key", hexSecret, string(sum[:]), "secret_encoding"},
		{"its SHA-256 in hex as the key", hexSecret, hex.EncodeToString(sum[:]), "secret_encoding"},
		{"its SHA-256 in base64 as the key", hexSecret, base64.StdEncoding.EncodeToString(sum[:]), "secret_encoding"},
	} {
		p := custom(func(h *verify.HMAC) { h.Secrets = verify.Secrets(v.have) })
		by := custom(func(h *verify.HMAC) {
			h.SecretEncoding, h.Secrets = verify.Hex, verify.Secrets(hex.EncodeToString([]byte(v.used)))
		})
		all = append(all, plant{name: v.name, scheme: "hmac", want: causes{v.want}, config: one(p), by: by.Scheme})
	}
	return all
}

// signatureVariants have the signature in another form or field.
func signatureVariants(*testing.T) []plant {
	gh := preset.GitHub("s3cr3t-s3cr3t-s3cr3t")
	id := map[string]string{"X-GitHub-Delivery": "1", "X-GitHub-Event": "push"}
	std := preset.With("standard-webhooks", "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")
	msg := map[string]string{"webhook-id": "msg_1"}
	urlSafe := func(v string) string { return strings.NewReplacer("+", "-", "/", "_").Replace(v) }
	bare := func(v string) string { return strings.TrimRight(urlSafe(strings.TrimPrefix(v, "v1,")), "=") }
	toBase64URL := func(v string) string {
		raw, _ := hex.DecodeString(strings.TrimPrefix(v, "sha256="))
		return base64.RawURLEncoding.EncodeToString(raw)
	}
	return []plant{
		{name: "base64url without its prefix", scheme: "standard-webhooks", want: causes{"signature_form"},
			config: one(std), fields: msg, after: changed("webhook-signature", bare)},
		{name: "base64url without padding, in place of hex", scheme: "hmac", want: causes{"signature_form", "encoding"},
			config: one(custom(nil)), after: changed("X-Sig", toBase64URL)},
		{name: "base64url without its prefix, in place of hex", scheme: "github",
			want: causes{"signature_form", "encoding"}, config: one(gh), fields: id,
			after: changed("X-Hub-Signature-256", toBase64URL)},
		{name: "only the field of SHA-1", scheme: "github", want: causes{"hash"}, config: one(gh), fields: id,
			by: &verify.HMAC{Headers: []string{"X-Hub-Signature"}, Entries: []string{"sha1={sig}"}, Hash: verify.SHA1,
				Encoding: verify.Hex, Secrets: gh.Scheme.(*verify.HMAC).Secrets}},
		{name: "only the field of SHA-1, with an unknown secret", scheme: "github", want: causes{"hash"},
			config: one(gh), fields: id,
			by: &verify.HMAC{Headers: []string{"X-Hub-Signature"}, Entries: []string{"sha1={sig}"}, Hash: verify.SHA1,
				Encoding: verify.Hex, Secrets: verify.Secrets("unknown-unknown")}},
	}
}

// contentVariants sign a hash without a key, or more than the body.
func contentVariants(*testing.T) []plant {
	plain := func(name string, of func(body string) string) plant {
		return plant{name: name, scheme: "hmac", want: causes{"hash"}, config: one(custom(nil)),
			by: func(r *http.Request, body []byte) []byte {
				sum := sha256.Sum256([]byte(of(string(body))))
				r.Header.Set("X-Sig", hex.EncodeToString(sum[:]))
				return body
			}}
	}
	over := func(name, field, value string, of func(r *http.Request, body string) string) plant {
		return plant{name: name, scheme: "hmac", want: causes{"content"}, config: one(custom(nil)),
			by: func(r *http.Request, body []byte) []byte {
				mac := hmac.New(sha256.New, []byte(hexSecret))
				if field != "" {
					r.Header.Set(field, value)
				}
				mac.Write([]byte(of(r, string(body))))
				r.Header.Set("X-Sig", hex.EncodeToString(mac.Sum(nil)))
				return body
			}}
	}
	const stamp = "1795319382"
	joined := func(before string) func(*http.Request, string) string {
		return func(_ *http.Request, body string) string { return before + body }
	}
	return []plant{
		plain("a hash of the body", func(b string) string { return b }),
		plain("a hash of the secret and the body", func(b string) string { return hexSecret + b }),
		plain("a hash of the body and the secret", func(b string) string { return b + hexSecret }),
		over("the URL before the body", "", "", func(r *http.Request, b string) string { return r.URL.String() + b }),
		over("the URL and a newline before the body", "", "",
			func(r *http.Request, b string) string { return r.URL.String() + "\n" + b }),
		over("the path before the body", "", "", func(r *http.Request, b string) string { return r.URL.Path + b }),
		over("the method, the path and the body", "", "",
			func(r *http.Request, b string) string { return r.Method + r.URL.Path + b }),
		over("the method and the URL before the body", "", "",
			func(r *http.Request, b string) string { return r.Method + "\n" + r.URL.String() + "\n" + b }),
		over("the time before the body", "X-Timestamp", stamp, joined(stamp+".")),
		over("the time and a colon before the body", "X-Request-Timestamp", stamp, joined(stamp+":")),
		over("the time of a field of its own", "X-Custom-Signature-Time", stamp, joined(stamp)),
		over("the date before the body", "Date", "Wed, 22 Nov 2026 10:00:00 GMT",
			joined("Wed, 22 Nov 2026 10:00:00 GMT\n")),
	}
}
