package verify

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

// fakeClock is a clock that tests set.
type fakeClock struct {
	mu  sync.Mutex
	now time.Time
}

func newFakeClock() *fakeClock { return &fakeClock{now: testNow} }

func (c *fakeClock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func (c *fakeClock) Add(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
}

func idsOf(t *testing.T, s KeySet, id string) string {
	t.Helper()
	keys, err := s.Key(t.Context(), id)
	if err != nil {
		return string(CodeOf(err))
	}
	var ids []string
	for _, k := range keys {
		ids = append(ids, k.ID)
	}
	return strings.Join(ids, " ")
}

func TestStaticAndJoinedSets(t *testing.T) {
	t.Parallel()
	a, b, c := newPair(t, "a", HMACSHA256).key, newPair(t, "b", HMACSHA256).key, newPair(t, "a", Ed25519).key
	for name, s := range map[string]KeySet{"static": StaticKeys(a, b, c),
		"joined": JoinKeys(StaticKeys(a, b), StaticKeys(c))} {
		for id, want := range map[string]string{"a": "a a", "b": "b", "": "a b a", "x": "key_unknown"} {
			if got := idsOf(t, s, id); got != want {
				t.Errorf("%s: %q gives %q, want %q", name, id, got, want)
			}
		}
	}
	for _, s := range []KeySet{StaticKeys(), JoinKeys()} {
		if got := idsOf(t, s, ""); got != "key_unknown" {
			t.Errorf("an empty set gives %q", got)
		}
	}
	if got := idsOf(t, JoinKeys(failingKeys{}, StaticKeys(a)), "x"); got != "keys_unavailable" {
		t.Errorf("an unavailable set returns %q", got)
	}
	if got := idsOf(t, StaticKeys(Key{}), ""); got != "" { // present, but verifies nothing
		t.Errorf("an empty key gives %q", got)
	}
}

func TestZeroKeyVerifiesNothing(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	s.pair.sign(t, s.r, s.body)
	s.scheme = &RFC9421{Keys: StaticKeys(Key{ID: "k", Alg: HMACSHA256})}
	_, err := s.verify()
	wantCode(t, err, KeyUnknown)
}

func TestKeyFileIsReloadedWhenItChanges(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "keys.pem")
	first, second := newPair(t, "k", Ed25519).key, newPair(t, "k", Ed25519).key
	changes := 0
	write := func(text string) {
		t.Helper()
		changes++
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		at := testNow.Add(time.Duration(changes) * time.Second)
		if err := os.Chtimes(path, at, at); err != nil {
			t.Fatal(err)
		}
	}
	pemOf := func(k Key) string {
		text, err := MarshalPublicKey(k.Public())
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	clock := newFakeClock()
	if _, err := OpenKeyFile(KeyFile{Path: path, ID: "k", Now: clock.Now}); err == nil {
		t.Error("a missing file is opened")
	}
	write(pemOf(first))
	f, err := OpenKeyFile(KeyFile{Path: path, ID: "k", Principal: "shop", Now: clock.Now})
	if err != nil {
		t.Fatal(err)
	}
	current := func() string {
		t.Helper()
		keys, err := f.Key(t.Context(), "k")
		if err != nil || len(keys) != 1 || keys[0].Principal != "shop" {
			t.Fatalf("%v, %v", keys, err)
		}
		return keys[0].Fingerprint()
	}
	write(pemOf(second))
	if current() != first.Fingerprint() {
		t.Error("the file was checked too soon")
	}
	clock.Add(5 * time.Second)
	if current() != second.Fingerprint() || f.Err() != nil {
		t.Errorf("the new key is missing: %v", f.Err())
	}
	write("broken")
	clock.Add(5 * time.Second)
	if current() != second.Fingerprint() || f.Err() == nil {
		t.Errorf("the last valid key or the error is lost: %v", f.Err())
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	clock.Add(5 * time.Second)
	if current() != second.Fingerprint() || f.Err() == nil {
		t.Errorf("the last valid key or the error is lost: %v", f.Err())
	}
	write(pemOf(first))
	clock.Add(5 * time.Second)
	if current() != first.Fingerprint() || f.Err() != nil {
		t.Errorf("the file is good again: %v", f.Err())
	}
}

// A newly added key is found at once. While the file cannot be read, no key is finally refused.
func TestKeyFileIsCheckedBeforeAKeyIsUnknown(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "keys.json")
	write := func(kids ...string) {
		t.Helper()
		for i, kid := range kids {
			kids[i] = edJWK(t, kid)
		}
		if err := os.WriteFile(path, []byte(`{"keys":[`+strings.Join(kids, ",")+`]}`), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("old")
	clock := newFakeClock()
	f, err := OpenKeyFile(KeyFile{Path: path, Now: clock.Now})
	if err != nil {
		t.Fatal(err)
	}
	if got := idsOf(t, f, "next"); got != "key_unknown" {
		t.Error(got)
	}
	write("old", "next")
	if got := idsOf(t, f, "next"); got != "next" {
		t.Error(got)
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	var e *Error
	if _, err := f.Key(t.Context(), "later"); !errors.As(err, &e) || e.Code != KeysUnavailable || e.RetryAfter <= 0 {
		t.Errorf("while the file is missing: %v", err)
	}
	if got := idsOf(t, f, "old"); got != "old" {
		t.Error(got)
	}
}

func TestKeyFileHoldsASecretOrAKeySet(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	secret, set := filepath.Join(dir, "secret"), filepath.Join(dir, "set.json")
	if err := os.WriteFile(secret, []byte("0123456789abcdef\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	a, b := newPair(t, "a", Ed25519).key, newPair(t, "b", ECDSAP256SHA256).key
	text := `{"keys":[` + string(jwkOf(t, "a", "EdDSA", a.Public())) + "," +
		string(jwkOf(t, "b", "ES256", b.Public())) + `]}`
	if err := os.WriteFile(set, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	f, err := OpenKeyFile(KeyFile{Path: secret, ID: "s", Alg: HMACSHA256})
	if err != nil {
		t.Fatal(err)
	}
	same, err := NewHMACKey("s", []byte("0123456789abcdef"))
	if err != nil {
		t.Fatal(err)
	}
	if keys, err := f.Key(t.Context(), "s"); err != nil || keys[0].Fingerprint() != same.Fingerprint() {
		t.Errorf("%v, %v", keys, err)
	}
	f, err = OpenKeyFile(KeyFile{Path: set})
	if err != nil {
		t.Fatal(err)
	}
	if got := idsOf(t, f, ""); got != "a b" {
		t.Errorf("got %q", got)
	}
}
