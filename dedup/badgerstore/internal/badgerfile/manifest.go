// Package badgerfile reads the file formats of Badger: its value log, its tables and its
// manifest. It writes only checksums of damaged log entries, for a repair.
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

// MANIFEST is Badger's list of tables: a head of 8 bytes, then records of length (4,
// big-endian), CRC-32C (4) and content. Badger takes a record that reaches beyond the end of
// the file for one that a crash tore. It truncates the file there without an error and deletes
// every table that is not in the rest. One flipped bit in a length looks just like that.

// readManifest reads MANIFEST to its last byte and refuses what no crash can have left. missing
// is true if there is none, as in a new store.
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

// manifestHead is the size of the head of a record.
const manifestHead = 8

// tornRecord reports whether what follows the last complete record can be the beginning of one
// that a crash tore. It cannot if its content is complete under another length, or if a
// complete record follows.
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

// unnamedTables returns the file names of tables that are not in MANIFEST. A crash leaves them
// between the writing of a table and its registration, or between its replacement and its
// deletion. A MANIFEST that lost its end does as well.
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
