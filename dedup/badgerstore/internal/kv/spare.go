package kv

import (
	"errors"
	"io/fs"
	"os"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/eyelet-dev/eyelet/dedup"
	"github.com/eyelet-dev/eyelet/dedup/badgerstore/internal/storedir"
)

// spare reserves file descriptors: other users (mostly connections) leave some for the files that
// the database opens. Badger ends the process if it has none for a memory table, and never repeats
// a compaction that has none for a table. So these have descriptors before they are opened, and
// nothing here takes those, not even to count them.
type spare struct {
	mu      sync.Mutex
	files   []*os.File
	until   time.Time // released descriptors are not reserved again before
	writes  int       // writes of Badger in progress
	opening bool      // one of them opens a memory table
	tables  bool      // a compaction creates tables
	tight   bool      // and had to be given reserved descriptors
}

// The number of reserved descriptors, the least for a commit, the number that a file of the
// database needs, that of a compaction, and how long the database has to open a file.
const (
	spareFiles  = 32
	spareLeast  = 12
	spareOpens  = 4
	spareTables = spareFiles - spareLeast
	spareHold   = 500 * time.Millisecond
)

var errNoDescriptors = &dedup.ErrUnavailable{
	Reason: "the process has too few file descriptors left; raise its limit (ulimit -n), the store continues " +
		"by itself once some are closed",
	RetryAfter: 5 * time.Second,
}

// reserve reserves the missing descriptors. The error is errNoDescriptors if there are too few.
func (s *spare) reserve() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.files) < spareFiles && !s.opening && !s.tight && time.Now().After(s.until) {
		s.refill()
	}
	if len(s.files) < spareLeast {
		return errNoDescriptors
	}
	return nil
}

// refill takes none of the descriptors that a compaction may need for its tables.
func (s *spare) refill() {
	if !s.tables {
		s.add(spareFiles)
		return
	}
	reserved := len(s.files)
	if s.add(spareFiles + spareTables); len(s.files) == spareFiles+spareTables {
		s.drop(spareTables)
	} else {
		s.drop(len(s.files) - reserved)
	}
}

func (s *spare) add(upTo int) {
	for len(s.files) < upTo {
		f, err := os.Open(os.DevNull)
		if err != nil {
			return
		}
		s.files = append(s.files, f)
	}
}

// provide makes sure that a file can be opened: without opens other descriptors it releases
// reserved ones, except those to keep. It reports whether there are enough, which cannot be seen
// while Badger opens a memory table.
func (s *spare) provide(opens, keep int) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return !s.opening && s.release(opens, keep)
}

func (s *spare) release(opens, keep int) bool {
	reserved := len(s.files)
	if !s.opening && !s.tight {
		s.add(reserved + opens)
	}
	if free := len(s.files) - reserved; free < opens {
		if len(s.files) < keep+spareOpens {
			s.drop(free)
			return false
		}
		s.tight = s.tables
		s.until = time.Now().Add(spareHold)
	}
	s.drop(min(opens, len(s.files)-keep))
	return true
}

// compacts says whether a compaction creates tables; those that it has begun are there.
func (s *spare) compacts(tables bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.tables, s.tight = tables, false
}

func (s *spare) isTight() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.tight
}

// write begins a write of Badger. The function ends it: Badger has its memory table.
func (s *spare) write() (end func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.writes++
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.writes--
		s.opening = s.opening && s.writes > 0
	}
}

func (s *spare) drop(n int) {
	n = min(n, len(s.files))
	for _, f := range s.files[len(s.files)-n:] {
		_ = f.Close() // nothing was written to it
	}
	s.files = s.files[:len(s.files)-n]
}

// open opens a file, with reserved descriptors if there are no others. open leaves nothing behind
// if it fails.
func (s *spare) open(open func() error) error {
	if err := open(); !isExhausted(err) {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.release(spareOpens, 0)
	return open()
}

// openWith is open with a result.
func openWith[T any](s *spare, open func() (T, error)) (v T, err error) {
	err = s.open(func() (err error) {
		v, err = open()
		return err
	})
	return v, err
}

// opener returns an opener that uses reserved descriptors if there are no others; nil is the one of
// real files.
func (s *spare) opener(open storedir.Open) storedir.Open {
	if open == nil {
		open = storedir.OpenFile
	}
	return func(name string, flag int, perm fs.FileMode) (storedir.File, error) {
		return openWith(s, func() (storedir.File, error) { return open(name, flag, perm) })
	}
}

// close gives all descriptors back.
func (s *spare) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.drop(len(s.files))
}

func isExhausted(err error) bool {
	return errors.Is(err, syscall.EMFILE) || errors.Is(err, syscall.ENFILE) || errors.Is(err, errNoDescriptors)
}

// tablesRetry is slightly less than Badger waits before it retries to write a memory table.
const tablesRetry = 950 * time.Millisecond

// onLogLine provides descriptors when Badger's log shows that it writes a memory table.
func (s *spare) onLogLine(line string) {
	switch {
	case strings.HasPrefix(line, "Flushing memtable, mt.size="):
		s.mu.Lock() // it opens a new one next
		defer s.mu.Unlock()
		s.release(spareLeast, 0)
		s.opening = s.writes > 0
	case strings.HasPrefix(line, "error flushing memtable") && exhausted(line):
		time.AfterFunc(tablesRetry, func() { s.provide(spareOpens, 0) })
	}
}
