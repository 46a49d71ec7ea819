package server

import (
	"crypto/rand"
	"os"
	"path/filepath"

	"github.com/eyelet-dev/eyelet/cmd/eyelet/internal/atomicfile"
	"github.com/eyelet-dev/eyelet/cmd/eyelet/internal/opsapi"
	"github.com/eyelet-dev/eyelet/cmd/eyelet/internal/usage"
)

// stateFiles are the token and the address of the operations port, which only the owner can read.
type stateFiles struct {
	dir   string
	token string
}

// writeState creates a token for this run and writes it with the address.
func writeState(dir, address string) (*stateFiles, error) {
	s := &stateFiles{dir: dir, token: rand.Text()}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, usage.Errorf("", "folder for the operations token %s: %s", dir, usage.Cause(err))
	}
	for name, text := range map[string]string{opsapi.TokenFile: s.token, opsapi.AddressFile: address} {
		if err := atomicfile.WriteText(filepath.Join(dir, name), text+"\n"); err != nil {
			return nil, usage.Errorf("", "%s: %s", filepath.Join(dir, name), usage.Cause(err))
		}
	}
	return s, nil
}

// remove deletes the files, unless another server (with a store in memory) has replaced them.
func (s *stateFiles) remove() {
	if _, token, err := opsapi.ReadState(s.dir); err == nil && token != s.token {
		return
	}
	for _, name := range []string{opsapi.TokenFile, opsapi.AddressFile} {
		_ = os.Remove(filepath.Join(s.dir, name)) // the next start replaces what is left
	}
}
