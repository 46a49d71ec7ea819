//go:build linux

package faultdisk

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// Strict is a file system in memory that promises no more than POSIX: a crash keeps of a file what
// was flushed, and of a directory the names at its last flush. File systems with a journal keep
// more, so no power cut shows that the flush of a directory is missing.
//
// It remembers what a crash would have left after each flush. One goroutine uses it at a time.
type Strict struct {
	// Dir is where the file system is mounted.
	Dir    string
	server *server
}

// NewStrict mounts an empty file system. It skips the test without Long. It needs root and
// /dev/fuse.
func NewStrict(t testing.TB) *Strict {
	t.Helper()
	NeedLong(t)
	s := &Strict{Dir: filepath.Join(t.TempDir(), "strict")}
	err := os.Mkdir(s.Dir, 0o700)
	if err == nil {
		UnmountAtEnd(t, s.Dir)
		s.server, err = startServer("strict", s.Dir)
	}
	if err != nil {
		t.Fatalf("faultdisk cannot be used: %v", err)
	}
	t.Cleanup(func() {
		s.server.close()
		_, _ = run("umount", "-l", s.Dir)
	})
	return s
}

// Flushes returns the number of flushes of files and directories so far.
func (s *Strict) Flushes() (int, error) {
	text, err := s.server.ask("flushes")
	if err != nil {
		return 0, err
	}
	return strconv.Atoi(text)
}

// Flushed returns what each flush was of, as paths in the file system.
func (s *Strict) Flushed() ([]string, error) {
	text, err := s.server.ask("flushed")
	return strings.Split(text, "\t"), err
}

// Image writes what a crash after n flushes leaves into a new directory.
func (s *Strict) Image(n int, dir string) error { return s.server.send("image", n, dir) }

// FailFlush makes the next flush of a file fail, to which a path ends. As in Linux its pages count
// as clean then: they can be read, but later flushes do not write them. Each descriptor that was
// open is notified once.
func (s *Strict) FailFlush(path string) error { return s.server.send("fail", strconv.Quote(path)) }
