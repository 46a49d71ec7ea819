package config

import (
	"crypto/sha256"
	"maps"
	"os"
	"sync"
)

// Files are the files that a configuration was read from: their paths with the hashes of what was
// in them, zero for one that could not be read.
type Files map[string][sha256.Size]byte

// Look returns the same files as they are now. Links are followed.
func (f Files) Look() Files {
	now := Files{}
	for path := range f {
		_, _ = now.read(path) // a file that is gone has the hash zero
	}
	return now
}

// Equal reports whether the files are the same, with the same content.
func (f Files) Equal(other Files) bool { return maps.Equal(f, other) }

func (f Files) read(path string) (text []byte, err error) {
	text, err = os.ReadFile(path)
	if f[path] = [sha256.Size]byte{}; err == nil {
		f[path] = sha256.Sum256(text)
	}
	return text, err
}

// filesRead are those of settings; nil notes none. Some are read again while the program runs.
type filesRead struct {
	mu  sync.Mutex
	all Files
}

func (f *filesRead) read(path string) ([]byte, error) {
	if f == nil {
		return os.ReadFile(path)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.all.read(path)
}
