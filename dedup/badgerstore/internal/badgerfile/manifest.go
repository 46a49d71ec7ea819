// Package badgerfile reads the file formats of Badger: its tables and its manifest.
package badgerfile

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"math"
	"os"
	"path/filepath"

	"github.com/dgraph-io/badger/v4"
)

// Manifest describes the part of MANIFEST that was durable at a checkpoint. Badger only appends to
// the file, except when it replaces it by a shorter one, which begins with another record.
type Manifest struct {
	Length int64  // in bytes, to the end of a record
	Sum    uint32 // CRC-32C of that part
	First  uint32 // CRC-32C of length and checksum of the first record
}

// MANIFEST is Badger's list of tables: a head of 8 bytes, then records of length (4, big-endian),
// CRC-32C (4) and content. Badger takes a record that reaches beyond the end of the file for one
// that a crash tore. It truncates the file there without an error and deletes every table that is
// not in the rest. One flipped bit in a length looks just like that.
const (
	manifestStart = "Bdgr\x00\x00\x00\x08" // Badger's name and versions
	firstRecord   = len(manifestStart)     // the offset of the first record
	manifestHead  = 8                      // the size of the head of a record
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// ManifestFile flushes MANIFEST. It holds a descriptor of its own from before Badger writes, which
// is notified of every failed write: Badger repeats a failed flush, and the second one succeeds
// although the kernel has dropped the pages. One goroutine uses it.
type ManifestFile struct {
	path string
	file *os.File // nil until there is one
	at   Manifest
	err  error // final

	flush func(*os.File) error // tests inject faults
}

// OpenManifest opens MANIFEST in a directory before Badger opens it. In the directory of a new
// database there is none yet.
func OpenManifest(dir string) (*ManifestFile, error) {
	m := &ManifestFile{path: filepath.Join(dir, badger.ManifestFilename), flush: (*os.File).Sync}
	err := m.reopen()
	if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	return m, err
}

// Sync makes MANIFEST durable and returns what it covers. Each call reads only what was appended
// since the one before. An error is final, unless the file could not be opened.
func (m *ManifestFile) Sync() (Manifest, error) {
	if m.err != nil {
		return m.at, m.err
	}
	if err := m.reopen(); err != nil {
		return m.at, err
	}
	m.err = m.sync()
	return m.at, m.err
}

func (m *ManifestFile) sync() error {
	appended, err := io.ReadAll(io.NewSectionReader(m.file, m.at.Length, math.MaxInt64-m.at.Length))
	if err != nil {
		return err
	}
	from := max(0, firstRecord-int(m.at.Length))
	n, err := wholeRecords(appended, from)
	if err != nil {
		return err
	}
	if from > 0 {
		m.at.First = firstSum(appended)
	}
	m.at.Sum = crc32.Update(m.at.Sum, castagnoli, appended[:n])
	m.at.Length += int64(n)
	return m.flush(m.file)
}

// reopen opens the file if the name has another one than before. The old one is flushed first.
func (m *ManifestFile) reopen() error {
	if m.file != nil {
		now, err1 := os.Stat(m.path)
		before, err2 := m.file.Stat()
		if err := errors.Join(err1, err2); err != nil || os.SameFile(now, before) {
			return err
		}
	}
	f, err := os.Open(m.path)
	if err != nil {
		return err
	}
	if m.file != nil {
		m.err = errors.Join(m.flush(m.file), m.file.Close())
	}
	m.file, m.at = f, Manifest{}
	return m.err
}

// Close closes the file without flushing it.
func (m *ManifestFile) Close() error {
	if m.file == nil {
		return nil
	}
	return m.file.Close()
}

// checkManifest verifies the content of MANIFEST against a checkpoint. What follows the noted part
// must be whole, except a last record that a crash tore: end is the length of the whole records.
// rewritten reports that Badger has replaced the file since, so that nothing shows whether all
// tables of the checkpoint are named. Any other difference is an error.
func checkManifest(data []byte, m Manifest) (end int64, rewritten bool, err error) {
	from := firstRecord
	if m.Length <= int64(len(data)) && crc32.Checksum(data[:m.Length], castagnoli) == m.Sum {
		from = max(from, int(m.Length))
	} else if rewritten = firstSum(data) != m.First; !rewritten {
		return 0, false, fmt.Errorf("%s is damaged before byte %d", badger.ManifestFilename, m.Length)
	}
	n, err := wholeRecords(data, from)
	if err == nil && rewritten && n <= firstRecord {
		err = fmt.Errorf("%s has no records", badger.ManifestFilename)
	}
	return int64(n), rewritten && err == nil, err
}

// firstSum returns the checksum that identifies the first record, 0 if there is none.
func firstSum(data []byte) uint32 {
	if len(data) < firstRecord+manifestHead {
		return 0
	}
	return crc32.Checksum(data[firstRecord:firstRecord+manifestHead], castagnoli)
}

// wholeRecords returns the end of the whole records from a position on. It fails if what follows
// them is not the beginning of a record that a crash tore.
func wholeRecords(data []byte, at int) (end int, err error) {
	for at+manifestHead <= len(data) {
		content := data[at+manifestHead:]
		size := int64(binary.BigEndian.Uint32(data[at:]))
		switch {
		case size > int64(len(content)) && tornRecord(data[at:]):
			return at, nil
		case size > int64(len(content)),
			crc32.Checksum(content[:size], castagnoli) != binary.BigEndian.Uint32(data[at+4:]):
			return at, fmt.Errorf("%s: the record at byte %d is damaged", badger.ManifestFilename, at)
		}
		at += manifestHead + int(size)
	}
	return min(at, len(data)), nil
}

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
