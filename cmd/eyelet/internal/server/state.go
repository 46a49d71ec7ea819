package server

import (
	"crypto/rand"
	"errors"
	"os"
	"path/filepath"

	"github.com/eyelet-dev/eyelet/cmd/eyelet/internal/opsapi"
	"github.com/eyelet-dev/eyelet/internal/atomicfile"
	"github.com/eyelet-dev/eyelet/internal/usage"
)

// stateFiles are the tokens of this run and the address of the operations port, which only the
// owner can read.
type stateFiles struct {
	dir              string
	token, readToken string
}

// newState creates the tokens for this run.
func newState(dir string) *stateFiles {
	return &stateFiles{dir: dir, token: rand.Text(), readToken: rand.Text()}
}

// write writes the tokens and the address.
func (s *stateFiles) write(address string) error {
	if err := os.MkdirAll(s.dir, 0o700); err != nil {
		return usage.Errorf("", "folder for the operations token %s: %s", s.dir, usage.Cause(err))
	}
	for name, text := range map[string]string{
		opsapi.TokenFile: s.token, opsapi.ReadTokenFile: s.readToken, opsapi.AddressFile: address,
	} {
		if err := atomicfile.WriteText(filepath.Join(s.dir, name), text+"\n"); err != nil {
			return usage.Errorf("", "%s: %s", filepath.Join(s.dir, name), usage.Cause(err))
		}
	}
	return nil
}

var errLocked = errors.New("locked")

// lockState takes the folder of a receiver's state for this process, until the file is closed.
func lockState(dir string, at usage.Place) (*os.File, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, &usage.Error{At: at, What: "folder of the state " + dir + ": " + usage.Cause(err)}
	}
	f, err := os.OpenFile(filepath.Join(dir, lockFile), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, &usage.Error{At: at, What: filepath.Join(dir, lockFile) + ": " + usage.Cause(err)}
	}
	if err := lock(f); err != nil {
		_ = f.Close() // it is not ours
		e := &usage.Error{At: at, What: "state " + dir + ": " + usage.Cause(err)}
		if errors.Is(err, errLocked) {
			e.What = "state " + dir + " is in use by another receiver"
			e.Hint = "every receiver needs a folder of its own: write state: DIR, or set EYELET_STATE"
		}
		return nil, e
	}
	return f, nil
}

// remove deletes the files, unless another server (with a store in memory) has replaced them.
func (s *stateFiles) remove() {
	if _, token, err := opsapi.ReadState(s.dir, opsapi.TokenFile); err == nil && token != s.token {
		return
	}
	for _, name := range []string{opsapi.TokenFile, opsapi.ReadTokenFile, opsapi.AddressFile} {
		_ = os.Remove(filepath.Join(s.dir, name)) // the next start replaces what is left
	}
}
