package verify

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"
)

// StaticKeys returns a set of these keys. Several keys may share an id while one takes over from the other.
func StaticKeys(keys ...Key) KeySet {
	return newStaticSet(keys)
}

// staticSet is a set that does not change.
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

// Key implements [KeySet]. The result is shared: callers do not change it.
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

// JoinKeys returns the union of several sets. A key is unknown when every set says so; keys are unavailable
// when no set has the key and one of them cannot tell.
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

// KeyFile describes a file that holds keys of a producer.
type KeyFile struct {
	// Path is the file: PEM blocks of public keys or certificates, a JSON Web Key, a JSON Web Key Set, or, with
	// Alg hmac-sha256, a secret (white space around it is no part of it). Required.
	Path string
	// ID is the id of the keys. Required except for JSON Web Keys, whose kid it replaces when it is set.
	ID string
	// Alg is the algorithm of the keys. Defaults to the one that the key's type or the JSON Web Key names.
	Alg Alg
	// Principal is the identity that the keys stand for; empty is the producer itself.
	Principal string
	// Every is how often the file is looked at. Defaults to 5 seconds.
	Every time.Duration
	// Now is the clock. Defaults to time.Now.
	Now func() time.Time
}

// FileKeys is a [KeySet] that reads its file again when its modification time or size changes, and keeps the
// last good keys while the file is missing or broken. A key that it does not have makes it look at the file at once:
// key_unknown is said of the file as it is, and keys_unavailable while the file is missing or broken.
type FileKeys struct {
	cfg KeyFile

	mu      sync.Mutex
	keys    *staticSet
	mtime   time.Time
	size    int64
	checked time.Time
	err     error
}

// OpenKeyFile reads the file, which must be good.
func OpenKeyFile(cfg KeyFile) (*FileKeys, error) {
	if cfg.Every == 0 {
		cfg.Every = 5 * time.Second
	}
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
	if err == nil {
		return found, nil
	}
	if f.err == nil { // the file costs a stat, and a read only when it has changed
		f.reload(now)
		found, err = f.keys.Key(ctx, id)
	}
	if err != nil && f.err != nil {
		return nil, &Error{Code: KeysUnavailable, KeyID: id, RetryAfter: f.cfg.Every, Err: f.err}
	}
	return found, err
}

// Err returns why the file could not be read the last time it was looked at, or nil.
func (f *FileKeys) Err() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.err
}

// reload reads the file if it has changed. On any mistake the keys stay as they are.
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
	var keys []Key
	if f.cfg.Alg == HMACSHA256 {
		k, err := NewHMACKey(f.cfg.ID, bytes.TrimSpace(text))
		if err != nil {
			return nil, err
		}
		keys = []Key{k}
	} else if keys, err = ParsePublicKeys(f.cfg.ID, f.cfg.Alg, text); err != nil {
		return nil, err
	}
	for i := range keys {
		keys[i].Principal = f.cfg.Principal
	}
	return keys, nil
}
