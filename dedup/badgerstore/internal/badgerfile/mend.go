package badgerfile

import (
	"encoding/binary"
	"errors"
	"io/fs"
	"os"
	"slices"

	"github.com/dgraph-io/badger/v4/pb"
	"github.com/dgraph-io/badger/v4/table"
	"google.golang.org/protobuf/proto"
)

// MendManifest verifies MANIFEST against a checkpoint, and returns its records without what never
// took effect behind the noted part. end is the length of the whole records. rewritten reports that
// Badger has replaced the file since: then it is as it is. mended is nil if there is no file, and
// there need not be.
//
// Badger flushes a record before it deletes the tables that the record deletes, and deletes those
// that it creates if the flush fails. So:
//
//   - A compaction never took effect if a table is missing that it created, and those are there
//     that it read. Its record is left out.
//   - A table that was added to level 0 alone is lost if it is missing. It holds only commits after
//     the checkpoint. Its record is left out. Badger names it before its directory is flushed, too.
//
// Any other missing table is damage, which [CheckTables] finds.
func MendManifest(dir string, m Manifest) (mended []byte, end int64, rewritten bool, err error) {
	data, rewritten, err := readManifest(dir, m)
	if end = int64(len(data)); err != nil || rewritten || data == nil {
		return data, end, rewritten, err
	}
	noted := min(max(firstRecord, int(m.Length)), len(data))
	records, err := parseRecords(data, noted)
	if err != nil {
		return nil, end, false, err
	}
	deleted := map[uint64]bool{} // by later records that took effect
	missing := func(c *pb.ManifestChange) bool {
		_, err := os.Stat(table.NewFilename(c.Id, dir))
		return !deleted[c.Id] && errors.Is(err, fs.ErrNotExist)
	}
	for i, r := range slices.Backward(records) {
		read, created := r.split()
		added := len(read) == 0 && len(created) == 1 && created[0].Level == 0
		if slices.ContainsFunc(created, missing) && (added || len(read) > 0 && !slices.ContainsFunc(read, missing)) {
			records = slices.Delete(records, i, i+1)
			continue
		}
		for _, c := range read {
			deleted[c.Id] = true
		}
	}
	mended = slices.Clone(data[:noted])
	for _, r := range records {
		mended = append(mended, r.raw...)
	}
	return mended, end, false, nil
}

// record is one record of MANIFEST: a change of Badger as a whole.
type record struct {
	raw     []byte
	changes []*pb.ManifestChange
}

// split returns the tables that a record deletes, and those that it creates.
func (r record) split() (deleted, created []*pb.ManifestChange) {
	for _, c := range r.changes {
		if c.Op == pb.ManifestChange_DELETE {
			deleted = append(deleted, c)
		} else {
			created = append(created, c)
		}
	}
	return deleted, created
}

// parseRecords decodes whole records from a position on.
func parseRecords(data []byte, at int) (records []record, err error) {
	for at < len(data) {
		next := at + manifestHead + int(binary.BigEndian.Uint32(data[at:]))
		var set pb.ManifestChangeSet
		if err := proto.Unmarshal(data[at+manifestHead:next], &set); err != nil {
			return nil, err
		}
		records = append(records, record{data[at:next], set.Changes})
		at = next
	}
	return records, nil
}
