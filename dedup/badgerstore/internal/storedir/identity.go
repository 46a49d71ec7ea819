package storedir

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// identity is a small file beside the database that holds the identity of the store: 128 random bits. It names one
// history of commits, so that the backups of one store are not taken for those of another. A store gets one when it is made, when it
// is opened for writing and has none, and when it goes on without commits that it had acknowledged; a store that
// was restored is another one than that of its backups.
//
// It is a file and not in the database, where older programs would take it for damage: they do not know it, and
// leave it alone.
const (
	IdentityFile   = "identity"
	IdentityPrefix = "eyelet identity "
	identityDigits = 32
)

// ReadIdentity returns the identity of the store in dir, which is empty where the store has none. unknown says why
// there is none that can be read.
func ReadIdentity(dir string) (identity, unknown string, err error) {
	text, err := os.ReadFile(filepath.Join(dir, IdentityFile))
	if errors.Is(err, fs.ErrNotExist) {
		return "", "missing", nil
	}
	if err != nil {
		return "", "", err
	}
	identity, ok := strings.CutPrefix(strings.TrimSpace(string(text)), IdentityPrefix)
	if !ok || !IsIdentity(identity) {
		return "", "damaged", nil
	}
	return identity, "", nil
}

// IsIdentity reports whether a text is an identity.
func IsIdentity(text string) bool {
	_, err := hex.DecodeString(text)
	return err == nil && len(text) == identityDigits && strings.ToLower(text) == text
}

// NewIdentity gives the store in dir an identity of its own.
func NewIdentity(dir string) (string, error) {
	var b [identityDigits / 2]byte
	_, _ = rand.Read(b[:]) // it never fails
	identity := hex.EncodeToString(b[:])
	return identity, writeWhole(dir, IdentityFile, IdentityPrefix+identity+"\n")
}
