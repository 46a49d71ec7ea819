package producer_test

import (
	"crypto/ed25519"
	"encoding/base64"
	"encoding/hex"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/eyelet-dev/eyelet/producer"
	"github.com/eyelet-dev/eyelet/producer/preset"
	"github.com/eyelet-dev/eyelet/verify"
)

func TestASharedSecretIsAWarning(t *testing.T) {
	t.Parallel()
	const secret, other = "one-secret-for-both-1", "another-secret-of-17"
	named := func(name string, p producer.Producer) producer.Producer { p.Name = name; return p }
	either := func(secret string) producer.Producer {
		p := preset.With("twilio", secret)
		p.Scheme = verify.Any{p.Scheme, preset.GitHub(secret).Scheme}
		return p
	}
	key := []byte("the-bytes-of-a-key-of-32-octets!")
	written := func(as verify.Encoding, secret string) producer.Producer {
		p := preset.GitHub(secret)
		p.Scheme = &verify.HMAC{Headers: []string{"X-Sign"}, Encoding: verify.Hex, SecretEncoding: as,
			Secrets: verify.Secrets(secret)}
		return p
	}
	inBase64, inHex := base64.StdEncoding.EncodeToString(key), hex.EncodeToString(key)
	public, err := verify.NewPublicKey("k", verify.Ed25519, ed25519.NewKeyFromSeed(key).Public())
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewTLSServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		t.Error("keys are fetched")
	}))
	defer server.Close()
	jwks, err := verify.NewJWKS(verify.JWKSConfig{URL: server.URL, Client: server.Client()})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = jwks.Close() }()
	signs := func(keys verify.KeySet, pinned ...verify.Pinned) producer.Producer {
		coverage := verify.Coverage{Pinned: append(pinned, verify.Pinned{})[0]}
		return producer.Producer{Scheme: &verify.RFC9421{Keys: keys, Coverage: coverage}}
	}
	url := verify.Pinned{URL: true}
	discord := preset.With("discord", hex.EncodeToString(public.Public().(ed25519.PublicKey)))
	type list []producer.Producer
	for name, tt := range map[string]struct {
		producers list
		want      int
	}{
		"one preset":  {list{named("a", preset.GitHub(secret)), named("b", preset.GitHub(other, secret))}, 1},
		"two presets": {list{named("a", preset.GitHub(secret)), named("b", preset.With("razorpay", secret))}, 1},
		"none":        {list{named("a", preset.GitHub(secret)), named("b", preset.GitHub(other))}, 0},
		"the URL":     {list{named("a", preset.With("twilio", secret)), named("b", preset.With("twilio", secret))}, 0},
		"whsec and hex": {list{named("a", preset.With("standard-webhooks", "whsec_"+inBase64)),
			named("b", written(verify.Hex, inHex)), named("c", written(verify.Base64, inBase64)),
			named("d", written(verify.Raw, string(key)))}, 3},
		"one text, two keys": {list{named("a", written(verify.Hex, inHex)), named("b", written(verify.Raw, inHex))}, 0},
		"one public key":     {list{named("a", discord), named("b", discord)}, 1},
		"one public key in two schemes": {list{named("a", discord),
			named("b", signs(verify.StaticKeys(public), url))}, 1},
		"one public key, the URL": {list{named("a", signs(verify.StaticKeys(public))),
			named("b", signs(verify.StaticKeys(public)))}, 0},
		"keys of a server": {list{named("a", signs(jwks, url)), named("b", signs(jwks, url))}, 0},
		"one of any":       {list{named("a", either(secret)), named("b", either(secret))}, 1},
	} {
		found := producer.SharedSecrets(tt.producers)
		if len(found) != tt.want || strings.Contains(strings.Join(found, ""), secret) {
			t.Errorf("%s: %q", name, found)
		}
	}
}
