package badgerfile

import (
	"bytes"
	"encoding/binary"
	"hash/crc32"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/dgraph-io/badger/v4"
	"github.com/dgraph-io/badger/v4/options"
	"github.com/dgraph-io/badger/v4/pb"
	"github.com/dgraph-io/badger/v4/table"
	"google.golang.org/protobuf/proto"
)

func remove(t *testing.T, dir string, tables ...uint64) {
	t.Helper()
	for _, id := range tables {
		if err := os.Remove(table.NewFilename(id, dir)); err != nil {
			t.Fatal(err)
		}
	}
}

// mend returns the tables of a mended MANIFEST, and whether all of them are whole.
func mend(t *testing.T, dir string, at Manifest) (mended []byte, tables []uint64, whole bool) {
	t.Helper()
	o := badger.DefaultOptions(dir)
	mended, end, rewritten, err := MendManifest(dir, at)
	wantEnd, wantRewritten, _ := checkFile(filepath.Join(dir, badger.ManifestFilename), at)
	if err != nil || end != wantEnd || rewritten != wantRewritten {
		t.Fatalf("it ends at %d, rewritten %v: %v; want %d, %v", end, rewritten, err, wantEnd, wantRewritten)
	}
	all, err := tablesOf(mended, o)
	if err != nil {
		t.Fatal(err)
	}
	for id := range all {
		tables = append(tables, id)
	}
	slices.Sort(tables)
	return mended, tables, CheckTables(dir, o, mended) == nil
}

// TestATableIsLostOnlyBehindTheCheckpoint deletes tables of a database with several.
func TestATableIsLostOnlyBehindTheCheckpoint(t *testing.T) {
	t.Parallel()
	path, data, noted := grown(t)
	dir := filepath.Dir(path)
	check := func(at Manifest, wantWhole bool, want ...uint64) {
		t.Helper()
		if _, tables, whole := mend(t, dir, at); !slices.Equal(tables, want) || whole != wantWhole {
			t.Errorf("behind byte %d tables %v are left, want %v; whole: %v", at.Length, tables, want, whole)
		}
	}
	check(Manifest{}, true, 1, 2, 3, 4)
	remove(t, dir, 2, 4)
	check(Manifest{}, true, 1, 3)
	check(noted[0], true, 1, 3)
	check(noted[1], false, 1, 2, 3)
	check(noted[3], false, 1, 2, 3, 4)
	rewrite(t, path, data) // nothing is behind a checkpoint
	check(noted[0], false, 1, 2, 3, 4)
	write(t, path, data)
	mended, _, _ := mend(t, dir, noted[0])
	write(t, path, mended)
	check(noted[0], true, 1, 3)
	db, err := badger.Open(badger.DefaultOptions(dir).WithLogger(nil))
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

// change appends a record that creates and deletes tables.
func change(t *testing.T, manifest []byte, level uint32, created []uint64, deleted ...uint64) []byte {
	t.Helper()
	var set pb.ManifestChangeSet
	for _, id := range created {
		set.Changes = append(set.Changes, &pb.ManifestChange{Id: id, Level: level, Compression: uint32(options.Snappy)})
	}
	for _, id := range deleted {
		set.Changes = append(set.Changes, &pb.ManifestChange{Id: id, Op: pb.ManifestChange_DELETE})
	}
	content, err := proto.Marshal(&set)
	if err != nil {
		t.Fatal(err)
	}
	manifest = binary.BigEndian.AppendUint32(slices.Clone(manifest), uint32(len(content)))
	manifest = binary.BigEndian.AppendUint32(manifest, crc32.Checksum(content, castagnoli))
	return append(manifest, content...)
}

// TestACompactionThatWasNotFlushedIsLeftOut appends what Badger leaves of compactions, and deletes
// tables that they created or read.
func TestACompactionThatWasNotFlushedIsLeftOut(t *testing.T) {
	t.Parallel()
	all := []uint64{1, 2, 3, 4}
	for _, level := range []uint32{0, 6} {
		for name, c := range map[string]struct {
			append  func(whole []byte) []byte
			removed []uint64
			leftOut bool
			want    []uint64 // of the mended file
			damaged bool
		}{
			"without its table": {
				append:  func(b []byte) []byte { return change(t, b, level, []uint64{99}, 2, 3) },
				leftOut: true, want: all,
			},
			"without one of its tables": {
				append:  func(b []byte) []byte { return change(t, b, level, []uint64{4, 99}, 2, 3) },
				leftOut: true, want: all,
			},
			"without its table and one that it read": {
				append:  func(b []byte) []byte { return change(t, b, level, []uint64{99}, 2, 3) },
				removed: []uint64{3}, want: []uint64{1, 4, 99}, damaged: true,
			},
			"with its table": {
				append: func(b []byte) []byte { return change(t, b, level, []uint64{4}, 2, 3) },
				want:   []uint64{1, 4},
			},
			"that was repeated": {
				append: func(b []byte) []byte {
					return change(t, change(t, b, level, []uint64{99}, 2, 3), level, []uint64{4}, 2, 3)
				},
				removed: []uint64{2, 3}, leftOut: true, want: []uint64{1, 4},
			},
			"whose table was compacted": {
				append: func(b []byte) []byte {
					return change(t, change(t, b, level, []uint64{99}, 2), level, []uint64{4}, 99)
				},
				removed: []uint64{2}, want: []uint64{1, 3, 4},
			},
			"of tables that all ended": {
				append:  func(b []byte) []byte { return change(t, b, level, nil, 2, 3) },
				removed: []uint64{2}, want: []uint64{1, 4},
			},
		} {
			path, data, noted := grown(t)
			dir := filepath.Dir(path)
			remove(t, dir, c.removed...)
			whole := c.append(data)
			write(t, path, whole)
			mended, tables, isWhole := mend(t, dir, noted[3])
			if !slices.Equal(tables, c.want) || isWhole == c.damaged || bytes.Equal(mended, whole) == c.leftOut {
				t.Errorf("level %d, %s: tables %v, want %v; whole: %v", level, name, tables, c.want, isWhole)
			}
			if at := mustSync(t, openManifest(t, dir)); !c.damaged {
				if again, _, _ := mend(t, dir, at); !bytes.Equal(again, whole) {
					t.Errorf("level %d, %s: a record is left out before the checkpoint", level, name)
				}
			}
		}
	}
}

// TestATableOfACompactionIsNotLost adds missing tables to two levels. Badger flushes the directory
// of a compaction before MANIFEST names its tables.
func TestATableOfACompactionIsNotLost(t *testing.T) {
	t.Parallel()
	path, data, noted := grown(t)
	data = change(t, change(t, data, 6, []uint64{99}), 0, []uint64{98})
	write(t, path, data)
	_, tables, whole := mend(t, filepath.Dir(path), noted[3])
	if whole || !slices.Equal(tables, []uint64{1, 2, 3, 4, 99}) {
		t.Errorf("tables %v are left, whole: %v", tables, whole)
	}
}
