package valuefile

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"math"
)

// A file is a sequence of entries, with integers in little-endian order:
//
//	head checksum (4) | value checksum (4) | value length (4) | key length (1) | key | value
//
// The CRC-32C of the head covers the identity of the store, the number of the file, the offset of
// the entry, both lengths and the key; that of the value continues it. So bytes of another
// place, file or store do not pass, and the key shows the end of an entry with a damaged value.
const (
	headSize = 13
	maxKey   = math.MaxUint8
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// Ref is the place of a value: the byte Offset of its entry in a file, and its own length in bytes.
type Ref struct {
	File   uint64
	Offset int64
	Size   uint32
}

// AppendTo appends three varints, which [ParseRef] reads.
func (r Ref) AppendTo(b []byte) []byte {
	b = binary.AppendUvarint(b, r.File)
	b = binary.AppendUvarint(b, uint64(r.Offset)) //nolint:gosec // never negative
	return binary.AppendUvarint(b, uint64(r.Size))
}

// ParseRef reads all of b, and fails if it is not what AppendTo appends.
func ParseRef(b []byte) (Ref, error) {
	file, n := binary.Uvarint(b)
	offset, m := binary.Uvarint(b[max(n, 0):])
	size, k := binary.Uvarint(b[max(n, 0)+max(m, 0):])
	r := Ref{file, int64(offset), uint32(size)} //nolint:gosec // compared
	if n <= 0 || m <= 0 || k <= 0 || r.Offset < 0 || !bytes.Equal(r.AppendTo(nil), b) {
		return Ref{}, errors.New("not a reference to a value file")
	}
	return r, nil
}

// DamagedError reports a file that is not as it was written.
type DamagedError struct {
	File   uint64
	Offset int64 // of the entry, or the length of the file
	Reason string
}

// Error names the file and the byte.
func (e *DamagedError) Error() string {
	return fmt.Sprintf("value file %s is damaged at byte %d: %s", fileName(e.File), e.Offset, e.Reason)
}

// entryLength returns the length of an entry in bytes.
func entryLength(key []byte, size uint32) int64 { return headSize + int64(len(key)) + int64(size) }

// appendEntry appends the entry at an offset of a file to b. seed is the checksum of store and
// file.
func appendEntry(b []byte, seed uint32, offset int64, key, value []byte) []byte {
	from := len(b)
	b = binary.LittleEndian.AppendUint64(b, uint64(offset)) // overwritten by the checksums
	b = binary.LittleEndian.AppendUint32(b, uint32(len(value)))
	b = append(append(b, byte(len(key))), key...)
	head := crc32.Update(seed, castagnoli, b[from:])
	b = append(b, value...)
	binary.LittleEndian.PutUint32(b[from:], head)
	binary.LittleEndian.PutUint32(b[from+4:], crc32.Update(head, castagnoli, b[len(b)-len(value):]))
	return b
}
