package valuefile

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
)

// Read returns the value of a key in memory of its own. The error is a [*DamagedError] if the
// file does not hold the value at this place, and [fs.ErrClosed] if the file was removed, or never
// existed: then the key may have a newer place. A value that does not match its checksum is
// returned with the error.
func (s *Set) Read(key []byte, r Ref) ([]byte, error) {
	f, length, err := s.file(r.File)
	if err != nil {
		return nil, err
	}
	size := entryLength(key, r.Size)
	if r.Offset < 0 || size > length-r.Offset {
		return nil, &DamagedError{r.File, r.Offset, "the value would reach beyond the end"}
	}
	b := make([]byte, size)
	if _, err := f.ReadAt(b, r.Offset); err != nil {
		return nil, readError(r.File, r.Offset, err)
	}
	value := b[headSize+len(key):]
	if got, _, ok := parseHead(f.seed, r.Offset, b); !ok || !bytes.Equal(got, key) {
		return nil, &DamagedError{r.File, r.Offset, "the value is not there"}
	}
	if !intact(b, value) {
		return value, &DamagedError{r.File, r.Offset, "the value does not match its checksum"}
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

func readError(number uint64, offset int64, err error) error {
	if errors.Is(err, io.EOF) {
		return &DamagedError{number, offset, "the file has become shorter"}
	}
	return fmt.Errorf("value file %s: %w", fileName(number), err)
}

// Scan visits the keys of a file and the places of their values, in order; a key is valid during
// the visit. It does not verify the values. It skips bytes that are not an entry, and reports the
// first of them as a [*DamagedError] at the end.
func (s *Set) Scan(number uint64, visit func(key []byte, r Ref) error) error {
	defer s.Hold()()
	f, length, err := s.file(number)
	if err != nil {
		return err
	}
	in := bufio.NewReader(io.NewSectionReader(f, 0, length))
	var damage error
	for at := int64(0); at < length; {
		head, err := in.Peek(int(min(headSize+maxKey, length-at)))
		if err != nil {
			return readError(number, at, err)
		}
		step := int64(1)
		if key, size, ok := parseHead(f.seed, at, head); ok && entryLength(key, size) <= length-at {
			step = entryLength(key, size)
			if err := visit(key, Ref{number, at, size}); err != nil {
				return err
			}
		} else if damage == nil {
			damage = &DamagedError{number, at, "no value begins here"}
		}
		if _, err := in.Discard(int(step)); err != nil {
			return readError(number, at, err)
		}
		at += step
	}
	return damage
}
