package valuefile

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"math"
)

// A file is a sequence of values, each behind its checksum (4 bytes, little-endian): the CRC-32C of
// the identity of the store, the number of the file, the key and the value, combined with the
// offset of the entry. So a value of another place, file, store or key does not pass. Where a value
// begins and how long it is, only its [Ref] says.
const sumSize = 4

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

// Space returns how many bytes the value occupies with its checksum.
func (r Ref) Space() int64 { return sumSize + int64(r.Size) }

// DamagedError reports a file that is not as it was written.
type DamagedError struct {
	File   uint64
	Offset int64 // of the entry; of a short file, its length in bytes
	Reason string
}

// Error names the file and the byte.
func (e *DamagedError) Error() string {
	return fmt.Sprintf("value file %s is damaged at byte %d: %s", digits(e.File), e.Offset, e.Reason)
}

// appendEntry appends the entry at an offset of a file to b. seed is the checksum of the store
// and the file.
func appendEntry(b []byte, seed uint32, offset int64, key, value []byte) []byte {
	return append(binary.LittleEndian.AppendUint32(b, entrySum(seed, offset, key, value)), value...)
}

func entrySum(seed uint32, offset int64, parts ...[]byte) uint32 {
	for _, p := range parts {
		seed = crc32.Update(seed, castagnoli, p)
	}
	return seed ^ uint32(offset) ^ uint32(offset>>32) //nolint:gosec // both halves
}

// value returns the value of an entry, and whether it is intact.
func (f *file) value(offset int64, key, entry []byte) (value []byte, intact bool) {
	value = entry[sumSize:]
	return value, entrySum(f.seed, offset, key, value) == binary.LittleEndian.Uint32(entry)
}

// Read returns the value of a key in memory of its own. The error is a [*DamagedError] if the
// file does not hold the value at this place, and [fs.ErrClosed] if the file was removed, or never
// existed: then the key may have a newer place. Bytes that do not match their checksum are returned
// with the error.
func (s *Set) Read(key []byte, r Ref) ([]byte, error) {
	s.mu.RLock()
	f, length := s.files[r.File], int64(0)
	if f != nil {
		length = f.length
	}
	s.mu.RUnlock()
	switch size := r.Space(); {
	case f == nil:
		return nil, fmt.Errorf("value file %s was removed: %w", digits(r.File), fs.ErrClosed)
	case r.Offset < 0 || size > length-r.Offset:
		return nil, &DamagedError{r.File, r.Offset, "the value would reach beyond the end"}
	}
	b := make([]byte, r.Space())
	if _, err := f.ReadAt(b, r.Offset); errors.Is(err, io.EOF) {
		return nil, &DamagedError{r.File, r.Offset, "the file has become shorter"}
	} else if err != nil {
		return nil, fmt.Errorf("value file %s: %w", digits(r.File), err)
	}
	value, intact := f.value(r.Offset, key, b)
	if !intact {
		return value, &DamagedError{r.File, r.Offset, "the value does not match its checksum"}
	}
	return value, nil
}
