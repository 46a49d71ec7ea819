package badgerfile

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"math"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"syscall"
	"testing"

	"github.com/dgraph-io/badger/v4"
)

// grow opens and closes a database, which adds a table to its MANIFEST.
func grow(t *testing.T, dir string) {
	t.Helper()
	db, err := badger.Open(badger.DefaultOptions(dir).WithLogger(nil))
	if err != nil {
		t.Fatal(err)
	}
	err = db.Update(func(txn *badger.Txn) error { return txn.Set([]byte("key"), []byte("value")) })
	if err := errors.Join(err, db.Close()); err != nil {
		t.Fatal(err)
	}
}

func openManifest(t *testing.T, dir string) *ManifestFile {
	t.Helper()
	m, err := OpenManifest(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = m.Close() })
	return m
}

func mustSync(t *testing.T, m *ManifestFile) Manifest {
	t.Helper()
	at, err := m.Sync()
	if err != nil {
		t.Fatal(err)
	}
	return at
}

// grown returns the path of a MANIFEST of some records, its content, and what was noted of it after
// each table.
func grown(t *testing.T) (path string, data []byte, noted []Manifest) {
	t.Helper()
	grownOnce.Do(func() {
		dir := t.TempDir()
		m := openManifest(t, dir)
		for range 4 {
			grow(t, dir)
			grownNoted = append(grownNoted, mustSync(t, m))
		}
		entries, err := os.ReadDir(dir)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range entries {
			if grownFiles[e.Name()], err = os.ReadFile(filepath.Join(dir, e.Name())); err != nil {
				t.Fatal(err)
			}
		}
	})
	dir := t.TempDir()
	for name, text := range grownFiles {
		write(t, filepath.Join(dir, name), text)
	}
	return filepath.Join(dir, badger.ManifestFilename), bytes.Clone(grownFiles[badger.ManifestFilename]), grownNoted
}

// What grown returns: the files of a database of four tables, and its MANIFEST after each.
var (
	grownOnce  sync.Once
	grownFiles = map[string][]byte{}
	grownNoted []Manifest
)

// recordEnds returns where the records of a whole MANIFEST end, beginning with its head.
func recordEnds(data []byte) []int {
	ends := []int{firstRecord}
	for at := firstRecord; at < len(data); ends = append(ends, at) {
		at += manifestHead + int(binary.BigEndian.Uint32(data[at:]))
	}
	return ends
}

func write(t *testing.T, path string, data []byte) {
	t.Helper()
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
}

func checkFile(path string, m Manifest) (end int64, rewritten bool, err error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return 0, false, err
	}
	return checkManifest(data, m)
}

func TestManifestFileNotesWhatWasAppended(t *testing.T) {
	t.Parallel()
	path, data, noted := grown(t)
	if end, rewritten, err := checkFile(path, Manifest{}); err != nil || rewritten || end != int64(len(data)) {
		t.Errorf("nothing noted: end %d of %d, rewritten %v, error %v", end, len(data), rewritten, err)
	}
	for i, at := range noted {
		if sum := crc32.Checksum(data[:at.Length], castagnoli); at.Sum != sum || at.First != noted[0].First {
			t.Errorf("note %d: %+v, want sum %d", i, at, sum)
		}
		if !slices.Contains(recordEnds(data), int(at.Length)) || i > 0 && at.Length <= noted[i-1].Length {
			t.Errorf("note %d: %d bytes of records that end at %v", i, at.Length, recordEnds(data))
		}
		end, rewritten, err := checkFile(path, at)
		if err != nil || rewritten || end != int64(len(data)) {
			t.Errorf("note %d: end %d of %d, rewritten %v, error %v", i, end, len(data), rewritten, err)
		}
	}
	dir := filepath.Dir(path)
	m := openManifest(t, dir)
	if got, want := mustSync(t, m), noted[len(noted)-1]; got != want {
		t.Errorf("all at once: %+v, want %+v", got, want)
	}
	write(t, path, append(slices.Clone(data), data[firstRecord:firstRecord+5]...))
	if got, want := mustSync(t, m), noted[len(noted)-1]; got != want {
		t.Errorf("with a record that is being written: %+v, want %+v", got, want)
	}
}

