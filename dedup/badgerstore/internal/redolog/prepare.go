package redolog

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/eyelet-dev/eyelet/dedup/badgerstore/internal/storedir"
	"github.com/eyelet-dev/eyelet/internal/atomicfile"
)

// newFile is the name of a segment until it is complete.
const newFile = "segment.new"

// retryAfter is the time between two attempts to prepare a segment on a full disk. Tests shorten
// it.
var retryAfter = 200 * time.Millisecond

// Open opens the log for writing behind a position at which a checkpoint is durable. The segment
// of that position is kept until a Release passes it; all other files are used again, under new
// numbers, unless [Settings.Unclean] forbids it. The space of missing files is reserved, so writes
// into them need none.
//
// Writing to reserved space for the first time makes a flush slower, because it changes metadata.
// So the next segment is filled with zeros ahead of use, and the log goes on in it at once; but not
// in a log that is hardly written.
func Open(s Settings, after Position) (*Log, error) {
	if err := s.complete(); err != nil {
		return nil, err
	}
	if err := makeDir(s.Dir); err != nil {
		return nil, err
	}
	l := &Log{settings: s, buf: make([]byte, headSize), end: after, done: make(chan struct{})}
	l.changed = sync.NewCond(&l.mu)
	if err := errors.Join(l.openFiles(after.Segment), atomicfile.SyncDir(s.Dir)); err != nil {
		return nil, errors.Join(err, l.closeFiles())
	}
	go l.prepareFreed()
	return l, nil
}

// openFiles opens and prepares the files of the directory, except the segment with the number kept.
func (l *Log) openFiles(kept uint64) error {
	numbers, err := segmentsIn(l.settings.Dir)
	if err != nil {
		return err
	}
	l.next = 1 + max(kept, slices.Max(append(numbers, 0)))
	want := l.settings.Segments
	if slices.Contains(numbers, kept) {
		want--
	}
	for _, number := range numbers {
		s := &segment{number: number, once: l.settings.Unclean}
		switch {
		case number == kept:
			l.used = append(l.used, s)
		case len(l.free) == want:
			if err := os.Remove(l.settings.path(number)); err != nil {
				return err
			}
			continue
		default:
			l.free = append(l.free, s)
		}
		if err := l.openFile(s); err != nil {
			return err
		}
	}
	for len(l.free) < want {
		l.free = append(l.free, &segment{})
	}
	for ; len(l.free) > 0; l.free = l.free[1:] {
		if err := l.prepare(l.free[0]); err != nil {
			return err
		}
		l.ready = append(l.ready, l.free[0])
	}
	return nil
}

// openFile opens a segment if its file can be used again: it has the right size and a head that a
// Replay accepts.
func (l *Log) openFile(s *segment) error {
	f, err := l.settings.OpenFile(l.settings.path(s.number), os.O_RDWR, 0)
	if err != nil {
		return err
	}
	info, err := f.Stat()
	if err == nil && info.Size() == l.settings.SegmentSize {
		if _, _, err = readHead(f, l.settings.Store, s.number); err == nil {
			s.file, s.raw = f, f.Raw()
			return nil
		}
	}
	if damaged := (*DamagedError)(nil); errors.As(err, &damaged) {
		err = nil
	}
	return errors.Join(err, f.Close())
}

// prepareFreed prepares the segments that Release frees, until the log fails or is closed.
func (l *Log) prepareFreed() {
	defer close(l.done)
	l.mu.Lock()
	defer l.mu.Unlock()
	for l.failed == nil {
		switch {
		case len(l.free) > 0:
			l.prepareFirst()
		case l.loaded && len(l.ready) > 1 && l.ready[0].raw:
			l.fillNext()
		default:
			l.changed.Wait()
		}
	}
}

// prepareFirst prepares the first free segment; l.mu is held.
func (l *Log) prepareFirst() {
	s := l.free[0]
	l.mu.Unlock()
	err := errors.Join(l.prepare(s), atomicfile.SyncDir(l.settings.Dir))
	if storedir.IsNoSpace(err) {
		time.Sleep(retryAfter)
	} else if err != nil {
		_ = l.fail(err)
	}
	l.mu.Lock()
	if l.noSpace = storedir.IsNoSpace(err); err == nil {
		l.free, l.ready = l.free[1:], append(l.ready, s)
	}
	l.changed.Broadcast()
}

