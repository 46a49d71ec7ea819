package valuefile

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"runtime"
	"sync"
)

// Sync makes everything written before the call durable, and returns the files for a checkpoint,
// oldest first, without retired ones. It flushes through the descriptors that have written: a new
// one may not be notified of an earlier failure. An error is final, because the kernel drops the
// pages that it could not write, and another flush would succeed without them. If the directory
// cannot be opened, another call may succeed.
func (s *Set) Sync() ([]FileState, error) {
	s.syncing.Lock()
	defer s.syncing.Unlock()
	states, dirty, renamed, err := s.snapshot()
	for _, f := range dirty {
		err = errors.Join(err, f.Sync())
	}
	var unopened error
	if renamed && err == nil {
		unopened, err = s.syncDir()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err = cmp.Or(s.err, err); s.err != nil || unopened != nil {
		s.renamed = s.renamed || unopened != nil
		return nil, cmp.Or(s.err, unopened)
	}
	for _, f := range s.files {
		f.passed = f.retired
	}
	return states, nil
}

// snapshot returns what a Sync flushes.
func (s *Set) snapshot() (states []FileState, dirty []*file, renamed bool, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, f := range s.files {
		if f.dirty {
			dirty = append(dirty, f)
		}
		f.dirty = false
	}
	renamed, s.renamed = s.renamed, false
	return s.states(func(f *file) bool { return !f.retired }), dirty, renamed, s.err
}

// syncDir makes the names of the files durable. Windows cannot flush a directory.
func (s *Set) syncDir() (unopened, err error) {
	if runtime.GOOS == "windows" {
		return nil, nil
	}
	d, err := s.s.OpenFile(s.s.Dir, os.O_RDONLY, 0)
	if err != nil {
		return err, nil
	}
	return nil, errors.Join(d.Sync(), d.Close())
}

// Retire leaves a complete file out of the checkpoints that follow. Its values can be read until
// it is removed.
func (s *Set) Retire(number uint64) error {
	s.syncing.Lock() // a Sync lists a file and flushes it, or neither
	defer s.syncing.Unlock()
	s.mu.Lock()
	defer s.mu.Unlock()
	f := s.files[number]
	if f == nil || f == s.active {
		return fmt.Errorf("value file %s is not complete", digits(number))
	}
	f.retired = true
	return nil
}

// Remove deletes a retired file. The checkpoint with the files of a later [Set.Sync] must be
// durable, or a start would miss the file. Callers that hold it can read on.
func (s *Set) Remove(number uint64) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	f := s.files[number]
	if f == nil || !f.passed {
		return fmt.Errorf("value file %s is not out of the checkpoint", digits(number))
	}
	if err := os.Remove(f.name); err != nil {
		return err
	}
	f.removed, s.renamed = true, true
	s.eras[len(s.eras)-1].removed = f
	s.eras = append(s.eras, &era{})
	return s.closeUnheld()
}

// era is the time from the removal of one file to that of the next. A removed file can be read
// while a hold lasts that was begun before its removal.
type era struct {
	holds   int
	removed *file
}

// Hold keeps the values readable that can be read now, until release is called.
func (s *Set) Hold() (release func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	e := s.eras[len(s.eras)-1]
	e.holds++
	return sync.OnceFunc(func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		e.holds--
		_ = s.closeUnheld() // nothing was written to a removed file that is needed
	})
}

// closeUnheld closes the removed files that no caller holds any more.
func (s *Set) closeUnheld() (err error) {
	for len(s.eras) > 1 && s.eras[0].holds == 0 {
		f := s.eras[0].removed
		s.eras = s.eras[1:]
		delete(s.files, f.number)
		err = errors.Join(err, f.Close())
	}
	return err
}

// Bytes returns the length of all files that are not removed.
func (s *Set) Bytes() (n int64) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	for _, f := range s.files {
		n += f.length
	}
	return n
}

// Close closes the files, without writing what was only appended.
func (s *Set) Close() (err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.active != nil && s.files[s.active.number] == nil {
		err = s.active.Close()
	}
	for _, f := range s.files {
		err = errors.Join(err, f.Close())
	}
	s.active, s.err = nil, errors.Join(s.err, fs.ErrClosed)
	return err
}
