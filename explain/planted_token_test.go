package explain_test

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/eyelet-dev/eyelet/explain"
	"github.com/eyelet-dev/eyelet/producer"
	"github.com/eyelet-dev/eyelet/producer/preset"
	"github.com/eyelet-dev/eyelet/verify"
)

// tokenKey signs tokens with an algorithm, whatever their header says.
type tokenKey struct {
	kid, says, alg string
	private        crypto.Signer
}

func (k tokenKey) sign(t *testing.T, claims map[string]any) string {
	t.Helper()
	head, err1 := json.Marshal(map[string]string{"alg": k.says, "kid": k.kid})
	body, err2 := json.Marshal(claims)
	b64 := base64.RawURLEncoding.EncodeToString
	signed := b64(head) + "." + b64(body)
	sum := sha256.Sum256([]byte(signed))
	var sig []byte
	var err3 error
	switch private := k.private.(type) {
	case *ecdsa.PrivateKey:
		r, s, err := ecdsa.Sign(rand.Reader, private, sum[:])
		sig, err3 = append(r.FillBytes(make([]byte, 32)), s.FillBytes(make([]byte, 32))...), err
	case *rsa.PrivateKey:
		if k.alg == "PS256" {
			sig, err3 = rsa.SignPSS(rand.Reader, private, crypto.SHA256, sum[:],
				&rsa.PSSOptions{SaltLength: rsa.PSSSaltLengthEqualsHash})
			break
		}
		sig, err3 = rsa.SignPKCS1v15(nil, private, crypto.SHA256, sum[:])
	}
	if err1 != nil || err2 != nil || err3 != nil {
		t.Fatal(err1, err2, err3)
	}
	return signed + "." + b64(sig)
}

// jwkOf is a key as its issuer publishes it; alg is left out if it is empty.
func jwkOf(t *testing.T, kid, alg string, private crypto.Signer) string {
	t.Helper()
	b64 := base64.RawURLEncoding.EncodeToString
	named := ""
	if alg != "" {
		named = fmt.Sprintf(`"alg":%q,`, alg)
	}
	switch key := private.Public().(type) {
	case ed25519.PublicKey:
		return fmt.Sprintf(`{"kty":"OKP","crv":"Ed25519",%s"kid":%q,"x":%q}`, named, kid, b64(key))
	case *ecdsa.PublicKey:
		raw, err := key.Bytes()
		if err != nil {
			t.Fatal(err)
		}
		x, y := b64(raw[1:33]), b64(raw[33:])
		return fmt.Sprintf(`{"kty":"EC","crv":"P-256",%s"kid":%q,"x":%q,"y":%q}`, named, kid, x, y)
	case *rsa.PublicKey:
		return fmt.Sprintf(`{"kty":"RSA",%s"kid":%q,"n":%q,"e":"AQAB"}`, named, kid, b64(key.N.Bytes()))
	}
	t.Fatal("an unknown kind of key")
	return ""
}

func tokenKeys(t *testing.T, jwks ...string) verify.TokenKeySet {
	t.Helper()
	text := `{"keys":[`
	for i, k := range jwks {
		if i > 0 {
			text += ","
		}
		text += k
	}
	set, err := verify.ParseTokenKeys([]byte(text + "]}"))
	if err != nil {
		t.Fatal(err)
	}
	return set
}

// tokenPlants are those of tokens with the digest of the body, and of Twilio's, whose URL has it.
func tokenPlants(t *testing.T) []plant {
	ec := func() crypto.Signer {
		key, err := verify.GenerateKey(verify.ECDSAP256SHA256)
		if err != nil {
			t.Fatal(err)
		}
		return key
	}
	e1, e2, e3 := ec(), ec(), ec()
	endpoint := producer.Producer{Name: "plaid", Key: producer.BodyDigest(), Contract: producer.Webhook,
		Scheme: &verify.JWT{Keys: tokenKeys(t, jwkOf(t, "k1", "ES256", e1), jwkOf(t, "k2", "ES256", e2)),
			Algorithms: []string{"ES256"}, Field: "Plaid-Verification", BodyClaim: "request_body_sha256"}}
	by := func(k tokenKey, more map[string]any) func(*http.Request, []byte) []byte {
		return func(r *http.Request, body []byte) []byte {
			sum := sha256.Sum256(body)
			claims := map[string]any{"iat": signedAt.Unix(), "request_body_sha256": hex.EncodeToString(sum[:])}
			for name, value := range more {
				if claims[name] = value; value == nil {
					delete(claims, name)
				}
			}
			r.Header.Set("Plaid-Verification", k.sign(t, claims))
			return body
		}
	}
	k1 := tokenKey{"k1", "ES256", "", e1}
	token := func(name string, want explain.Cause, by any) plant {
		return plant{name: name, scheme: "jwt with a digest", want: causes{want}, config: one(endpoint), by: by}
	}
	other := token("another body", "digest_of_other_body", by(k1, nil))
	other.sent = `{"id":"evt_2"}`
	line := token("a newline added", "body_newline", by(k1, nil))
	line.sent = doc + "\n"
	late := token("ten minutes old", "stale", by(k1, nil))
	late.late = 10*time.Minute + 7*time.Second
	ended := token("expired", "expired", by(k1, map[string]any{"exp": signedAt.Unix() + 60}))
	ended.late = 2 * time.Minute
	wrapped := token("with Bearer before it", "credential_form", by(k1, nil))
	wrapped.after = changed("Plaid-Verification", func(v string) string { return "Bearer " + v })
	elsewhere := token("in Authorization", "credential_form", by(k1, nil))
	elsewhere.after = func(r *http.Request) {
		r.Header.Set("Authorization", "Bearer "+r.Header.Get("Plaid-Verification"))
		r.Header.Del("Plaid-Verification")
	}
	renamed := token("a renamed field", "header_renamed", by(k1, nil))
	renamed.after = moved("Plaid-Verification", "Plaid_verification")
	twilio := preset.With("twilio", "twilio-secret-0123456789")
	call := plant{name: "another JSON body", scheme: "twilio", want: causes{"digest_of_other_body"},
		config: one(twilio), sent: `{"id":"evt_2"}`}
	return []plant{
		other, line, late, ended, wrapped, elsewhere, renamed, call,
		token("another own key", "key_id", by(tokenKey{"k1", "ES256", "", e2}, nil)),
		token("an unknown key", "key_unknown", by(tokenKey{"k3", "ES256", "", e3}, nil)),
		token("another key under a known id", "other_key", by(tokenKey{"k1", "ES256", "", e3}, nil)),
		token("without the claim", "no_digest", by(k1, map[string]any{"request_body_sha256": nil})),
		token("nothing", "unsigned", func(_ *http.Request, body []byte) []byte { return body }),
	}
}
