package valuefile

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"math"
	"os"
	"syscall"

	"github.com/eyelet-dev/eyelet/dedup/badgerstore/internal/storedir"
)

const gather = 1 << 20 // bytes of entries that are written at once

// Append adds a value and returns its place, which can be read after the next Write. After a
// [*storedir.NotWrittenError] the places since the last Write are void; any other error is final.
func (s *Set) Append(key, value []byte) (Ref, error) {
	if uint64(len(value)) > math.MaxUint32 {
		return Ref{}, fmt.Errorf("a value of %d bytes is too large", len(value))
	}
	if err := s.failed(); err != nil {
		return Ref{}, err
	}
	r := Ref{Size: uint32(len(value))}
	if f := s.active; f != nil && s.end()+r.Space() > s.s.FileSize {
		if err := s.Seal(); err != nil {
			return Ref{}, err
		}
	} else if len(s.buffer) >= gather {
		if err := s.Write(); err != nil {
			return Ref{}, err
		}
	}
	if s.active == nil {
		if err := s.begin(); err != nil {
			return Ref{}, s.abandon(err)
		}
	}
	r.File, r.Offset = s.active.number, s.end()
	s.buffer = appendEntry(s.buffer, s.active.seed, r.Offset, key, value)
	return r, nil
}

// end returns where the next entry begins.
func (s *Set) end() int64 { return s.active.length + int64(len(s.buffer)) }

// begin creates a file.
func (s *Set) begin() error {
	number := s.Active()
	name := s.name(number)
	f, err := s.s.OpenFile(name, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.active = s.newFile(f, number, name)
	s.next, s.renamed = number+1, true
	return nil
}

func (s *Set) newFile(f storedir.File, number uint64, name string) *file {
	seed := crc32.Checksum(s.s.Store[:], castagnoli)
	seed = crc32.Update(seed, castagnoli, binary.LittleEndian.AppendUint64(nil, number))
	return &file{File: f, name: name, number: number, seed: seed}
}

// Write writes the appended entries. Then [Set.Read] finds them, but only [Set.Sync] makes them
// durable.
func (s *Set) Write() error {
	if err := s.failed(); err != nil || len(s.buffer) == 0 {
		return err
	}
	n, err := s.active.WriteAt(s.buffer, s.active.length)
	if err != nil {
		return s.abandon(err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.active.length += int64(n)
	s.active.dirty = true
	s.files[s.active.number] = s.active
	if s.buffer = s.buffer[:0]; cap(s.buffer) > 4*gather {
		s.buffer = nil
	}
	return nil
}

// abandon drops the appended entries and the rest of the active file after an error. A file
// without values is deleted, so that retries do not leave files.
func (s *Set) abandon(err error) error {
	s.buffer = nil
	s.mu.Lock()
	defer s.mu.Unlock()
	if !storedir.IsNoSpace(err) && !errors.Is(err, syscall.EROFS) {
		s.err = errors.Join(s.err, err)
		return s.err
	}
	if f := s.active; f != nil && f.length == 0 {
		_, _ = f.Close(), os.Remove(f.name) // else the next start deletes it
	}
	s.active = nil
	return &storedir.NotWrittenError{Err: err}
}

// Seal writes what was appended, and completes the file: the next value begins another one.
func (s *Set) Seal() error {
	err := s.Write()
	if err == nil {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.active = nil
	}
	return err
}

func (s *Set) failed() error {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.err
}

// Active returns the number of the file to which values are appended, or the number that the next
// file gets.
func (s *Set) Active() uint64 {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if s.active != nil {
		return s.active.number
	}
	return s.next
}