func TestEveryCutOfManifestIsDamageOrTornAfterTheCheckpoint(t *testing.T) {
	t.Parallel()
	_, data, noted := grown(t)
	for n := range data {
		whole := int64(0)
		for _, end := range recordEnds(data) {
			if end <= n {
				whole = int64(end)
			}
		}
		for _, at := range noted {
			end, rewritten, err := checkManifest(data[:n], at)
			if int64(n) < at.Length && err == nil {
				t.Errorf("%d bytes of %d noted: rewritten %v, no error", n, at.Length, rewritten)
			}
			if int64(n) >= at.Length && (err != nil || rewritten || end != whole) {
				t.Errorf("%d bytes, %d noted: end %d of %d, %v, error %v", n, at.Length, end, whole, rewritten, err)
			}
		}
	}
}

func TestEveryFlippedBitOfManifestIsDamage(t *testing.T) {
	t.Parallel()
	_, data, noted := grown(t)
	for bit := range len(data) * 8 {
		bad := slices.Clone(data)
		bad[bit/8] ^= 1 << (bit % 8)
		for _, at := range noted {
			if end, rewritten, err := checkManifest(bad, at); err == nil {
				t.Errorf("bit %d, %d bytes noted: end %d, rewritten %v, no error", bit, at.Length, end, rewritten)
			}
		}
	}
}

// TestAHeadThatIsLostIsDamage overwrites the head of a record: it reaches beyond the end, with
// the checksum of nothing, as after a crash, but complete records follow.
func TestAHeadThatIsLostIsDamage(t *testing.T) {
	t.Parallel()
	_, data, noted := grown(t)
	ends := recordEnds(data)
	for i, at := range ends[:len(ends)-2] {
		bad := slices.Clone(data)
		copy(bad[at:], "\x7f\xff\xff\xff\x01\x02\x03\x04")
		if end, _, err := checkManifest(bad, Manifest{First: firstSum(bad)}); err == nil {
			t.Errorf("record %d of %d: end %d, no error", i, len(ends)-1, end)
		}
	}
	bad := slices.Clone(data)
	copy(bad[ends[len(ends)-2]:], "\x7f\xff\xff\xff\x01\x02\x03\x04")
	if end, _, err := checkManifest(bad, noted[2]); err != nil || end != int64(ends[len(ends)-2]) {
		t.Errorf("the last record: end %d of %d, %v", end, ends[len(ends)-2], err)
	}
}

// rewrite replaces MANIFEST as Badger does: by one record with the changes of all.
func rewrite(t *testing.T, path string, data []byte) []byte {
	t.Helper()
	var changes []byte
	for at := firstRecord; at < len(data); {
		from := at + manifestHead
		at = from + int(binary.BigEndian.Uint32(data[at:]))
		changes = append(changes, data[from:at]...)
	}
	fresh := slices.Clone(data[:firstRecord])
	fresh = binary.BigEndian.AppendUint32(fresh, uint32(len(changes)))
	fresh = binary.BigEndian.AppendUint32(fresh, crc32.Checksum(changes, castagnoli))
	fresh = append(fresh, changes...)
	write(t, path+".new", fresh)
	if err := os.Rename(path+".new", path); err != nil {
		t.Fatal(err)
	}
	return fresh
}

func TestARewrittenManifestIsNoticed(t *testing.T) {
	t.Parallel()
	path, data, noted := grown(t)
	dir := filepath.Dir(path)
	m := openManifest(t, dir)
	before := mustSync(t, m)
	held := m.file
	fresh := rewrite(t, path, data)
	grow(t, dir)

	after := mustSync(t, m)
	if after.First == before.First || after.Length <= int64(len(fresh)) {
		t.Errorf("%+v, before %+v", after, before)
	}
	if err := held.Sync(); !errors.Is(err, os.ErrClosed) {
		t.Errorf("the old file is still open: %v", err)
	}
	for _, at := range noted {
		if end, rewritten, err := checkFile(path, at); err != nil || !rewritten || end != after.Length {
			t.Errorf("the old checkpoint: end %d, rewritten %v, error %v", end, rewritten, err)
		}
	}
	if end, rewritten, err := checkFile(path, after); err != nil || rewritten || end != after.Length {
		t.Errorf("the new checkpoint: end %d, rewritten %v, error %v", end, rewritten, err)
	}

	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for bit := firstRecord * 8; bit < len(data)*8; bit++ { // Badger verifies the head itself
		bad := slices.Clone(data)
		bad[bit/8] ^= 1 << (bit % 8)
		if _, rewritten, err := checkManifest(bad, before); err == nil {
			t.Errorf("bit %d of the rewritten file: rewritten %v, no error", bit, rewritten)
		}
	}
	for n := range data {
		_, rewritten, err := checkManifest(data[:n], before)
		if rewritten != (n >= len(fresh)) || rewritten != (err == nil) {
			t.Errorf("%d bytes of the rewritten file: rewritten %v, error %v", n, rewritten, err)
		}
	}
}

