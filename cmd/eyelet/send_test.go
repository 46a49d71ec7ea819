package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/eyelet-dev/eyelet/cmd/eyelet/internal/config"
	"github.com/eyelet-dev/eyelet/verify"
)

// TestTheIDOfAKeyIsThatOfItsPublicHalf: with several keys in the configuration the first is not
// the right one.
func TestTheIDOfAKeyIsThatOfItsPublicHalf(t *testing.T) {
	t.Parallel()
	c := &config.Settings{File: filepath.Join(t.TempDir(), "eyelet.yaml")}
	keys := []config.Key{{ID: "secret", Alg: string(verify.HMACSHA256), Secret: "0123456789abcdef"}}
	for _, name := range []string{"old", "new"} {
		if err := writeKeyPair(verify.Ed25519, filepath.Join(filepath.Dir(c.File), name)); err != nil {
			t.Fatal(err)
		}
		keys = append(keys, config.Key{ID: "key-" + name, Alg: string(verify.Ed25519), PublicKeyFile: name +
			".pub.pem"})
	}
	for _, name := range []string{"old", "new"} {
		text, err := os.ReadFile(filepath.Join(filepath.Dir(c.File), name+".pem"))
		if err != nil {
			t.Fatal(err)
		}
		private, err := verify.ParsePrivateKey(text)
		if err != nil {
			t.Fatal(err)
		}
		signer := &verify.Signer{Private: private}
		if err := chooseKey(signer, matchingKeys(c, signer, keys)); err != nil || signer.KeyID != "key-"+name {
			t.Errorf("%s signs as %q, %v", name, signer.KeyID, err)
		}
	}
}
