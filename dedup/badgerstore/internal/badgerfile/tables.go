package badgerfile

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"

	"github.com/dgraph-io/badger/v4"
	"github.com/dgraph-io/badger/v4/fb"
	"github.com/dgraph-io/badger/v4/options"
	"github.com/dgraph-io/badger/v4/pb"
	"github.com/dgraph-io/badger/v4/table"
	"github.com/dgraph-io/badger/v4/y"
	"google.golang.org/protobuf/proto"
)

// CheckTables verifies every table in a MANIFEST that was verified, except some that were verified
// before. Badger opens tables in its own goroutines, where a damaged one ends the process. manifest
// is nil if there is none.
func CheckTables(dir string, o badger.Options, manifest []byte, except ...uint64) error {
	if manifest == nil {
		if files, _ := filepath.Glob(filepath.Join(dir, "*.sst")); len(files) > 0 {
			return fmt.Errorf("%s is missing", badger.ManifestFilename)
		}
		return nil // a new database
	}
	tables, err := tablesOf(manifest, o)
	if err != nil {
		return err
	}
	// Badger leaks goroutines if it cannot read the key registry.
	keys, err := badger.OpenKeyRegistry(badger.KeyRegistryOptions{Dir: dir, ReadOnly: true})
	if err != nil {
		return fmt.Errorf("%s: %w", badger.KeyRegistryFileName, err)
	}
	if err := keys.Close(); err != nil {
		return err
	}
	for _, id := range except {
		delete(tables, id)
	}
	ids := slices.Collect(maps.Keys(tables))
	errs := make([]error, runtime.GOMAXPROCS(0))
	var checks sync.WaitGroup
	for i := range errs {
		checks.Go(func() {
			var buffer []byte // of all tables, because their memory costs as much as their content
			for n := i; n < len(ids) && errs[i] == nil; n += len(errs) {
				path := table.NewFilename(ids[n], dir)
				if err := checkTable(path, ids[n], tables[ids[n]], &buffer); err != nil {
					errs[i] = fmt.Errorf("table %s: %w", filepath.Base(path), err)
				}
			}
		})
	}
	checks.Wait()
	return errors.Join(errs...)
}

// ReadManifest verifies MANIFEST and returns its whole records, nil if there is none. Badger may
// append to it meanwhile.
func ReadManifest(dir string) ([]byte, error) {
	data, _, err := readManifest(dir, Manifest{})
	return data, err
}

// readManifest verifies MANIFEST against a checkpoint and returns its whole records, nil if there
// is no file and there need not be.
func readManifest(dir string, m Manifest) (data []byte, rewritten bool, err error) {
	data, err = os.ReadFile(filepath.Join(dir, badger.ManifestFilename))
	if errors.Is(err, fs.ErrNotExist) && m.Length == 0 {
		return nil, false, nil
	} else if err != nil {
		return nil, false, err
	}
	end, rewritten, err := checkManifest(data, m)
	return data[:end], rewritten, err
}

// Tables returns how the tables in MANIFEST are read.
func Tables(dir string, o badger.Options) (map[uint64]table.Options, error) {
	manifest, err := ReadManifest(dir)
	if err != nil {
		return nil, err
	}
	return tablesOf(manifest, o)
}

func tablesOf(manifest []byte, o badger.Options) (map[uint64]table.Options, error) {
	if !strings.HasPrefix(string(manifest), manifestStart) {
		return nil, fmt.Errorf("%s does not begin as one of this version of Badger", badger.ManifestFilename)
	}
	records, err := parseRecords(manifest, firstRecord)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", badger.ManifestFilename, err)
	}
	tables := map[uint64]table.Options{}
	for _, r := range records {
		deleted, created := r.split()
		for _, c := range created {
			tables[c.Id] = table.Options{BlockSize: o.BlockSize, Compression: options.CompressionType(c.Compression)}
		}
		for _, c := range deleted {
			delete(tables, c.Id)
		}
	}
	return tables, nil
}

// CheckTable verifies the index and the blocks of one table.
func CheckTable(path string, id uint64, o table.Options) (err error) {
	return checkTable(path, id, o, new([]byte))
}

// checkTable is CheckTable with a buffer, which it replaces by a larger one if it has to.
func checkTable(path string, id uint64, o table.Options, buffer *[]byte) (err error) {
	data, err := readFile(path, buffer)
	if err != nil {
		return err
	}
	if _, err := tableIndex(data); err != nil {
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

func readFile(path string, buffer *[]byte) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }() // it was only read
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	*buffer = slices.Grow((*buffer)[:0], int(info.Size()))[:info.Size()]
	_, err = io.ReadFull(f, *buffer)
	return *buffer, err
}

// TableKeys returns the number of keys in a table. A file that is not a whole table is an error.
func TableKeys(path string) (keys uint32, err error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return 0, err
	}
	index, err := tableIndex(data)
	if err != nil {
		return 0, err
	}
	return fb.GetRootAsTableIndex(index, 0).KeyCount(), nil
}

// tableIndex verifies and returns the index at the end of a table, where Badger panics on damage:
// index, length of the index (4), checksum (protocol buffer), length of the checksum (4).
func tableIndex(data []byte) ([]byte, error) {
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
		return nil, short
	}
	var want pb.Checksum
	err := proto.Unmarshal(sum, &want)
	if _, known := pb.Checksum_Algorithm_name[int32(want.Algo)]; err != nil || !known {
		return nil, errors.New("unreadable checksum of the index")
	}
	index, ok := cut()
	if !ok || len(index) == 0 {
		return nil, short
	}
	return index, y.VerifyChecksum(index, &want)
}
