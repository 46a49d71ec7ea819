// Package redolog is the redo log of a store: segments of a fixed size, into which one goroutine
// writes frames. A frame is a list of writes that are replayed together or not at all.
//
// A segment begins with its head, in two copies. Frames follow, each with checksums over its
// bytes, its place, the store and random bytes of the segment's head. A frame of another place,
// of a former use of the file or in the middle of a value is therefore never valid.
//
//	head   at 0 and 4096: magic 8 | store 16 | number 8 | salt 8 | size of the file 8
//	       | segment before 8 | where that one ends 8 | CRC-32C of these 4
//	frame  from 8192: length of the entries 4 | number of entries 4 | group 8
//	       | CRC-32C of these and the entries 4 | CRC-32C of these 4 | entries | zeros up to 8
//	entry  key length, plus 256 with a content and 512 to keep the one before
//	       | 0, or 1 + value length | content length, if there is one (uvarints)
//	       | key | value | content
//
// Integers are little-endian. Each frame is flushed before the next one is written, so a valid
// frame proves that everything before it was flushed once.
package redolog

import (
	"cmp"
	"errors"
	"fmt"
	"path/filepath"

	"github.com/eyelet-dev/eyelet/dedup/badgerstore/internal/storedir"
)

// Position is a place in the log: a byte of a segment. The zero Position is before everything.
type Position struct {
	Segment uint64
	Offset  int64
}

// Compare returns -1 if p is before q, 0 if they are equal, and 1 if p is after q.
func (p Position) Compare(q Position) int {
	return cmp.Or(cmp.Compare(p.Segment, q.Segment), cmp.Compare(p.Offset, q.Offset))
}

// Entry is one write. A nil Value deletes the key; an empty Value does not.
type Entry struct {
	Key     []byte // at most MaxKey bytes
	Value   []byte
	Content []byte // the second part of what the key holds; nil for none
	Keep    bool   // the key keeps the content that it has; then Content is nil
}

// MaxKey is the length of the longest key, in bytes.
const MaxKey = 1<<8 - 1

// Settings describe the log of a store.
type Settings struct {
	Dir         string   // directory of the segments, created if missing
	Store       [16]byte // identity of the store: frames of other stores are not valid
	SegmentSize int64    // bytes, at least 64 KiB and at most 1 GiB, by default 16 MiB
	Segments    int      // files, at least 3, by default 16
	AcceptLoss  bool     // a Replay continues behind damage
	// Unclean means that the process before has not closed the log. One of its writes may have
	// failed, and after that a kernel may report flushes of the same pages as successful that are
	// not on the disk. So its files are not written again.
	Unclean bool

	// OpenFile opens a segment, by default with os.OpenFile. Tests inject faults with it.
	OpenFile storedir.Open
}

// complete checks the settings and fills in the defaults.
func (s *Settings) complete() error {
	s.SegmentSize, s.Segments = cmp.Or(s.SegmentSize, 16<<20), cmp.Or(s.Segments, 16)
	if s.SegmentSize < 64<<10 || s.SegmentSize > 1<<30 || s.Segments < 3 {
		return fmt.Errorf("redo log: %d segments of %d bytes, want at least 3 of 64 KiB to 1 GiB",
			s.Segments, s.SegmentSize)
	}
	if s.OpenFile == nil {
		s.OpenFile = storedir.OpenFile
	}
	return nil
}

const segmentSuffix = ".log"

func (s *Settings) path(number uint64) string {
	return filepath.Join(s.Dir, fmt.Sprintf("%010d%s", number, segmentSuffix))
}

var (
	// ErrFull reports that every segment holds frames which no checkpoint has passed. Nothing was
	// written. Append succeeds again after a Release.
	ErrFull = errors.New("redo log: every segment is in use until the next checkpoint")
	// ErrTooLarge reports a frame of 4 GiB or more. Nothing was written.
	ErrTooLarge = errors.New("redo log: the entries do not fit into a frame")
)

// DamagedError reports that flushed frames are lost or damaged from a place on.
type DamagedError struct {
	Segment uint64
	Offset  int64
	Reason  string
}

// Error names segment, byte and reason.
func (e *DamagedError) Error() string {
	return fmt.Sprintf("redo log: segment %d is damaged at byte %d: %s", e.Segment, e.Offset, e.Reason)
}