// fillNext fills the next segment with zeros; l.mu is held. If the log has gone on to a later one
// meanwhile, it is prepared again. Without space to fill it, it stays as it is.
func (l *Log) fillNext() {
	s := l.ready[0]
	l.ready, l.filling = l.ready[1:], true
	l.mu.Unlock()
	err := writeZeros(s.file, l.settings.SegmentSize, l.rest)
	if err != nil && !errors.As(err, new(*storedir.NotWrittenError)) {
		_ = l.fail(ofSegment(s, err))
	}
	l.mu.Lock()
	if s.raw, l.filling = false, false; l.begun > s.number {
		l.free = append(l.free, s)
	} else {
		l.ready = slices.Insert(l.ready, 0, s)
	}
	l.changed.Broadcast()
}

// rest leaves the disk and the processor to the log. It returns why the log has failed.
func (l *Log) rest() error {
	time.Sleep(3 * time.Millisecond)
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.failed
}

// prepare gives a segment the next number. Its file is created if it has none of the usual size.
func (l *Log) prepare(s *segment) error {
	before := l.settings.path(s.number)
	if s.once && s.file != nil {
		if err := s.file.Close(); err != nil {
			return err
		}
		s.file = nil
	}
	if s.file == nil {
		if err := os.Remove(before); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		before = filepath.Join(l.settings.Dir, newFile)
		var err error
		if s.file, s.raw, err = l.create(before); err != nil {
			return err
		}
		s.once = true // unless it gets its name
	}
	number := l.next
	l.next++
	if err := os.Rename(before, l.settings.path(number)); err != nil {
		return err
	}
	s.number, s.once = number, false
	return nil
}

// create makes a file with space on the disk: raw, or filled with zeros where space cannot be
// reserved otherwise.
func (l *Log) create(name string) (f storedir.File, raw bool, err error) {
	f, err = l.settings.OpenFile(name, os.O_RDWR|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return nil, false, err
	}
	if raw, err = reserve(f, l.settings.SegmentSize); err != nil {
		return nil, false, errors.Join(err, f.Close(), os.Remove(name))
	}
	return f, raw, nil
}

// extend makes a segment without frames larger. Its size is durable before its head names it.
func (s *segment) extend(size int64) error {
	s.once = true
	raw, err := reserve(s.file, size)
	if err == nil && raw {
		err = s.file.Sync()
	}
	return err
}

// reserve sets the size of a file and reserves its space, or writes zeros where that is not
// possible. A disk without the space is not filled up: others need the rest of it.
func reserve(f storedir.File, size int64) (raw bool, err error) {
	if err = f.Allocate(size); err == nil || storedir.IsNoSpace(err) {
		return true, err
	}
	return false, writeZeros(f, size, func() error { return nil })
}

// writeZeros writes a part after the other, and flushes some together, so that flushes of the log
// wait for little. It calls rest after each part. A part that has no space is a
// [storedir.NotWrittenError]. A flush without space has lost what was written, as any other.
func writeZeros(f storedir.File, size int64, rest func() error) error {
	zeros := make([]byte, min(size, 256<<10))
	const together = 4 << 20
	for at := int64(0); at < size; at += int64(len(zeros)) {
		part := zeros[:min(int64(len(zeros)), size-at)]
		_, err := f.WriteAt(part, at)
		if storedir.IsNoSpace(err) {
			return &storedir.NotWrittenError{Err: err}
		} else if err != nil {
			return err
		}
		if end := at + int64(len(part)); end%together == 0 || end == size {
			err = f.Sync()
		} else {
			err = f.WriteBack(at, int64(len(part)))
		}
		if err == nil {
			err = rest()
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (l *Log) closeFiles() (err error) {
	for _, s := range slices.Concat(l.used, l.ready, l.free) {
		if s.file != nil {
			err = errors.Join(err, s.file.Close())
		}
	}
	l.used, l.ready, l.free = nil, nil, nil
	return err
}

// segmentsIn returns the numbers of the segments in a directory in ascending order.
func segmentsIn(dir string) (numbers []uint64, err error) {
	entries, err := os.ReadDir(dir)
	for _, e := range entries {
		digits, ok := strings.CutSuffix(e.Name(), segmentSuffix)
		if number, err := strconv.ParseUint(digits, 10, 64); ok && err == nil && number > 0 {
			numbers = append(numbers, number)
		}
	}
	slices.Sort(numbers)
	return numbers, err
}

// makeDir creates the directory if it is missing.
func makeDir(dir string) error {
	if err := os.Mkdir(dir, 0o700); err == nil {
		storedir.OverwriteInPlace(dir)
	} else if !errors.Is(err, fs.ErrExist) {
		return err
	}
	return atomicfile.SyncDir(filepath.Dir(dir)) // also of a directory that a crash left
}
