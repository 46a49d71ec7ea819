package valuefile

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
)

// Read returns the value of a key in memory of its own. The error is a [*DamagedError] if the
// file does not hold the value at this place, and [fs.ErrClosed] if the file was removed: the
// place is out of date if the key has a newer one.
func (s *Set) Read(key []byte, r Ref) ([]byte, error) {
	f, length, err := s.file(r.File)
	if err != nil {
		return nil, err
	}
	damaged := func(reason string) ([]byte, error) { return nil, &DamagedError{r.File, r.Offset, reason} }
	size := entryLength(key, r.Size)
	if r.Offset < 0 || size > length-r.Offset {
		return damaged("the value would be behind the end of the file")
	}
	b := make([]byte, size)
	if _, err := f.ReadAt(b, r.Offset); errors.Is(err, io.EOF) {
		return damaged("the file ends in the value")
	} else if err != nil {
		return nil, fmt.Errorf("value file %s: %w", fileName(r.File), err)
	}
	value := b[headSize+len(key):]
	headSum, valueSum := sums(b)
	binary.LittleEndian.PutUint64(b, uint64(r.Offset)) //nolint:gosec // not negative
	sum := crc32.Update(f.seed, castagnoli, b[:headSize+len(key)])
	switch {
	case sum != headSum:
		return damaged("the head of the value does not match its checksum")
	case !bytes.Equal(b[headSize:headSize+len(key)], key) || binary.LittleEndian.Uint32(b[8:]) != r.Size:
		return damaged("it is the value of another key")
	case crc32.Update(sum, castagnoli, value) != valueSum:
		return damaged("the value does not match its checksum")
	}
	return value, nil
}

func (s *Set) file(number uint64) (f *file, length int64, err error) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if f = s.files[number]; f == nil {
		return nil, 0, fmt.Errorf("value file %s was removed: %w", fileName(number), fs.ErrClosed)
	}
	return f, f.length, nil
}

func sums(entry []byte) (head, value uint32) {
	return binary.LittleEndian.Uint32(entry), binary.LittleEndian.Uint32(entry[4:])
}

// Scan visits the keys of a file and the places of their values, in order; a key is valid during
// the visit. It does not verify the values. It skips what is not an entry, and reports the first
// such place as a [*DamagedError] at the end.
func (s *Set) Scan(number uint64, visit func(key []byte, r Ref) error) error {
	defer s.Hold()()
	f, length, err := s.file(number)
	if err != nil {
		return err
	}
	in := bufio.NewReaderSize(io.NewSectionReader(f, 0, length), 64<<10)
	var damage error
	for at := int64(0); at < length; {
		head, err := in.Peek(int(min(headSize+maxKey, length-at)))
		if err != nil {
			return fmt.Errorf("value file %s: %w", fileName(number), err)
		}
		skip := int64(1)
		if key, size, ok := f.parseHead(head, at); ok && entryLength(key, size) <= length-at {
			if err := visit(key, Ref{number, at, size}); err != nil {
				return err
			}
			skip = entryLength(key, size)
		} else if damage == nil {
			damage = &DamagedError{number, at, "this is not a value"}
		}
		if _, err := in.Discard(int(skip)); err != nil {
			return err
		}
		at += skip
	}
	return damage
}

// parseHead returns the key and the size of the value of an entry, if its head is intact.
func (f *file) parseHead(b []byte, at int64) (key []byte, size uint32, ok bool) {
	if len(b) < headSize || len(b) < headSize+int(b[headSize-1]) {
		return nil, 0, false
	}
	key = b[headSize : headSize+int(b[headSize-1])]
	var offset [8]byte
	binary.LittleEndian.PutUint64(offset[:], uint64(at)) //nolint:gosec // not negative
	sum := crc32.Update(crc32.Update(f.seed, castagnoli, offset[:]), castagnoli, b[8:headSize+len(key)])
	want, _ := sums(b)
	return key, binary.LittleEndian.Uint32(b[8:]), sum == want
}
