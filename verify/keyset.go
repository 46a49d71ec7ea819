package verify

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"sync"
	"time"
)

// StaticKeys returns a set of these keys. Keys may share an id during a rotation.
func StaticKeys(keys ...Key) KeySet { return newStaticSet(keys) }

type staticSet struct {
	all  []Key
	byID map[string][]Key
}

func newStaticSet(keys []Key) *staticSet {
	s := &staticSet{all: append([]Key(nil), keys...), byID: make(map[string][]Key, len(keys))}
	for _, k := range s.all {
		if k.ID != "" {
			s.byID[k.ID] = append(s.byID[k.ID], k)
		}
	}
	return s
}

// Key implements [KeySet]. The result is shared; callers must not modify it.
func (s *staticSet) Key(_ context.Context, id string) ([]Key, error) {
	found := s.all
	if id != "" {
		found = s.byID[id]
	}
	if len(found) == 0 {
		return nil, &Error{Code: KeyUnknown, KeyID: id}
	}
	return found, nil
}

// JoinKeys returns the union of sets. A key is unknown if it is unknown to every set. Keys are
// unavailable if no set has the key and one of them is unavailable.
func JoinKeys(sets ...KeySet) KeySet {
	if len(sets) == 1 {
		return sets[0]
	}
	return joinedSet(sets)
}

type joinedSet []KeySet

// Key implements [KeySet].
func (s joinedSet) Key(ctx context.Context, id string) ([]Key, error) {
	var found []Key
	var refusal error = &Error{Code: KeyUnknown, KeyID: id}
	for _, set := range s {
		keys, err := set.Key(ctx, id)
		switch {
		case err == nil:
			found = append(found, keys...)
		case CodeOf(err) != KeyUnknown:
			refusal = err
		}
	}
	if len(found) == 0 {
		return nil, refusal
	}
	return found, nil
}

// principalsOf returns the principals that keys of a set may have.
func principalsOf(set KeySet) []string {
	switch s := set.(type) {
	case *staticSet:
		var all []string
		for _, k := range s.all {
			all = append(all, k.Principal)
		}
		return all
	case joinedSet:
		var all []string
		for _, one := range s {
			all = append(all, principalsOf(one)...)
		}
		return all
	case *FileKeys:
		return []string{s.cfg.Principal}
	case *JWKS:
		return []string{s.cfg.Principal}
	case *Directories:
		return slices.Collect(maps.Keys(s.sets))
	}
	return []string{""} // unknown
}

// KeyFile describes a file with keys of a producer.
type KeyFile struct {
	// Path is the file: PEM blocks of public keys or certificates, a JSON Web Key, a JSON Web Key
	// Set, or, with Alg hmac-sha256, a secret (surrounding white space is ignored). Required.
	Path string
	// ID is the id of the keys. Required except for JSON Web Keys, whose kid it replaces if set.
	ID        string
	Alg       Alg              // of the keys; defaults to that of the JSON Web Key or of the key's type
	Principal string           // the identity that the keys prove; empty is the producer itself
	Every     time.Duration    // how often the file is checked; defaults to 5 seconds
	Now       func() time.Time // the clock; defaults to time.Now
}

// FileKeys is a [KeySet] that reads its file again when its modification time or size changes.
// While the file is missing or invalid, the last valid keys stay in use. Looking up an absent key
// checks the file at once: the result is key_unknown for a valid file, else keys_unavailable.
type FileKeys struct {
	cfg KeyFile

	mu      sync.Mutex
	keys    *staticSet
	mtime   time.Time
	size    int64
	checked time.Time
	err     error
}

// OpenKeyFile reads the file, which must be valid.
func OpenKeyFile(cfg KeyFile) (*FileKeys, error) {
	cfg.Every = cmp.Or(cfg.Every, 5*time.Second)
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	f := &FileKeys{cfg: cfg}
	f.reload(cfg.Now())
	if f.err != nil {
		return nil, f.err
	}
	return f, nil
}

// Key implements [KeySet].
func (f *FileKeys) Key(ctx context.Context, id string) ([]Key, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	now := f.cfg.Now()
	if now.Sub(f.checked) >= f.cfg.Every || now.Before(f.checked) {
		f.reload(now)
	}
	found, err := f.keys.Key(ctx, id)
	if err != nil && f.err == nil { // one stat, and a read only if the file changed
		f.reload(now)
		found, err = f.keys.Key(ctx, id)
	}
	if err != nil && f.err != nil {
		return nil, &Error{Code: KeysUnavailable, KeyID: id, RetryAfter: f.cfg.Every, Err: f.err}
	}
	return found, err
}

// Err returns why the last check of the file failed, or nil.
func (f *FileKeys) Err() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.err
}

// reload reads the file if it changed. On any error the keys stay as they are.
func (f *FileKeys) reload(now time.Time) {
	f.checked = now
	info, err := os.Stat(f.cfg.Path)
	if err != nil {
		f.err = fmt.Errorf("key file: %w", err)
		return
	}
	if f.err == nil && f.keys != nil && info.ModTime().Equal(f.mtime) && info.Size() == f.size {
		return
	}
	keys, err := f.read()
	if err != nil {
		f.err = fmt.Errorf("key file %s: %w", f.cfg.Path, err)
		return
	}
	f.keys, f.err, f.mtime, f.size = newStaticSet(keys), nil, info.ModTime(), info.Size()
}

// maxKeyFile bounds a key file, in bytes.
const maxKeyFile = 1 << 20

func (f *FileKeys) read() ([]Key, error) {
	text, err := os.ReadFile(f.cfg.Path)
	if err != nil {
		return nil, err
	}
	if len(text) > maxKeyFile {
		return nil, errors.New("the file is larger than 1 MiB")
	}
	keys := make([]Key, 1)
	if f.cfg.Alg == HMACSHA256 {
		keys[0], err = NewHMACKey(f.cfg.ID, bytes.TrimSpace(text))
	} else {
		keys, err = ParsePublicKeys(f.cfg.ID, f.cfg.Alg, text)
	}
	for i := range keys {
		keys[i].Principal = f.cfg.Principal
	}
	return keys, err
}
