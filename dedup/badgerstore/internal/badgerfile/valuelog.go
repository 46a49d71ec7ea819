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

// Badger reads its newest value log when it opens and cuts it off at the first entry whose
// checksum does not match, as if that were the place where a power cut had torn it: one damaged
// byte would take all values behind it along, up to 64 MiB of payloads. So the log is looked at
// before. An entry that is damaged although later commits stand behind it was durable once; it
// gets a new checksum of Badger's, so that Badger keeps the log, while our own checksum of the
// value still tells that this one is damaged.
//
// A file is a head of 20 bytes and entries: meta (1), user meta (1), lengths of key and value
// and the expiry (varints), key with its version in the last 8 bytes, value, CRC-32C of all
// that (4, big-endian).
const logHeadSize = 20

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// LogEntry is one entry of a value log.
type LogEntry struct {
	At, Size int
	version  uint64
	good     bool
}

// LostValuesError says that values would be lost that Badger cannot be made to keep.
type LostValuesError struct {
	File string
	At   int // byte of the file
}

// Error names the file, the byte and the way out.
func (e *LostValuesError) Error() string {
	return fmt.Sprintf("value log %s is damaged at byte %d, where an entry begins, and acknowledged values behind it would be lost; "+
		"restore a backup, or accept the loss (AcceptLoss, --accept-loss): the keys of lost values stay known, their payloads are gone", e.File, e.At)
}

// RepairValueLog repairs the newest value log as far as it can. It returns how many entries are
// damaged.
func RepairValueLog(dir string, maxKey int) (damaged int, err error) {
	files, err := filepath.Glob(filepath.Join(dir, "*.vlog")) // names are numbers of 6 digits
	if err != nil || len(files) == 0 {
		return 0, err
	}
	file := slices.Max(files)
	data, err := os.ReadFile(file)
	if err != nil {
		return 0, err
	}
	for page := make([]byte, 4096); bytes.HasSuffix(data, page); { // Badger makes the file long before it is full
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

// LogEntries walks the log as far as the lengths in it make sense.
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

// logEntryAt reads the entry at a place; ok is false when none of ours can be there.
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

// strayEntries looks for good entries behind a place from where on the log makes no sense. That
// is where it ends, with zeros or with what a power cut tore, unless it is damaged.
func strayEntries(data []byte, from, maxKey int) (found []LogEntry) {
	for at := from; at < len(data) && len(found) < 64; at++ {
		if data[at] == 0 && at+1 < len(data) && data[at+1] == 0 && at+2 < len(data) && data[at+2] == 0 {
			continue // an entry has a length of a key there
		}
		if e, ok := logEntryAt(data, at, maxKey); ok && e.good {
			found = append(found, e)
			at += e.Size - 1
		}
	}
	return found
}

// laterCommits reports whether what is between before and behind was durable: a commit is
// written when the one before it is, so two commits behind a place, both newer than everything
// before it and than floor, say so. One alone may be the commit that a power cut tore. What a
// collection has written anew keeps its version, and many of them are written at once: floor is
// the newest version of the files before, which they do not exceed.
func laterCommits(before, behind []LogEntry, floor uint64) bool {
	newest := floor
	for _, e := range before {
		if e.good {
			newest = max(newest, e.version)
		}
	}
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

// newestVersion returns the newest version in the value logs before one.
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
		for _, e := range entries {
			if e.good {
				newest = max(newest, e.version)
			}
		}
	}
	return newest, nil
}

// IsEmptyLog reports whether a file of the value log has no entry: after its head there is the
// end, or a zero.
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