func TestAMissingManifestIsDamageAfterTheFirstCheckpoint(t *testing.T) {
	t.Parallel()
	if mended, _, _, err := MendManifest(t.TempDir(), Manifest{}); mended != nil || err != nil {
		t.Error(mended, err)
	}
	if _, _, _, err := MendManifest(t.TempDir(), Manifest{Length: 16}); err == nil {
		t.Error("no error")
	}
}

func TestAFailedSyncOfManifestIsFinal(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	m := openManifest(t, dir)
	if _, err := m.Sync(); err == nil {
		t.Error("no file, and no error")
	}
	grow(t, dir)
	mustSync(t, m) // a lack of descriptors ends, too

	m = openManifest(t, dir)
	m.flush = func(*os.File) error { return syscall.EIO }
	if _, err := m.Sync(); !errors.Is(err, syscall.EIO) {
		t.Errorf("error %v", err)
	}
	m.flush = (*os.File).Sync
	if _, err := m.Sync(); !errors.Is(err, syscall.EIO) {
		t.Errorf("the second call: error %v", err)
	}
}

func TestARewrittenManifestIsFlushedAfterTheOldOne(t *testing.T) {
	t.Parallel()
	path, data, _ := grown(t)
	m := openManifest(t, filepath.Dir(path))
	mustSync(t, m)
	held := m.file
	rewrite(t, path, data)
	var flushed []*os.File
	m.flush = func(f *os.File) error {
		flushed = append(flushed, f)
		return f.Sync()
	}
	mustSync(t, m)
	if !slices.Equal(flushed, []*os.File{held, m.file}) || m.file == held {
		t.Errorf("flushed %v", flushed)
	}
	rewrite(t, path, data)
	held, m.flush = m.file, func(f *os.File) error {
		if f == held {
			return syscall.EIO
		}
		return nil
	}
	if _, err := m.Sync(); !errors.Is(err, syscall.EIO) {
		t.Errorf("a failed flush of the old file: %v", err)
	}
}

// TestManifestIsWholeWhileBadgerWrites notes MANIFEST while Badger writes tables and compacts them.
func TestManifestIsWholeWhileBadgerWrites(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	grow(t, dir)
	m := openManifest(t, dir)
	held := m.file
	o := badger.DefaultOptions(dir).WithLogger(nil).WithSyncWrites(false).WithNumCompactors(2).
		WithMemTableSize(64 << 10).WithBaseTableSize(64 << 10).WithValueThreshold(1 << 10).
		WithNumLevelZeroTables(1).WithNumLevelZeroTablesStall(2)
	db, err := badger.OpenManaged(o)
	if err != nil {
		t.Fatal(err)
	}
	noted := []Manifest{mustSync(t, m)}
	for i := range 2000 {
		txn := db.NewTransactionAt(math.MaxUint64, true)
		err := errors.Join(txn.Set(fmt.Append(nil, i), make([]byte, 500)), txn.CommitAt(uint64(i+1), nil))
		if err != nil {
			t.Fatal(err)
		}
		if at := mustSync(t, m); at != noted[len(noted)-1] {
			noted = append(noted, at)
		}
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	if m.file != held {
		t.Error("the descriptor is another one")
	}
	t.Logf("%d notes", len(noted))
	for _, at := range append(noted, mustSync(t, m)) {
		if _, rewritten, err := checkFile(m.path, at); err != nil || rewritten {
			t.Fatalf("%+v: rewritten %v, error %v", at, rewritten, err)
		}
	}
}
