package badgerstore

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/eyelet-dev/eyelet/dedup"
	"github.com/eyelet-dev/eyelet/dedup/badgerstore/internal/kv"
	"github.com/eyelet-dev/eyelet/dedup/badgerstore/internal/storedir"
)

// oneBackup returns a backup of a store with an event.
func oneBackup(t *testing.T) []byte {
	t.Helper()
	s := open(t, t.TempDir(), quiet())
	mustClaim(t, s, claimOf("first"), dedup.New)
	return backup(t, s)
}

func TestAFailedRestoreCanBeRepeated(t *testing.T) {
	t.Parallel()
	whole := oneBackup(t)
	canceled, cancel := context.WithCancel(context.Background())
	cancel()
	for name, tt := range map[string]struct {
		ctx    context.Context //nolint:containedctx // an argument
		backup []byte
	}{
		"not a backup": {t.Context(), []byte("{}")},
		"a half":       {t.Context(), whole[:len(whole)/2]},
		"canceled":     {canceled, whole},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			if err := os.Mkdir(filepath.Join(dir, "lost+found"), 0o700); err != nil {
				t.Fatal(err)
			}
			for range 2 {
				if err := Restore(tt.ctx, dir, quiet(), bytes.NewReader(tt.backup)); err == nil {
					t.Fatal("the restore succeeds")
				}
				checkNames(t, dir, "lost+found", storedir.RestoreFailedFile)
			}
			if _, err := Open(dir, quiet()); err == nil || !strings.Contains(err.Error(), "restore again") {
				t.Errorf("the directory is opened: %v", err)
			}
			if err := Restore(context.Background(), dir, quiet(), bytes.NewReader(whole)); err != nil {
				t.Errorf("a good backup afterwards: %v", err)
			}
			if _, err := os.Lstat(filepath.Join(dir, storedir.RestoreFailedFile)); err == nil {
				t.Error("the restored store has the file of a failed restore")
			}
			mustClaim(t, open(t, dir, quiet()), claimOf("first"), dedup.Known)
		})
	}
}

// checkNames compares the names in a directory.
func checkNames(t *testing.T, dir string, want ...string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	var got []string
	for _, e := range entries {
		got = append(got, e.Name())
	}
	if err != nil || strings.Join(got, " ") != strings.Join(want, " ") {
		t.Errorf("%s has %v (%v), want %v", dir, got, err, want)
	}
}

// readFunc is a reader of one call.
type readFunc func() error

func (f readFunc) Read([]byte) (int, error) { return 0, f() }

func TestAFailedRestoreLeavesTheFilesOfOthers(t *testing.T) {
	t.Parallel()
	whole := oneBackup(t)
	dir := filepath.Join(t.TempDir(), "store")
	in := io.MultiReader(bytes.NewReader(whole[:len(whole)/2]), readFunc(func() error {
		return errors.Join(os.WriteFile(filepath.Join(dir, "notes"), []byte("mine"), 0o600), io.ErrUnexpectedEOF)
	}))
	if err := Restore(context.Background(), dir, quiet(), iotest.OneByteReader(in)); err == nil {
		t.Fatal("the restore succeeds")
	}
	checkNames(t, dir, "notes", storedir.RestoreFailedFile)
}

// TestRestoreLeavesAStoreThatWasMadeMeanwhile: another restore ends between the look at the
// directory and the lock.
func TestRestoreLeavesAStoreThatWasMadeMeanwhile(t *testing.T) {
	t.Parallel()
	whole := oneBackup(t)
	dir := t.TempDir()
	lock, err := storedir.LockDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	_ = os.Remove(filepath.Join(dir, storedir.LockFile)) // as if the lock were taken after the look
	file := filepath.Join(dir, kv.CheckpointFile)
	failed := make(chan error, 1)
	go func() {
		err := Restore(context.Background(), dir, quiet(), bytes.NewReader(whole))
		failed <- err
	}()
	time.Sleep(50 * time.Millisecond) // it waits for the lock; without the wait the test checks less
	if err := os.WriteFile(file, []byte("of another"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := lock.Release(); err != nil {
		t.Fatal(err)
	}
	if err := <-failed; err == nil {
		t.Error("the restore succeeds")
	}
	if text, err := os.ReadFile(file); err != nil || string(text) != "of another" {
		t.Errorf("the file of the other store has %q (%v)", text, err)
	}
}
