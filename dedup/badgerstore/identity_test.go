package badgerstore

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/eyelet-dev/eyelet/dedup"
	"github.com/eyelet-dev/eyelet/dedup/badgerstore/internal/storedir"
)

// backupChain is a store and its backups: a full one, and an increment after each later event.
type backupChain struct {
	store *Store
	files [][]byte
	at    []Position
}

func chainOf(t *testing.T, s *Store, ids ...string) *backupChain {
	t.Helper()
	h := &backupChain{store: s}
	h.add(t, ids...)
	return h
}

// add accepts events, and makes a backup before the first and after each.
func (h *backupChain) add(t *testing.T, ids ...string) {
	t.Helper()
	for i := -1; i < len(ids); i++ {
		if i >= 0 {
			mustClaim(t, h.store, claimOf(ids[i]), dedup.New)
		} else if len(h.at) > 0 {
			continue
		}
		since := Position{}
		if n := len(h.at); n > 0 {
			since = h.at[n-1]
		}
		file, at := backup(t, h.store, since)
		h.files, h.at = append(h.files, file), append(h.at, at)
	}
}

func tryRestore(t *testing.T, o Options, backups ...[]byte) error {
	t.Helper()
	var in []io.Reader
	for _, b := range backups {
		in = append(in, bytes.NewReader(b))
	}
	dir := t.TempDir()
	_, err := Restore(context.Background(), dir, o, in...)
	if err != nil {
		if s, err := Open(dir, quiet()); err == nil {
			t.Error("a store that was not restored was opened", s.Close())
		}
	}
	return err
}

// breaks checks that backups are not a chain, because of the one with a number from 1.
func breaks(t *testing.T, want string, number int, backups ...[]byte) {
	t.Helper()
	err := tryRestore(t, quiet(), backups...)
	var c *ChainError
	if !errors.As(err, &c) || !c.Restoring || !strings.Contains(err.Error(), want) ||
		!strings.Contains(err.Error(), "; pass ") ||
		!strings.HasPrefix(err.Error(), fmt.Sprintf("backup %d: ", number)) {
		t.Errorf("error %v, want that backup %d is refused because %q", err, number, want)
	}
}

func TestOnlyTheBackupsOfOneStoreInTheirOrderAreAChain(t *testing.T) {
	t.Parallel()
	// Both stores do the same, so that versions and keys match: only their identities differ.
	one := chainOf(t, open(t, t.TempDir(), quiet()), "a", "b", "c")
	two := chainOf(t, open(t, t.TempDir(), quiet()), "a", "b", "c")
	for i := range one.at {
		if one.at[i].Version != two.at[i].Version || one.at[i].Store == two.at[i].Store {
			t.Fatalf("positions %v and %v", one.at[i], two.at[i])
		}
	}
	f, g := one.files, two.files
	breaks(t, "another store", 2, f[0], g[1])
	breaks(t, "another store", 3, f[0], f[1], g[2])
	breaks(t, "another store", 2, g[0], f[1], g[2])
	breaks(t, "the missing increment", 2, f[0], f[2], f[3])
	breaks(t, "each increment once", 3, f[0], f[1], f[1])
	breaks(t, "each increment once", 4, f[0], f[1], f[2], f[1])
	breaks(t, "the missing increment", 2, f[0], f[2], f[1])
	breaks(t, "it is a full one", 2, f[0], f[0])
	breaks(t, "it is a full one", 2, f[0], g[0])
	if diff := cmp.Diff(everything(t, one.store), everything(t, restore(t, f...)), bodies); diff != "" {
		t.Error(diff)
	}
}

func TestARestoredStoreHasANewIdentity(t *testing.T) {
	t.Parallel()
	original := chainOf(t, open(t, t.TempDir(), quiet()), "a", "b")
	restored := restore(t, original.files...)
	var c *ChainError
	for _, since := range original.at {
		var b bytes.Buffer
		if _, err := restored.Backup(context.Background(), &b, since); !errors.As(err, &c) || c.Restoring ||
			b.Len() > 0 ||
			!strings.Contains(err.Error(), "before it was restored") ||
			!strings.Contains(err.Error(), "; make a full backup") {
			t.Errorf("an increment after %v: %d bytes, %v", since, b.Len(), err)
		}
	}
	// Both continue and reach the same versions.
	original.add(t, "c", "d", "e", "f", "g", "h")
	other := chainOf(t, restored, "c", "d", "e", "f", "g", "h")
	met := 0
	for i, p := range original.at {
		for j, q := range other.at {
			if p.Version != q.Version {
				continue
			}
			if i+1 < len(original.at) {
				met++
				breaks(t, "another store", j+2, append(other.files[:j+1:j+1], original.files[i+1])...)
			}
			if j+1 < len(other.at) {
				met++
				breaks(t, "another store", i+2, append(original.files[:i+1:i+1], other.files[j+1])...)
			}
		}
	}
	if met < 4 {
		t.Errorf("%d increments fit by their versions: the test shows nothing", met)
	}
	for _, h := range []*backupChain{original, other} { // each of them has its chain
		if diff := cmp.Diff(everything(t, h.store), everything(t, restore(t, h.files...)), bodies); diff != "" {
			t.Error(diff)
		}
	}
}

