package verify

import (
	"crypto/ed25519"
	"encoding/hex"
	"fmt"
	"strings"
	"testing"
)

// Each key of small order has signatures that verify for many messages without a private key: R
// is the neutral element and S is zero. The test finds such a message for each refused
// encoding, so the list has no valid key.
func TestEd25519KeysOfSmallOrderAreRefused(t *testing.T) {
	t.Parallel()
	forged := make([]byte, ed25519.SignatureSize)
	forged[0] = 1
	for _, y := range []string{
		"0000000000000000000000000000000000000000000000000000000000000000",
		"0100000000000000000000000000000000000000000000000000000000000000",
		"26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc05",
		"c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac037a",
		"ecffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
		"edffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
		"eeffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
	} {
		for _, sign := range []byte{0, 0x80} {
			key, err := hex.DecodeString(y)
			if err != nil {
				t.Fatal(err)
			}
			key[31] |= sign
			good := 0
			for n := range 256 {
				if ed25519.Verify(key, fmt.Append(nil, n), forged) {
					good++
				}
			}
			if good == 0 {
				t.Errorf("%x: no forged signature is good", key)
			}
			if _, err := NewPublicKey("k", Ed25519, ed25519.PublicKey(key)); err == nil ||
				!strings.Contains(err.Error(), "small order") {
				t.Errorf("%x: got %v", key, err)
			}
			scheme := &HMAC{
				Headers: []string{"X-Sig"}, Entries: []string{"v1a,{ed25519}"}, Encoding: Base64,
				PublicKeys: []ed25519.PublicKey{key},
			}
			if err := scheme.Check(); err == nil || !strings.Contains(err.Error(), "small order") {
				t.Errorf("%x as a key of a webhook: got %v", key, err)
			}
			if keys, err := ParseTokenKeys([]byte(`{"keys":[` +
				string(jwkOf(t, "k", "EdDSA", ed25519.PublicKey(key))) + `]}`)); err == nil {
				t.Errorf("%x in a key set: got %v", key, keys)
			}
		}
	}
}
