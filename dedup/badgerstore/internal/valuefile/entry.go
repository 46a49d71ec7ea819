package valuefile

import (
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
// The head checksum is the CRC-32C of the identity of the store, the number of the file, both
// lengths and the key, combined with the offset of the entry. The value checksum continues it. So
// an entry of another place, file or store does not pass, and an entry with a damaged value still
// shows where the next one begins.
const headSize = 13

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// Ref is the place of a value: a file, the byte offset of the entry in it, and the length of the
// value in bytes.
type Ref struct {
	File   uint64
	Offset int64
	Size   uint32
}

// MaxRef is the length of the longest encoded reference, in bytes.
const MaxRef = 3 * binary.MaxVarintLen64

// AppendTo appends three varints, which [ParseRef] reads.
func (r Ref) AppendTo(b []byte) []byte {
	b = binary.AppendUvarint(b, r.File)
	b = binary.AppendUvarint(b, uint64(r.Offset)) //nolint:gosec // never negative
	return binary.AppendUvarint(b, uint64(r.Size))
}

// ParseRef reads exactly the bytes of one AppendTo, and fails on any others.
func ParseRef(b []byte) (Ref, error) {
	var v [3]uint64
	for i := range v {
		number, n := binary.Uvarint(b)
		if n <= 0 {
			return Ref{}, errNoRef
		}
		v[i], b = number, b[n:]
	}
	if len(b) > 0 || v[1] > math.MaxInt64 || v[2] > math.MaxUint32 {
		return Ref{}, errNoRef
	}
	return Ref{v[0], int64(v[1]), uint32(v[2])}, nil
}

var errNoRef = errors.New("this is not a reference to a value file")

// Space returns how many bytes the entry of a key and the value occupies.
func (r Ref) Space(key []byte) int64 { return entryLength(key, r.Size) }

// DamagedError reports a file that is not as it was written.
type DamagedError struct {
	File   uint64
	Offset int64 // of the entry; of a short file, its length in bytes
	Reason string
}

// Error names the file and the byte.
func (e *DamagedError) Error() string {
	return fmt.Sprintf("value file %s is damaged at byte %d: %s", fileName(e.File), e.Offset, e.Reason)
}

func entryLength(key []byte, size uint32) int64 { return headSize + int64(len(key)) + int64(size) }

// appendEntry appends the entry at an offset of a file to b. seed is the checksum of the store
// and the file.
func appendEntry(b []byte, seed uint32, offset int64, key, value []byte) []byte {
	at := len(b)
	b = append(b, make([]byte, 8)...)
	b = binary.LittleEndian.AppendUint32(b, uint32(len(value))) //nolint:gosec // checked by Append
	b = append(append(b, byte(len(key))), key...)
	head := headSum(seed, offset, b[at:])
	binary.LittleEndian.PutUint32(b[at:], head)
	binary.LittleEndian.PutUint32(b[at+4:], crc32.Update(head, castagnoli, value))
	return append(b, value...)
}

func headSum(seed uint32, offset int64, head []byte) uint32 {
	return crc32.Update(seed, castagnoli, head[8:]) ^ uint32(offset) ^ uint32(offset>>32) //nolint:gosec // both halves
}

// parseHead returns the key and the length of the value of the entry that b begins with, if its
// head is intact.
func parseHead(seed uint32, offset int64, b []byte) (key []byte, size uint32, ok bool) {
	if len(b) < headSize || len(b) < headSize+int(b[headSize-1]) {
		return nil, 0, false
	}
	b = b[:headSize+int(b[headSize-1])]
	return b[headSize:], binary.LittleEndian.Uint32(b[8:]), headSum(seed, offset, b) == binary.LittleEndian.Uint32(b)
}

// intact reports whether the value of an entry with an intact head is intact.
func intact(entry, value []byte) bool {
	head, want := binary.LittleEndian.Uint32(entry), binary.LittleEndian.Uint32(entry[4:])
	return crc32.Update(head, castagnoli, value) == want
}
