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

// The identity of a store is a small file beside the database with 128 random bits. It names
// one history of commits and prevents backups of one store from being taken for those of
// another. A store gets one when it is created, when it is opened for writing without one, and
// when it continues without commits that it had acknowledged. A restored store has another
// identity than its backups.
//
// It is a file because older programs ignore unknown files, but would take an unknown key in
// the database for damage.
const (
	IdentityFile   = "identity"
	IdentityPrefix = "eyelet identity "
	identityDigits = 32
)

// ReadIdentity returns the identity of the store in dir, empty if there is none. unknown is why
// it cannot be read: the file is missing or damaged.
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

// NewIdentity gives the store in dir a new identity.
func NewIdentity(dir string) (string, error) {
	var b [identityDigits / 2]byte
	_, _ = rand.Read(b[:]) // never fails
	identity := hex.EncodeToString(b[:])
	return identity, WriteWhole(dir, IdentityFile, []byte(IdentityPrefix+identity+"\n"))
}