func TestAStoreKeepsItsIdentity(t *testing.T) {
	t.Parallel()
	h := chainOf(t, open(t, t.TempDir(), quiet()), "a")
	id := h.at[0].Store
	if !regexp.MustCompile(`^[0-9a-f]{32}$`).MatchString(id) {
		t.Errorf("identity %q", id)
	}
	shut(t, h.store)
	var b bytes.Buffer
	at, err := BackupDir(context.Background(), h.store.dir, quiet(), &b, h.at[1])
	if err != nil || at.Store != id {
		t.Errorf("%v, %v", at, err)
	}
	h.store = open(t, h.store.dir, quiet())
	h.files, h.at = append(h.files, b.Bytes()), append(h.at, at)
	h.add(t, "b")
	if diff := cmp.Diff(everything(t, h.store), everything(t, restore(t, h.files...)), bodies); diff != "" {
		t.Error(diff)
	}
}

// TestAStoreWithoutAnIdentityGetsOne opens a store whose file was lost or damaged.
func TestAStoreWithoutAnIdentityGetsOne(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(file string) error{
		"none":    os.Remove,
		"damaged": func(file string) error { return os.WriteFile(file, []byte("eyelet identity 00FF\n"), 0o600) },
		"empty":   func(file string) error { return os.Truncate(file, 0) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := chainOf(t, open(t, t.TempDir(), quiet()), "a")
			was := h.at[1]
			shut(t, h.store)
			dir, file := h.store.dir, filepath.Join(h.store.dir, storedir.IdentityFile)
			if err := change(file); err != nil {
				t.Fatal(err)
			}
			before := contents(t, dir)[storedir.IdentityFile]
			log, o := warned()
			var old bytes.Buffer
			at, err := BackupDir(context.Background(), dir, o, &old, Position{})
			if err != nil || at.Store != "" || at.Version < was.Version {
				t.Errorf("%v, %v", at, err)
			}
			if _, err := BackupDir(context.Background(), dir, o, io.Discard, was); !errors.As(err, new(*ChainError)) {
				t.Errorf("an increment after what may be another store: %v", err)
			}
			if now := contents(t, dir)[storedir.IdentityFile]; now != before {
				t.Errorf("a backup changed the identity to %q", now)
			}
			s := open(t, dir, o)
			mustClaim(t, s, claimOf("a"), dedup.Known)
			if text, err := os.ReadFile(file); err != nil || s.identity == was.Store ||
				string(text) != storedir.IdentityPrefix+s.identity+"\n" {
				t.Errorf("identity %q after %q; the file says %q, %v", s.identity, was.Store, text, err)
			}
			// Positions from before it had one are accepted with a warning, later ones are not.
			mustClaim(t, s, claimOf("b"), dedup.New)
			inc, then := backup(t, s, at)
			if !strings.Contains(log.String(), "does not name its store") {
				t.Errorf("the log says %s", log)
			}
			mustClaim(t, s, claimOf("c"), dedup.New)
			last, _ := backup(t, s, then)
			log.Reset()
			if err := tryRestore(t, o, old.Bytes(), inc, last); err != nil ||
				strings.Count(log.String(), "do not name their store") != 1 {
				t.Errorf("%v; the log says %s", err, log)
			}
			if err := tryRestore(t, o, h.files[0], last); !errors.As(err, new(*ChainError)) {
				t.Errorf("an increment of another identity: %v", err)
			}
		})
	}
}

// warned returns options and their log.
func warned() (*bytes.Buffer, Options) {
	log, o := &bytes.Buffer{}, quiet()
	o.Logger = slog.New(slog.NewTextHandler(log, &slog.HandlerOptions{Level: slog.LevelWarn}))
	return log, o
}

// TestANamelessIncrementBelongsToTheStoreOfItsChain: an accepted nameless increment does
// not hide what follows.
func TestANamelessIncrementBelongsToTheStoreOfItsChain(t *testing.T) {
	t.Parallel()
	one := chainOf(t, open(t, t.TempDir(), quiet()), "a", "b")
	two := chainOf(t, open(t, t.TempDir(), quiet()), "a", "b")
	one.store.identity = "" // its file is lost
	var b bytes.Buffer
	if _, err := one.store.Backup(context.Background(), &b, Position{Version: one.at[0].Version}); err != nil {
		t.Fatal(err)
	}
	nameless := b.Bytes()
	r, err := newBackupReader(bytes.NewReader(nameless))
	if err != nil || r.head.Store != "" || bytes.Contains(nameless[:120], []byte("store")) {
		t.Fatalf("%+v, %v", r, err)
	}
	if err := tryRestore(t, quiet(), one.files[0], nameless); err != nil {
		t.Error(err)
	}
	foreign, _ := backup(t, two.store, two.at[2])
	breaks(t, "another store", 3, one.files[0], nameless, foreign)
}

func TestPositionsAreReadAsTheyAreWritten(t *testing.T) {
	t.Parallel()
	for _, p := range []Position{{}, {Version: 7}, {Store: strings.Repeat("0f", 16), Version: 1 << 63}} {
		if q, err := ParsePosition(p.String()); err != nil || q != p {
			t.Errorf("%v is read as %v, %v", p, q, err)
		}
	}
	for _, text := range []string{"", "x", "-1", "7@", "7@0f", "@" + strings.Repeat("0f", 16),
		"7@" + strings.Repeat("0F", 16), "7@" + strings.Repeat("0f", 17)} {
		if p, err := ParsePosition(text); err == nil || !strings.Contains(err.Error(), "; write VERSION@STORE") {
			t.Errorf("%q is read as %v, %v", text, p, err)
		}
	}
}
