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
// the database opens. Without a new memory table Badger cannot continue, so nothing is committed
// without descriptors for one.
type spare struct {
	mu    sync.Mutex
	files []*os.File
}

// The number of reserved descriptors, the least for a commit, and the number released for a file of
// Badger's: a table needs one for itself and one for its directory.
const (
	spareFiles = 24
	spareLeast = 12
	spareOpens = 4
)

var errNoDescriptors = &dedup.ErrUnavailable{
	Reason: "the process has too few file descriptors left; raise its limit (ulimit -n), the store continues " +
		"by itself once some are closed",
	RetryAfter: 5 * time.Second,
}

// fill reserves the missing descriptors and reports whether there are enough.
func (s *spare) fill() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for len(s.files) < spareFiles {
		f, err := os.Open(os.DevNull)
		if err != nil {
			break
		}
		s.files = append(s.files, f)
	}
	return len(s.files) >= spareLeast
}

// open opens a file, with reserved descriptors if there are no others. open leaves nothing behind
// if it fails.
func (s *spare) open(open func() error) error {
	err := open()
	if isExhausted(err) {
		s.release(spareOpens)
		err = open()
	}
	return err
}

func isExhausted(err error) bool {
	return errors.Is(err, syscall.EMFILE) || errors.Is(err, syscall.ENFILE)
}

func (s *spare) release(n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	n = min(n, len(s.files))
	for _, f := range s.files[len(s.files)-n:] {
		_ = f.Close() // nothing was written to it
	}
	s.files = s.files[:len(s.files)-n]
}

// tablesRetry is slightly less than Badger waits before it retries to write a memory table.
const tablesRetry = 950 * time.Millisecond

// onLogLine releases descriptors when Badger's log shows that it opens a file.
func (s *spare) onLogLine(line string) {
	switch {
	case strings.HasPrefix(line, "Flushing memtable, mt.size="):
		s.release(spareOpens) // it opens a new one next
	case strings.HasPrefix(line, "error flushing memtable") && exhausted(line):
		time.AfterFunc(tablesRetry, func() { s.release(spareOpens) })
	}
}
