package kv

import (
	"errors"
	"os"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/eyelet-dev/eyelet/dedup"
)

// spare reserves file descriptors: other users (mostly connections) leave some for the files that
// the database opens. Without a new memory table Badger cannot continue, so nothing is committed or
// applied without descriptors for one.
type spare struct {
	mu    sync.Mutex
	files []*os.File
	until time.Time // released descriptors are not reserved again before
}

// The number of reserved descriptors, the least for a commit, the number that a file of the
// database needs, and how long the database has to open it.
const (
	spareFiles = 32
	spareLeast = 12
	spareOpens = 4
	spareHold  = 500 * time.Millisecond
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
	if len(s.files) < spareFiles && time.Now().After(s.until) {
		s.add(spareFiles)
	}
	if len(s.files) < spareLeast {
		return errNoDescriptors
	}
	return nil
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

// provide makes sure that a file can be opened: without other descriptors it releases reserved
// ones, except those to keep. It reports whether there are enough.
func (s *spare) provide(keep int) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	before := len(s.files)
	s.add(before + spareOpens)
	if free := len(s.files) - before; free < spareOpens {
		if len(s.files) < keep+spareOpens {
			s.drop(free)
			return false
		}
		s.until = time.Now().Add(spareHold)
	}
	s.drop(spareOpens)
	return true
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
	err := open()
	if isExhausted(err) {
		s.provide(0)
		err = open()
	}
	return err
}

// openWith is open with a result.
func openWith[T any](s *spare, open func() (T, error)) (v T, err error) {
	err = s.open(func() (err error) {
		v, err = open()
		return err
	})
	return v, err
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
		s.provide(0) // it opens a new one next
	case strings.HasPrefix(line, "error flushing memtable") && exhausted(line):
		time.AfterFunc(tablesRetry, func() { s.provide(0) })
	}
}
