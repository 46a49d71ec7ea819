// Package valuefile keeps large values in files to which they are only appended. A checkpoint of
// the store notes the durable length of each file; what is behind it can be made again from the
// redo log.
package valuefile

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/eyelet-dev/eyelet/dedup/badgerstore/internal/storedir"
)

// Settings are where the files are and whose.
type Settings struct {
	// Dir has the files. It is created with mode 0700 if it is missing, and durable when its parent
	// directory is flushed.
	Dir   string
	Store [16]byte // identity of the history of the store
	// FileSize is the length in bytes at which a file is complete; zero is 64 MiB. A larger value
	// has a file of its own.
	FileSize int64
	// OpenFile opens a file, or the directory to flush it; nil is [storedir.OpenFile].
	OpenFile storedir.Open
}

// FileState is a file and its length in bytes.
type FileState struct {
	Number uint64
	Length int64
}

// Set is the open value files of a store, with a descriptor for each file. One goroutine calls
// Append, Write and Seal; the other methods are safe for concurrent use.
type Set struct {
	s Settings

	syncing sync.Mutex   // held by Sync
	mu      sync.RWMutex // guards what follows
	files   map[uint64]*file
	eras    []*era // the last one is the present one
	next    uint64 // number of the next file
	renamed bool   // names have changed since the last Sync
	err     error  // final

	active *file  // changed by the appender under mu; nil before the first value of a file
	buffer []byte // the appender's: entries that are not written yet
}

// file is in Set.files from its first complete write on.
type file struct {
	storedir.File
	name    string
	number  uint64
	seed    uint32 // checksum of store and number
	length  int64
	dirty   bool // written since the last Sync
	retired bool // left out of the next Sync
	passed  bool // left out of the last Sync
	removed bool // read by holds only
}

// Open opens the files of a checkpoint. It cuts each one at its noted length, and deletes files
// that are not listed. A file that is missing or shorter is a [*DamagedError], and then no file is
// changed. New values go to a new file, whose number is above those of all files and above after.
func Open(s Settings, files []FileState, after uint64) (_ *Set, err error) {
	s.FileSize = cmp.Or(s.FileSize, 64<<20)
	if s.OpenFile == nil {
		s.OpenFile = storedir.OpenFile
	}
	set := &Set{s: s, files: map[uint64]*file{}, eras: []*era{{}}, next: after + 1}
	defer func() {
		if err != nil {
			err = errors.Join(err, set.Close())
		}
	}()
	if err := os.MkdirAll(s.Dir, 0o700); err != nil {
		return nil, err
	}
	for _, state := range files {
		if err := set.openListed(state); err != nil {
			return nil, err
		}
	}
	for _, f := range set.files {
		if f.dirty {
			if err := f.Truncate(f.length); err != nil {
				return nil, err
			}
		}
	}
	return set, set.removeOthers()
}

// openListed opens a file of the checkpoint.
func (s *Set) openListed(state FileState) error {
	name := s.name(state.Number)
	f, err := s.s.OpenFile(name, os.O_RDWR, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return &DamagedError{state.Number, 0, "the file is missing"}
	} else if err != nil {
		return err
	}
	opened := s.newFile(f, state.Number, name)
	opened.length = state.Length
	s.files[state.Number] = opened
	info, err := f.Stat()
	if err != nil {
		return err
	}
	if info.Size() < state.Length {
		return &DamagedError{state.Number, info.Size(), fmt.Sprintf("it had %d bytes", state.Length)}
	}
	opened.dirty = info.Size() > state.Length
	return nil
}

// removeOthers deletes the files that are not in the set.
func (s *Set) removeOthers() error {
	entries, err := os.ReadDir(s.s.Dir)
	for _, e := range entries {
		number, ok := parseName(e.Name())
		if !ok {
			continue
		}
		s.next = max(s.next, number+1)
		if s.files[number] == nil {
			s.renamed = true
			err = errors.Join(err, os.Remove(filepath.Join(s.s.Dir, e.Name())))
		}
	}
	return err
}

const extension = ".values" // of the files

func digits(number uint64) string { return fmt.Sprintf("%010d", number) }

// parseName returns the number in the name of a value file.
func parseName(name string) (number uint64, ok bool) {
	ext := filepath.Ext(name)
	number, err := strconv.ParseUint(strings.TrimSuffix(name, ext), 10, 64)
	return number, err == nil && ext == extension && digits(number)+ext == name
}

func (s *Set) name(number uint64) string {
	return filepath.Join(s.s.Dir, digits(number)+extension)
}

// Files returns the files with values, oldest first, without removed ones.
func (s *Set) Files() []FileState {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.states(func(f *file) bool { return !f.removed })
}

func (s *Set) states(listed func(*file) bool) []FileState {
	states := make([]FileState, 0, len(s.files))
	for _, f := range s.files {
		if listed(f) {
			states = append(states, FileState{f.number, f.length})
		}
	}
	slices.SortFunc(states, func(a, b FileState) int { return cmp.Compare(a.Number, b.Number) })
	return states
}
