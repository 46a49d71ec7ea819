package badgerstore

import (
	"os"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/eyelet-dev/eyelet/dedup"
)

// spare holds file descriptors, so that those who use them up (connections, most of all) leave some for the files that
// Badger opens in the middle of a commit. A value log that cannot be opened costs that batch only. Without a new memory
// table Badger cannot go on, so nothing is committed unless there are descriptors left for one.
type spare struct {
	mu    sync.Mutex
	files []*os.File
	short bool // there were not enough when it was filled last
}

// How many descriptors are held, with how many of them the store goes on, and how many are let go for a file of
// Badger's: a table takes one for itself and one for its directory.
const (
	spareFiles = 24
	spareLeast = 12
	spareOpens = 4
)

// errNoDescriptors is why nothing is written.
var errNoDescriptors = &dedup.ErrUnavailable{
	Reason:     "the process has too few file descriptors left; raise its limit (ulimit -n), the store goes on by itself once some are closed",
	RetryAfter: 5 * time.Second,
}

// fill takes what is missing and reports whether it is enough.
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
	s.short = len(s.files) < spareLeast
	return !s.short
}

// err is why nothing is written, as far as known; nil when something is.
func (s *spare) err() error {
	s.mu.Lock()
	short := s.short
	s.mu.Unlock()
	if short && !s.fill() {
		return errNoDescriptors
	}
	return nil
}

// release lets n descriptors go, for a file that is opened right now.
func (s *spare) release(n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	n = min(n, len(s.files))
	for _, f := range s.files[len(s.files)-n:] {
		_ = f.Close() // of nothing that was written
	}
	s.files = s.files[:len(s.files)-n]
}

// tablesRetry is a little less than Badger waits before it tries again to write a memory table.
const tablesRetry = 950 * time.Millisecond

// heard listens to Badger's lines for the moments at which it opens a file.
func (s *spare) heard(line string) {
	switch {
	case strings.HasPrefix(line, "Flushing memtable, mt.size="):
		s.release(spareOpens) // the next thing that it does is to open a new one
	case strings.HasPrefix(line, "error flushing memtable") && strings.Contains(line, syscall.EMFILE.Error()):
		time.AfterFunc(tablesRetry, func() { s.release(spareOpens) })
	}
}

// unopened reports whether a commit failed because Badger could not open a new value log, before anything became
// visible. A memory table that could not be opened leaves Badger unusable. Badger keeps the text of causes only.
func unopened(err error) bool {
	text := err.Error()
	return strings.Contains(text, "unable to open: ") && !strings.Contains(text, "mem table") &&
		(strings.Contains(text, syscall.EMFILE.Error()) || strings.Contains(text, syscall.ENFILE.Error()))
}
