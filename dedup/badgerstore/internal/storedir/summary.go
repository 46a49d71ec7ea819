package storedir

import (
	"encoding/binary"
	"errors"
	"hash/crc32"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/eyelet-dev/eyelet/dedup/badgerstore/internal/redolog"
)

// Summary is what a start needs to know of the whole store, besides the checkpoint. It covers every
// state of the store from the last commit before its checkpoint on, together with the commits that
// follow that checkpoint.
type Summary struct {
	Store   [16]byte // identity of log and value files
	Commit  uint64   // number of a durable commit; the next one may be covered as well
	Content []byte
}

// SummaryFile is the file with the summary: a prefix, the CRC-32C (4) of what follows, the identity
// of the store (16), the number of the commit (8, little-endian), and the content. A damaged one
// does no harm: the store is read instead.
const (
	SummaryFile   = "summary"
	summaryPrefix = "eyelet summary\n"
	summaryHead   = len(summaryPrefix) + 4 + 16 + 8
)

// WriteSummary replaces the summary of the store in dir. It is durable when the call returns
// without an error.
func WriteSummary(dir string, s Summary) error {
	b := append(make([]byte, 0, summaryHead+len(s.Content)), summaryPrefix...)
	b = append(append(b, 0, 0, 0, 0), s.Store[:]...)
	b = append(binary.LittleEndian.AppendUint64(b, s.Commit), s.Content...)
	sum := b[len(summaryPrefix):]
	binary.LittleEndian.PutUint32(sum, crc32.Checksum(sum[4:], castagnoli))
	return WriteWhole(dir, SummaryFile, b)
}

// ReadSummary returns the summary of the store in dir. ok is false if there is no whole one.
func ReadSummary(dir string) (s Summary, ok bool) {
	b, err := os.ReadFile(filepath.Join(dir, SummaryFile))
	if err != nil || len(b) < summaryHead || string(b[:len(summaryPrefix)]) != summaryPrefix {
		return s, false
	}
	b = b[len(summaryPrefix):]
	if binary.LittleEndian.Uint32(b) != crc32.Checksum(b[4:], castagnoli) {
		return s, false
	}
	return Summary{[16]byte(b[4:]), binary.LittleEndian.Uint64(b[20:]), b[28:]}, true
}

// RemoveSummary deletes the summary of the store in dir, if there is one.
func RemoveSummary(dir string) error {
	err := os.Remove(filepath.Join(dir, SummaryFile))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return errors.Join(err, redolog.SyncDir(dir))
}
