package badgerstore

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/eyelet-dev/eyelet/dedup/badgerstore/internal/record"
)

// identity is a small file beside the database that holds the identity of the store: 128 random bits. It names one
// history of commits, so that the backups of one store are not taken for those of another. A store gets one when it is made, when it
// is opened for writing and has none, and when it goes on without commits that it had acknowledged; a store that
// was restored is another one than that of its backups.
//
// It is a file and not in the database, where older programs would take it for damage: they do not know it, and
// leave it alone.
const (
	identityName   = "identity"
	identityPrefix = "eyelet identity "
	identityDigits = 32
)

// readIdentity returns the identity of the store in dir, which is empty where the store has none. unknown says why
// there is none that can be read.
func readIdentity(dir string) (identity, unknown string, err error) {
	text, err := os.ReadFile(filepath.Join(dir, identityName))
	if errors.Is(err, fs.ErrNotExist) {
		return "", "missing", nil
	}
	if err != nil {
		return "", "", err
	}
	identity, ok := strings.CutPrefix(strings.TrimSpace(string(text)), identityPrefix)
	if !ok || !isIdentity(identity) {
		return "", "damaged", nil
	}
	return identity, "", nil
}

func isIdentity(text string) bool {
	_, err := hex.DecodeString(text)
	return err == nil && len(text) == identityDigits && strings.ToLower(text) == text
}

// newIdentity gives the store in dir an identity of its own.
func newIdentity(dir string) (string, error) {
	var b [identityDigits / 2]byte
	_, _ = rand.Read(b[:]) // it never fails
	identity := hex.EncodeToString(b[:])
	return identity, writeWhole(dir, identityName, identityPrefix+identity+"\n")
}

// openIdentity reads the identity of a store that is opened for writing, and gives it one when it has none or when
// its history is not the one that it had.
func (s *Store) openIdentity(m record.Meta, lost bool) (err error) {
	var unknown string
	if s.identity, unknown, err = readIdentity(s.dir); err != nil {
		return fmt.Errorf("store %s: %w", s.dir, err)
	}
	if s.identity != "" && !lost {
		return nil
	}
	if m.Commit > 0 {
		s.log.Info("the store gets a new identity: begin with a whole backup", "dir", s.dir, "identity", unknown, "lost", lost)
	}
	if s.identity, err = newIdentity(s.dir); err != nil {
		return fmt.Errorf("store %s: its identity cannot be written: %w", s.dir, err)
	}
	return nil
}
