package preset

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"maps"
	"slices"

	"github.com/eyelet-dev/eyelet/verify"
)

// NewSecret returns a random secret in the form that the vendor's have.
func (p Preset) NewSecret() string {
	var encoding verify.Encoding
	made := p.described()
	switch scheme := made.Scheme.(type) {
	case *adyenScheme:
		encoding = verify.Hex
	case *verify.HMAC:
		encoding = scheme.SecretEncoding
	}
	raw := make([]byte, 32)
	_, _ = rand.Read(raw) // never fails
	switch encoding {
	case verify.Hex:
		return hex.EncodeToString(raw)
	case verify.Whsec:
		return "whsec_" + base64.StdEncoding.EncodeToString(raw)
	case verify.Base64:
		return base64.StdEncoding.EncodeToString(raw)
	}
	return p.secretPrefix + string(verify.GenerateSecret())
}

// Trial returns settings as in eyelet.yaml with which the preset can be tried. They name the file
// with the secret, if there is one. A preset that needs more than a secret is an error.
func (p Preset) Trial(secret, file string) (map[string]any, error) {
	suffix, value := "", secret
	if file != "" {
		suffix, value = "_file", file
	}
	all := map[string]any{}
	maps.Copy(all, p.needs)
	uses := func(name string) bool { return slices.Contains(p.Uses, name) }
	switch {
	case uses("subscriptions"):
		token := sha256.Sum256([]byte("token " + secret))
		all["subscriptions"] = []any{map[string]any{
			"topic": p.usualType(), "token": hex.EncodeToString(token[:16]), "secret" + suffix: value,
		}}
	case p.KeySigned():
		return nil, fmt.Errorf("preset %s needs more than a secret", p.Name)
	case uses("secret"):
		all["secret"+suffix] = value
	case uses("keys"):
		all["keys"] = map[string]any{"1" + suffix: value}
	}
	return all, nil
}
