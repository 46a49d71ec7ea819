package badgerfile

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/dgraph-io/badger/v4"
)

// manifestDir returns a directory with a MANIFEST that Badger has written.
func manifestDir(t *testing.T, tables int) string {
	t.Helper()
	dir := t.TempDir()
	for i := range tables {
		db, err := badger.Open(badger.DefaultOptions(dir).WithLogger(nil))
		if err != nil {
			t.Fatal(err)
		}
		err = db.Update(func(txn *badger.Txn) error { return txn.Set([]byte{byte(i)}, []byte("value")) })
		if err != nil {
			t.Fatal(err)
		}
		if err := db.Close(); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func TestManifestFileNotesWhatWasAppended(t *testing.T) {
	t.Parallel()
	dir := manifestDir(t, 2)
	path := filepath.Join(dir, badger.ManifestFilename)
	m, err := OpenManifest(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = m.Close() }()
	first, err := m.Sync()
	if err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(path); err != nil || info.Size() != first.Length {
		t.Errorf("length %d, want %d, error %v", first.Length, info.Size(), err)
	}
	if end, rewritten, err := CheckManifest(path, first); err != nil || rewritten || end != first.Length {
		t.Errorf("end %d, rewritten %v, error %v", end, rewritten, err)
	}
}
