package badgerfile

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/dgraph-io/badger/v4"
	"github.com/dgraph-io/badger/v4/table"
)

// MANIFEST is Badger's list of tables: a head of 8 bytes, then records of a length (4,
// big-endian), a CRC-32C (4) and so many bytes. A record that reaches beyond the end of the
// file is taken for one that a crash tore: Badger cuts the file off there, says nothing, and
// deletes every table that the rest does not name. One flipped bit in a length looks just like
// that.

// readManifest reads MANIFEST to its last byte. It refuses what no crash can have left there.
// missing says that there is none, as in a new store.
func readManifest(dir string, o badger.Options) (m badger.Manifest, missing bool, err error) {
	path := filepath.Join(dir, badger.ManifestFilename)
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return m, true, nil
	} else if err != nil {
		return m, false, err
	}
	defer func() { _ = f.Close() }()
	m, end, err := badger.ReplayManifestFile(f, 0, o)
	if err != nil {
		return m, false, fmt.Errorf("%s: %w", badger.ManifestFilename, err)
	}
	data, err := os.ReadFile(path)
	if err != nil {
		return m, false, err
	}
	if rest := data[min(int(end), len(data)):]; !tornRecord(rest) {
		return m, false, fmt.Errorf("%s: the record at byte %d is damaged", badger.ManifestFilename, end)
	}
	return m, false, nil
}

const manifestHead = 8 // of a record

// tornRecord reports whether a crash can have left what follows the last whole record: the
// beginning of one. It is not when its content is whole, under another length than it says, or
// a whole record follows.
func tornRecord(rest []byte) bool {
	if len(rest) <= manifestHead {
		return true
	}
	want, sum := binary.BigEndian.Uint32(rest[4:]), uint32(0)
	for i := manifestHead; i < len(rest); i++ {
		if sum = crc32.Update(sum, castagnoli, rest[i:i+1]); sum == want {
			return false
		}
	}
	for at := 1; at+manifestHead < len(rest); at++ {
		size := int64(binary.BigEndian.Uint32(rest[at:]))
		from := at + manifestHead
		if size > 0 && size <= int64(len(rest)-from) &&
			crc32.Checksum(rest[from:from+int(size)], castagnoli) == binary.BigEndian.Uint32(rest[at+4:]) {
			return false
		}
	}
	return true
}

// unnamedTables returns the tables on disk that MANIFEST does not name, by file name. A crash
// leaves them between writing a table and naming it, or between its replacement and its
// deletion; a MANIFEST that lost its end as well.
func unnamedTables(dir string, m badger.Manifest) ([]string, error) {
	tables, err := filepath.Glob(filepath.Join(dir, "*.sst"))
	if err != nil {
		return nil, err
	}
	var unnamed []string
	for _, path := range tables {
		name := filepath.Base(path)
		if id, ok := table.ParseFileID(name); ok {
			if _, named := m.Tables[id]; named {
				continue
			}
		}
		unnamed = append(unnamed, name)
	}
	return unnamed, nil
}
