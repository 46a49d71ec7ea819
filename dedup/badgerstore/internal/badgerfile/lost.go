package badgerfile

import (
	"encoding/binary"
	"errors"
	"hash/crc32"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/dgraph-io/badger/v4"
	"github.com/dgraph-io/badger/v4/table"
)

// LostTables returns the tables that MANIFEST adds to level 0 behind the part of a checkpoint, and
// that do not exist. Badger names a table before its directory is flushed, and deletes one whose
// record it could not flush. Such a table holds only commits after the checkpoint.
func LostTables(dir string, m Manifest) (lost []uint64, err error) {
	data, err := os.ReadFile(filepath.Join(dir, badger.ManifestFilename))
	if errors.Is(err, fs.ErrNotExist) && m.Length == 0 {
		return nil, nil
	} else if err != nil {
		return nil, err
	}
	end, rewritten, err := checkManifest(data, m)
	if err != nil || rewritten {
		return nil, err
	}
	for at := max(firstRecord, int(m.Length)); at < int(end); {
		next := at + manifestHead + int(binary.BigEndian.Uint32(data[at:]))
		eachChange(data[at+manifestHead:next], func(id, operation, level uint64) {
			switch _, err := os.Stat(table.NewFilename(id, dir)); {
			case operation == changeDelete:
				lost = slices.DeleteFunc(lost, func(other uint64) bool { return other == id })
			case level == 0 && errors.Is(err, fs.ErrNotExist):
				lost = append(lost, id)
			}
		})
		at = next
	}
	return lost, nil
}

// The fields of a change in a record of MANIFEST, all varints, and the operation that deletes.
const (
	changeID = iota + 1
	changeOperation
	changeLevel

	changeDelete = 1
)

// eachChange decodes a record of MANIFEST, a protocol buffer with a list of changes.
func eachChange(record []byte, visit func(id, operation, level uint64)) {
	for len(record) > 0 && record[0] == 1<<3|2 {
		size, n := binary.Uvarint(record[1:])
		if n <= 0 || size > uint64(len(record)-1-n) {
			return
		}
		change := record[1+n:][:size]
		record = record[1+n+int(size):]
		var fields [8]uint64
		for len(change) > 0 {
			value, n := binary.Uvarint(change[1:])
			if n <= 0 {
				return
			}
			fields[change[0]>>3&7] = value
			change = change[1+n:]
		}
		visit(fields[changeID], fields[changeOperation], fields[changeLevel])
	}
}

// AppendDeletes appends a record that deletes tables to those of a MANIFEST.
func AppendDeletes(manifest []byte, tables []uint64) []byte {
	if len(tables) == 0 {
		return manifest
	}
	var record []byte
	for _, id := range tables {
		change := binary.AppendUvarint([]byte{changeID << 3}, id)
		change = append(change, changeOperation<<3, changeDelete)
		record = append(append(record, 1<<3|2, byte(len(change))), change...)
	}
	manifest = binary.BigEndian.AppendUint32(manifest, uint32(len(record))) //nolint:gosec // short
	manifest = binary.BigEndian.AppendUint32(manifest, crc32.Checksum(record, castagnoli))
	return append(manifest, record...)
}
