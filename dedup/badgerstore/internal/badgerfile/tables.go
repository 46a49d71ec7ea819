package badgerfile

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/dgraph-io/badger/v4"
	"github.com/dgraph-io/badger/v4/pb"
	"github.com/dgraph-io/badger/v4/table"
	"github.com/dgraph-io/badger/v4/y"
)

// CheckTables verifies MANIFEST to its last byte, and every table in it, before Badger opens them:
// Badger opens tables in its own goroutines, where a damaged one ends the process.
func CheckTables(dir string, o badger.Options) error {
	path := filepath.Join(dir, badger.ManifestFilename)
	if _, _, err := CheckManifest(path, Manifest{}); err != nil {
		return err
	}
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		if tables, _ := filepath.Glob(filepath.Join(dir, "*.sst")); len(tables) > 0 {
			return fmt.Errorf("%s is missing", badger.ManifestFilename)
		}
		return nil // a new database
	} else if err != nil {
		return err
	}
	manifest, _, err := badger.ReplayManifestFile(f, 0, o)
	if err := errors.Join(err, f.Close()); err != nil {
		return fmt.Errorf("%s: %w", badger.ManifestFilename, err)
	}
	// Badger leaks goroutines if it cannot read the key registry.
	keys, err := badger.OpenKeyRegistry(badger.KeyRegistryOptions{Dir: dir, ReadOnly: true})
	if err != nil {
		return fmt.Errorf("%s: %w", badger.KeyRegistryFileName, err)
	}
	if err := keys.Close(); err != nil {
		return err
	}
	for id, t := range manifest.Tables {
		path := table.NewFilename(id, dir)
		if err := CheckTable(path, id, table.Options{BlockSize: o.BlockSize, Compression: t.Compression}); err != nil {
			return fmt.Errorf("table %s: %w", filepath.Base(path), err)
		}
	}
	return nil
}

// CheckTable verifies the index and the blocks of one table.
func CheckTable(path string, id uint64, o table.Options) (err error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	if err := checkTableIndex(data); err != nil {
		return err
	}
	defer func() {
		if p := recover(); p != nil { // from a block that does not decode
			err = fmt.Errorf("unreadable block: %v", p)
		}
	}()
	t, err := table.OpenInMemoryTable(data, id, &o)
	if err != nil {
		return err
	}
	return t.VerifyChecksum()
}

// checkTableIndex verifies the end of a table, where Badger panics on damage: index, length of
// the index (4), checksum (protocol buffer), length of the checksum (4).
func checkTableIndex(data []byte) error {
	short := errors.New("truncated index")
	cut := func() (last []byte, ok bool) { // the last part, which its length follows
		end := len(data) - 4
		if end < 0 {
			return nil, false
		}
		start := int64(end) - int64(binary.BigEndian.Uint32(data[end:]))
		if start < 0 {
			return nil, false
		}
		last, data = data[start:end], data[:start]
		return last, true
	}
	sum, ok := cut()
	if !ok {
		return short
	}
	want, ok := tableSum(sum)
	if !ok {
		return errors.New("unreadable checksum of the index")
	}
	index, ok := cut()
	if !ok || len(index) == 0 {
		return short
	}
	return y.VerifyChecksum(index, want)
}

// tableSum decodes Badger's Checksum message: field 1 is the algorithm, 2 the sum, both varints.
func tableSum(b []byte) (*pb.Checksum, bool) {
	out := &pb.Checksum{}
	for len(b) > 0 {
		field := b[0]
		n, size := binary.Uvarint(b[1:])
		if size <= 0 {
			return nil, false
		}
		switch {
		case field == 1<<3 && n <= uint64(pb.Checksum_XXHash64):
			out.Algo = pb.Checksum_Algorithm(n) //nolint:gosec // bounded
		case field == 2<<3:
			out.Sum = n
		default:
			return nil, false
		}
		b = b[1+size:]
	}
	return out, true
}
