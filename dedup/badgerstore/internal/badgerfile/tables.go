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
	"sync"

	"github.com/dgraph-io/badger/v4"
	"github.com/dgraph-io/badger/v4/fb"
	"github.com/dgraph-io/badger/v4/pb"
	"github.com/dgraph-io/badger/v4/table"
	"github.com/dgraph-io/badger/v4/y"
	"google.golang.org/protobuf/proto"
)

// CheckTables verifies MANIFEST to its last byte, and every table in it except some, which are lost
// or were verified, before Badger opens them: Badger opens tables in its own goroutines, where a
// damaged one ends the process.
func CheckTables(dir string, o badger.Options, except ...uint64) error {
	if _, _, err := CheckManifest(filepath.Join(dir, badger.ManifestFilename), Manifest{}); err != nil {
		return err
	}
	tables, err := Tables(dir, o)
	if errors.Is(err, fs.ErrNotExist) {
		if files, _ := filepath.Glob(filepath.Join(dir, "*.sst")); len(files) > 0 {
			return fmt.Errorf("%s is missing", badger.ManifestFilename)
		}
		return nil // a new database
	} else if err != nil {
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

// Tables returns how the tables in MANIFEST are read. Badger may append to it meanwhile.
func Tables(dir string, o badger.Options) (map[uint64]table.Options, error) {
	f, err := os.Open(filepath.Join(dir, badger.ManifestFilename))
	if err != nil {
		return nil, err
	}
	manifest, err := readManifest(f, o)
	if err := errors.Join(err, f.Close()); err != nil {
		return nil, fmt.Errorf("%s: %w", badger.ManifestFilename, err)
	}
	tables := make(map[uint64]table.Options, len(manifest.Tables))
	for id, t := range manifest.Tables {
		tables[id] = table.Options{BlockSize: o.BlockSize, Compression: t.Compression}
	}
	return tables, nil
}

// readManifest reads MANIFEST again if it grew meanwhile: Badger calls a record damaged that is
// longer than the file was.
func readManifest(f *os.File, o badger.Options) (badger.Manifest, error) {
	for {
		before, err := f.Stat()
		if err != nil {
			return badger.Manifest{}, err
		}
		manifest, _, err := badger.ReplayManifestFile(f, 0, o)
		if err == nil {
			return manifest, nil
		}
		if after, statErr := f.Stat(); statErr != nil || after.Size() == before.Size() {
			return badger.Manifest{}, err
		}
		if _, err := f.Seek(0, io.SeekStart); err != nil {
			return badger.Manifest{}, err
		}
	}
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
	f, err := os.Open(path)
	if err != nil {
		return 0, err
	}
	defer func() { _ = f.Close() }()
	info, err := f.Stat()
	if err != nil {
		return 0, err
	}
	for size := int64(64 << 10); ; size *= 4 {
		size = min(size, info.Size())
		end := make([]byte, size)
		if _, err := f.ReadAt(end, info.Size()-size); err != nil {
			return 0, err
		}
		index, err := tableIndex(end)
		if err == nil {
			return fb.GetRootAsTableIndex(index, 0).KeyCount(), nil
		}
		if size == info.Size() {
			return 0, err
		}
	}
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
