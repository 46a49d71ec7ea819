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
	"github.com/dgraph-io/badger/v4/pb"
	"github.com/dgraph-io/badger/v4/table"
	"google.golang.org/protobuf/proto"
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
		var record pb.ManifestChangeSet
		if err := proto.Unmarshal(data[at+manifestHead:next], &record); err != nil {
			return nil, err
		}
		for _, c := range record.Changes {
			switch _, err := os.Stat(table.NewFilename(c.Id, dir)); {
			case c.Op == pb.ManifestChange_DELETE:
				lost = slices.DeleteFunc(lost, func(other uint64) bool { return other == c.Id })
			case c.Level == 0 && errors.Is(err, fs.ErrNotExist):
				lost = append(lost, c.Id)
			}
		}
		at = next
	}
	return lost, nil
}

// AppendDeletes appends a record that deletes tables to those of a MANIFEST.
func AppendDeletes(manifest []byte, tables []uint64) []byte {
	if len(tables) == 0 {
		return manifest
	}
	var changes pb.ManifestChangeSet
	for _, id := range tables {
		changes.Changes = append(changes.Changes, &pb.ManifestChange{Id: id, Op: pb.ManifestChange_DELETE})
	}
	record, _ := proto.Marshal(&changes)                                    // never fails
	manifest = binary.BigEndian.AppendUint32(manifest, uint32(len(record))) //nolint:gosec // short
	manifest = binary.BigEndian.AppendUint32(manifest, crc32.Checksum(record, castagnoli))
	return append(manifest, record...)
}
