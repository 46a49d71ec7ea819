package conf

import (
	"crypto/sha256"
	"maps"
	"os"
	"path/filepath"
	"sync"
)

// Files are the files that a configuration was read from: their paths with the hashes of what was
// in them, zero for one that could not be read.
type Files map[string][sha256.Size]byte

// Look returns the same files as they are now. Links are followed.
func (f Files) Look() Files {
	now := Files{}
	for path := range f {
		_, _ = now.Read(path) // a file that is gone has the hash zero
	}
	return now
}

// Equal reports whether the files are the same, with the same content.
func (f Files) Equal(other Files) bool { return maps.Equal(f, other) }

// Read reads a file and notes it.
func (f Files) Read(path string) (text []byte, err error) {
	text, err = os.ReadFile(path)
	if f[path] = [sha256.Size]byte{}; err == nil {
		f[path] = sha256.Sum256(text)
	}
	return text, err
}

// Reader notes the files that it reads; nil notes none. Some are read again while the program runs.
type Reader struct {
	mu  sync.Mutex
	all Files
}

// NewReader returns a reader that has read nothing.
func NewReader() *Reader { return &Reader{all: Files{}} }

// Files returns the files that were read.
func (f *Reader) Files() Files {
	f.mu.Lock()
	defer f.mu.Unlock()
	return maps.Clone(f.all)
}

// Read reads a file.
func (f *Reader) Read(path string) ([]byte, error) {
	if f == nil {
		return os.ReadFile(path)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.all.Read(path)
}

// PathIn returns the path of a file that is named relative to a folder.
func PathIn(dir, name string) string {
	if name == "" || filepath.IsAbs(name) {
		return name
	}
	return filepath.Join(dir, name)
}
