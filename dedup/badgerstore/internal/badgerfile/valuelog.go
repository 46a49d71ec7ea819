package badgerfile

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"os"
	"path/filepath"
	"slices"
)

// When Badger opens its newest value log, it truncates the file at the first entry whose
// checksum does not match, as if a power cut had torn the log there. One damaged byte would
// remove all values after it, up to 64 MiB of payloads. So the log is checked first. A damaged
// entry with later commits after it was durable once. It gets a new Badger checksum, so that
// Badger keeps the log. The store's own checksum still shows that the value is damaged.
//
// A file is a head of 20 bytes and entries: meta (1), user meta (1), lengths of key and value
// and the expiry (varints), the key with its version in the last 8 bytes, the value, and the
// CRC-32C of all that (4, big-endian).
const logHeadSize = 20

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// LogEntry is one entry of a value log.
type LogEntry struct {
	At, Size int
	version  uint64
	good     bool
}

// LostValuesError reports that Badger would remove acknowledged values when it opens the log.
type LostValuesError struct {
	File string
	At   int // byte of the file
}

// Error names the file, the byte and the remedies.
func (e *LostValuesError) Error() string {
	return fmt.Sprintf("value log %s: the entry at byte %d is damaged, and later values would be lost; "+
		"restore a backup, or accept the loss (AcceptLoss, --accept-loss): keys stay known, lost payloads are gone",
		e.File, e.At)
}

// RepairValueLog repairs the newest value log as far as possible. maxKey is the length of the
// longest key. It returns the number of damaged entries, which Badger now keeps.
func RepairValueLog(dir string, maxKey int) (damaged int, err error) {
	files, err := filepath.Glob(filepath.Join(dir, "*.vlog")) // the names are 6-digit numbers
	if err != nil || len(files) == 0 {
		return 0, err
	}
	file := slices.Max(files)
	data, err := os.ReadFile(file)
	if err != nil {
		return 0, err
	}
	for page := make([]byte, 4096); bytes.HasSuffix(data, page); { // Badger allocates the file in advance
		data = data[:len(data)-len(page)]
	}
	entries, end := LogEntries(data, maxKey)
	if behind := strayEntries(data, end, maxKey); laterCommits(entries, behind, 0) {
		floor, err := newestVersion(files, file, maxKey)
		if err != nil {
			return 0, err
		}
		if laterCommits(entries, behind, floor) {
			return 0, &LostValuesError{filepath.Base(file), end}
		}
	}
	f, err := os.OpenFile(file, os.O_RDWR, 0)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	for i, e := range entries {
		if e.good || !laterCommits(entries[:i], entries[i+1:], 0) {
			continue
		}
		damaged++
		body := data[e.At : e.At+e.Size-4]
		sum := binary.BigEndian.AppendUint32(nil, crc32.Checksum(body, castagnoli))
		if _, err := f.WriteAt(sum, int64(e.At+len(body))); err != nil {
			return damaged, err
		}
	}
	if damaged > 0 {
		err = f.Sync()
	}
	return damaged, err
}

// LogEntries walks the log as far as the lengths are plausible, and returns where it stopped.
func LogEntries(data []byte, maxKey int) (entries []LogEntry, end int) {
	for at := logHeadSize; ; {
		e, ok := logEntryAt(data, at, maxKey)
		if !ok {
			return entries, at
		}
		entries = append(entries, e)
		at += e.Size
	}
}

// logEntryAt decodes the entry at a position. ok is false if there cannot be one.
func logEntryAt(data []byte, at, maxKey int) (e LogEntry, ok bool) {
	p := at + 2
	var n [3]uint64 // lengths of key and value, expiry
	for i := range n {
		if p >= len(data) {
			return e, false
		}
		v, size := binary.Uvarint(data[p:])
		if size <= 0 {
			return e, false
		}
		n[i], p = v, p+size
	}
	key := n[0]
	if key < 1+8 || key > uint64(maxKey)+8 || n[1] > uint64(len(data)) || uint64(p)+key+n[1]+4 > uint64(len(data)) {
		return e, false
	}
	e = LogEntry{At: at, Size: p - at + int(key+n[1]) + 4}
	e.version = ^binary.BigEndian.Uint64(data[p+int(key)-8:])
	e.good = crc32.Checksum(data[at:at+e.Size-4], castagnoli) == binary.BigEndian.Uint32(data[at+e.Size-4:])
	return e, true
}

// strayEntries looks for intact entries after the position where the log stops being plausible.
// There are none if it just ends, in zeros or a torn entry.
func strayEntries(data []byte, from, maxKey int) (found []LogEntry) {
	for at := from; at < len(data) && len(found) < 64; at++ {
		if bytes.HasPrefix(data[at:], []byte{0, 0, 0}) {
			continue // the third byte of an entry is the length of its key
		}
		if e, ok := logEntryAt(data, at, maxKey); ok && e.good {
			found = append(found, e)
			at += e.Size - 1
		}
	}
	return found
}

// laterCommits reports whether what is between before and behind was durable. Commits are
// written one after another, so it was if two commits follow that are both newer than floor and
// everything before. One alone may be the commit that a power cut tore. Value log collection
// rewrites many entries at once with their old versions: floor is the newest version in the
// earlier files, which rewritten entries do not exceed.
func laterCommits(before, behind []LogEntry, floor uint64) bool {
	newest := max(floor, newestIn(before))
	first := uint64(0)
	for _, e := range behind {
		switch {
		case !e.good || e.version <= newest || e.version == first:
		case first == 0:
			first = e.version
		default:
			return true
		}
	}
	return false
}

// newestVersion returns the newest version in the value logs before a file.
func newestVersion(files []string, before string, maxKey int) (newest uint64, err error) {
	for _, file := range files {
		if file >= before {
			continue
		}
		data, err := os.ReadFile(file)
		if err != nil {
			return 0, err
		}
		entries, _ := LogEntries(data, maxKey)
		newest = max(newest, newestIn(entries))
	}
	return newest, nil
}

// newestIn returns the newest version of the intact entries.
func newestIn(entries []LogEntry) (newest uint64) {
	for _, e := range entries {
		if e.good {
			newest = max(newest, e.version)
		}
	}
	return newest
}

// IsEmptyLog reports whether a value log file has no entries: its head is followed by the end
// or by zeros.
func IsEmptyLog(path string) (bool, error) {
	f, err := os.Open(path)
	if err != nil {
		return false, err
	}
	defer func() { _ = f.Close() }()
	var first [logHeadSize + 16]byte
	n, err := f.ReadAt(first[:], 0)
	if err != nil && !errors.Is(err, io.EOF) {
		return false, err
	}
	return n <= logHeadSize || !slices.ContainsFunc(first[logHeadSize:n], func(b byte) bool { return b != 0 }), nil
}
