package badgerfile

import (
	"encoding/binary"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/dgraph-io/badger/v4"
)

// TestTablesAreReadWhileManifestGrows reads a short MANIFEST while a record is appended that is
// longer than it. Without another attempt one reading of twenty fails.
func TestTablesAreReadWhileManifestGrows(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	o := badger.DefaultOptions(dir).WithLogger(nil)
	db, err := badger.Open(o)
	if err != nil {
		t.Fatal(err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, badger.ManifestFilename)
	short, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	record := change(t, nil, 0, nil, make([]uint64, 400)...)
	for range 300 {
		write(t, path, short)
		f, err := os.OpenFile(path, os.O_WRONLY|os.O_APPEND, 0)
		if err != nil {
			t.Fatal(err)
		}
		var appending sync.WaitGroup
		appending.Go(func() {
			if _, err := f.Write(record); err != nil {
				t.Error(err)
			}
		})
		if _, err := Tables(dir, o); err != nil {
			t.Error(err)
		}
		appending.Wait()
		if err := f.Close(); err != nil {
			t.Error(err)
		}
	}
	write(t, path, record)
	if _, err := Tables(dir, o); err == nil {
		t.Error("a MANIFEST without a head is read")
	}
}

func FuzzTableIndex(f *testing.F) {
	f.Add([]byte("index\x00\x00\x00\x05\x08\x00\x10\x07\x00\x00\x00\x04"))
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, data []byte) {
		if _, err := tableIndex(data); err == nil {
			n := len(data)
			if sum := int(binary.BigEndian.Uint32(data[n-4:])); sum > n-9 {
				t.Errorf("a checksum of %d bytes in a table of %d passes", sum, n)
			}
		}
	})
}
