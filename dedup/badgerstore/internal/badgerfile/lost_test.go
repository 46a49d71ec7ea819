package badgerfile

import (
	"encoding/binary"
	"hash/crc32"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/dgraph-io/badger/v4"
	"github.com/dgraph-io/badger/v4/table"
)

// TestATableIsLostOnlyBehindTheCheckpoint deletes tables of a database with several.
func TestATableIsLostOnlyBehindTheCheckpoint(t *testing.T) {
	t.Parallel()
	path, data, noted := grown(t)
	dir := filepath.Dir(path)
	o := badger.DefaultOptions(dir).WithLogger(nil)
	check := func(at Manifest, want ...uint64) {
		t.Helper()
		lost, err := LostTables(dir, at)
		if err != nil || !slices.Equal(lost, want) {
			t.Errorf("behind byte %d tables %v are lost, want %v: %v", at.Length, lost, want, err)
		}
	}
	check(Manifest{})
	for _, id := range []uint64{2, 4} {
		if err := os.Remove(table.NewFilename(id, dir)); err != nil {
			t.Fatal(err)
		}
	}
	check(Manifest{}, 2, 4)
	check(noted[0], 2, 4)
	check(noted[1], 4)
	check(noted[3])
	if err := CheckTables(dir, o, 4); err == nil {
		t.Error("table 2 is missing, and nothing is noticed")
	}
	if err := CheckTables(dir, o, 2, 4); err != nil {
		t.Error(err)
	}
	if deletes := AppendDeletes(data, nil); len(deletes) != len(data) {
		t.Error("no table is deleted, and a record is written")
	}
	rewrite(t, path, data) // nothing is behind a checkpoint
	check(noted[0])
	write(t, path, AppendDeletes(data, []uint64{2, 4}))
	check(noted[0])
	if err := CheckTables(dir, o); err != nil {
		t.Error(err)
	}
	db, err := badger.Open(o)
	if err != nil {
		t.Fatal(err)
	}
	if n := len(db.Tables()); n != 2 {
		t.Errorf("%d tables are left", n)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
}

// TestATableOfACompactionIsNotLost adds missing tables to two levels. Badger flushes the directory
// of a compaction before MANIFEST names its tables.
func TestATableOfACompactionIsNotLost(t *testing.T) {
	t.Parallel()
	path, data, noted := grown(t)
	record := []byte{0x0a, 4, 0x08, 99, 0x18, 6, 0x0a, 2, 0x08, 98} // table 99 in level 6, 98 in level 0
	data = binary.BigEndian.AppendUint32(data, uint32(len(record)))
	data = binary.BigEndian.AppendUint32(data, crc32.Checksum(record, castagnoli))
	write(t, path, append(data, record...))
	lost, err := LostTables(filepath.Dir(path), noted[3])
	if err != nil || !slices.Equal(lost, []uint64{98}) {
		t.Errorf("%v, %v", lost, err)
	}
}
