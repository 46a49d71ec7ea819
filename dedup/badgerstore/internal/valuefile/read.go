package valuefile

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
)

// Read returns the value of a key in memory of its own. The error is a [*DamagedError] if the
// file does not hold the value at this place, and [fs.ErrClosed] if the file was removed, or never
// existed: then the key may have a newer place. Bytes that do not match their checksum are returned
// with the error.
func (s *Set) Read(key []byte, r Ref) ([]byte, error) {
	f, length, err := s.file(r.File)
	if err != nil {
		return nil, err
	}
	size := r.Space()
	if r.Offset < 0 || size > length-r.Offset {
		return nil, &DamagedError{r.File, r.Offset, "the value would reach beyond the end"}
	}
	b := make([]byte, size)
	if _, err := f.ReadAt(b, r.Offset); err != nil {
		return nil, readError(r.File, r.Offset, err)
	}
	value, intact := f.value(r.Offset, key, b)
	if !intact {
		return value, &DamagedError{r.File, r.Offset, "the value does not match its checksum"}
	}
	return value, nil
}

func (s *Set) file(number uint64) (f *file, length int64, err error) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if f = s.files[number]; f == nil {
		return nil, 0, fmt.Errorf("value file %s was removed: %w", digits(number), fs.ErrClosed)
	}
	return f, f.length, nil
}

func readError(number uint64, offset int64, err error) error {
	if errors.Is(err, io.EOF) {
		return &DamagedError{number, offset, "the file has become shorter"}
	}
	return fmt.Errorf("value file %s: %w", digits(number), err)
}
