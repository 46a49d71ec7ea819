package redolog

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/eyelet-dev/eyelet/dedup/badgerstore/internal/storedir"
)

// faulty returns the settings of a tiny log on a disk that injects errors.
func faulty(t testing.TB) (Settings, *disk) {
	s, d := tiny(t), newDisk(1)
	s.OpenFile = d.open
	t.Cleanup(func() { d.crash(t, false) })
	return s, d
}

func TestAFullDiskRefusesFramesAndTheLogContinues(t *testing.T) {
	t.Parallel()
	for _, refused := range []int{1, 2, 20} {
		s, d := faulty(t)
		l := open(t, s, Position{})
		want := []frame{write(t, l, 1, Entry{Key: []byte("a"), Value: make([]byte, 600)})}
		d.set(func(d *disk) { d.full = true })
		for group := range refused {
			_, err := l.Append(uint64(group), []Entry{{Key: []byte("b"), Value: make([]byte, 2000)}})
			if e := (*storedir.NotWrittenError)(nil); !errors.As(err, &e) || strings.Contains(err.Error(), s.Dir) {
				t.Fatalf("Append: %v, want a NotWrittenError", err)
			}
		}
		d.set(func(d *disk) { d.full = false })
		if l.End() != want[0].end {
			t.Errorf("the log ends at %v, want %v", l.End(), want[0].end)
		}
		for group := range uint64(3) {
			want = append(want, write(t, l, group, Entry{Key: []byte("c"), Value: make([]byte, 100)}))
		}
		if first := want[1].at; first.Segment == 1 || first.Offset != headSize {
			t.Errorf("the log continues at %v, want the begin of another segment", first)
		}
		settle(l)
		got, end := readAll(t, s, Position{})
		checkFrames(t, got, want)
		if end != l.End() {
			t.Errorf("Replay ends at %v, want %v", end, l.End())
		}
	}
}

// TestAFullDiskIsNotFilledUp refuses a frame that is larger than the space: nothing is written for
// it.
func TestAFullDiskIsNotFilledUp(t *testing.T) {
	t.Parallel()
	s, d := faulty(t)
	s.OpenFile = d.reserving
	l := open(t, s, Position{})
	want := []frame{write(t, l, 1, Entry{Key: []byte("a")})}
	large := Entry{Key: []byte("b"), Value: make([]byte, 2*s.SegmentSize)}
	written := 0
	d.set(func(d *disk) { d.full, written = true, d.written })
	if _, err := l.Append(2, []Entry{large}); !errors.As(err, new(*storedir.NotWrittenError)) {
		t.Errorf("Append: %v, want a NotWrittenError", err)
	}
	d.set(func(d *disk) {
		if d.full = false; d.written != written {
			t.Errorf("%d writes", d.written-written)
		}
	})
	settle(l)
	want = append(want, write(t, l, 3, large), write(t, l, 4, Entry{Key: []byte("c")}))
	got, _ := readAll(t, s, Position{})
	checkFrames(t, got, want)
}

// TestARefusedFrameIsNotVisited leaves a segment as a crash does: its first and only frame is whole
// although it was refused, and a later segment has the next one.
func TestARefusedFrameIsNotVisited(t *testing.T) {
	t.Parallel()
	s, d := faulty(t)
	l := open(t, s, Position{})
	want := []frame{write(t, l, 1, Entry{Key: []byte("a")})}
	d.set(func(d *disk) { d.full = true })
	for range 2 { // the second one begins a segment
		if _, err := l.Append(2, []Entry{{Key: []byte("refused"), Value: make([]byte, 1000)}}); err == nil {
			t.Fatal("a frame was written without space")
		}
	}
	d.set(func(d *disk) { d.full = false })
	for len(want) < 3 {
		want = append(want, write(t, l, 3, Entry{Key: []byte("b")}))
	}
	_ = l.Close()
	h := head{2, 1, s.SegmentSize, want[0].end}
	b := appendFrame(make([]byte, headSize), 2, []Entry{{Key: []byte("refused"), Value: make([]byte, 1000)}})
	h.encode(b, s.Store)
	sealFrame(b[headSize:], h.seed(s.Store), headSize)
	if err := os.WriteFile(s.path(2), append(b, make([]byte, int(s.SegmentSize)-len(b))...), 0o600); err != nil {
		t.Fatal(err)
	}
	got, end := readAll(t, s, Position{})
	checkFrames(t, got, want)
	if want[1].at.Segment != 3 || end != l.end {
		t.Errorf("the log continues at %v and ends at %v, want %v", want[1].at, end, l.end)
	}
}

func TestOtherErrorsAreFinal(t *testing.T) {
	t.Parallel()
	for name, inject := range map[string]func(*disk){
		"write": func(d *disk) { d.broken = true },
		"flush": func(d *disk) { d.noFlush = true },
	} {
		s, d := faulty(t)
		l := open(t, s, Position{})
		want := write(t, l, 1, Entry{Key: []byte("a")})
		d.set(inject)
		_, err := l.Append(2, []Entry{{Key: []byte("b")}})
		if err == nil {
			err = l.Flush()
		}
		if !errors.Is(err, syscall.EIO) {
			t.Errorf("%s: %v, want EIO", name, err)
		}
		d.set(func(d *disk) { d.broken, d.noFlush = false, false })
		_, err = l.Append(3, nil)
		for _, err := range []error{err, l.Flush(), l.Mark(), l.Release(Position{})} {
			if !errors.Is(err, syscall.EIO) {
				t.Errorf("%s: later %v, want EIO", name, err)
			}
		}
		if l.End() != want.end {
			t.Errorf("%s: the log ends at %v, want %v", name, l.End(), want.end)
		}
	}
}

func TestOpenFailsWithoutSpaceForTheSegments(t *testing.T) {
	t.Parallel()
	s, d := faulty(t)
	d.full = true
	if _, err := Open(s, Position{}); !errors.Is(err, syscall.ENOSPC) {
		t.Errorf("Open: %v, want ENOSPC", err)
	}
	if left, err := filepath.Glob(s.Dir + "/*"); err != nil || len(left) > 0 {
		t.Errorf("Open leaves %v", left)
	}
	d.full, d.noFlush = false, true
	if _, err := Open(s, Position{}); !errors.Is(err, syscall.EIO) {
		t.Errorf("Open: %v, want EIO", err)
	}
}

// TestAFullDiskDelaysThePreparation opens a log with another segment size, so that the released
// segment has to be created.
func TestAFullDiskDelaysThePreparation(t *testing.T) {
	t.Parallel()
	s, d := faulty(t)
	l := open(t, s, Position{})
	write(t, l, 1)
	_ = l.Close()
	s.SegmentSize, s.Segments = 128<<10, 3
	l = open(t, s, l.End())
	large := []Entry{{Key: []byte("k"), Value: make([]byte, 100_000)}}
	for group := range uint64(2) {
		write(t, l, group, large...)
	}
	if _, err := l.Append(3, large); !errors.Is(err, ErrFull) {
		t.Fatalf("Append: %v, want ErrFull", err)
	}
	d.set(func(d *disk) { d.full = true })
	if err := l.Release(Position{Segment: l.End().Segment - 1}); err != nil {
		t.Fatal(err)
	}
	if _, err := l.Append(4, large); !errors.Is(err, ErrFull) { // it waits for the first attempt
		t.Fatalf("Append without space: %v, want ErrFull", err)
	}
	d.set(func(d *disk) { d.full = false })
	_, err := l.Append(5, large)
	for ; errors.Is(err, ErrFull); _, err = l.Append(5, large) { // until the next attempt
		l.mu.Lock()
		l.changed.Wait()
		l.mu.Unlock()
	}
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(s.Dir, newFile)); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("an incomplete segment is left: %v", err)
	}
}

func TestAFailedRenameIsFinal(t *testing.T) {
	t.Parallel()
	s := tiny(t)
	l := open(t, s, Position{})
	entries := []Entry{{Key: []byte("k"), Value: make([]byte, 50_000)}}
	write(t, l, 1, entries...)
	write(t, l, 2, entries...)
	if err := os.Remove(s.path(1)); err != nil {
		t.Fatal(err)
	}
	if err := l.Release(l.End()); err != nil {
		t.Fatal(err)
	}
	<-l.done
	if _, err := l.Append(3, entries); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("Append: %v, want the error of the rename", err)
	}
}

func TestErrorsOfVisitAreReturned(t *testing.T) {
	t.Parallel()
	s := tiny(t)
	l := open(t, s, Position{})
	first := write(t, l, 1)
	second := write(t, l, 2)
	stop := errors.New("stop")
	end, _, err := Replay(s, Position{}, func(f Frame) error {
		if f.At == second.at {
			return stop
		}
		return nil
	})
	if !errors.Is(err, stop) || end != first.end {
		t.Errorf("Replay: %v, %v", end, err)
	}
}

func TestALogOfAnotherStoreHasNoFrames(t *testing.T) {
	t.Parallel()
	s := tiny(t)
	l := open(t, s, Position{})
	for group := range uint64(2) { // in two segments
		write(t, l, group, Entry{Key: []byte("k"), Value: make([]byte, 50_000)})
	}
	_ = l.Close()
	s.Store[0]++
	got, end := readAll(t, s, Position{})
	checkFrames(t, got, nil)
	l = open(t, s, end)
	want := write(t, l, 1, Entry{Key: []byte("k")})
	got, _ = readAll(t, s, Position{})
	checkFrames(t, got, []frame{want})
}

func TestOpenReplacesUnsuitableFiles(t *testing.T) {
	t.Parallel()
	s := tiny(t)
	l := open(t, s, Position{})
	last := write(t, l, 1)
	_ = l.Close()
	files := map[string]int{
		"0000000007.log": 100, "0000000009.log": 64 << 10, "0000000011.log": 64 << 10, newFile: 5, "other.log": 1,
	}
	for name, size := range files {
		if err := os.WriteFile(filepath.Join(s.Dir, name), make([]byte, size), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	l = open(t, s, last.end)
	numbers, err := segmentsIn(s.Dir)
	if want := []uint64{1, 12, 13, 14}; err != nil || !slices.Equal(numbers, want) {
		t.Errorf("the segments are %v, want %v", numbers, want)
	}
	for _, number := range numbers {
		if info, err := os.Stat(s.path(number)); err != nil || info.Size() != s.SegmentSize {
			t.Errorf("segment %d: %v, %v", number, info, err)
		}
	}
	if f := write(t, l, 2); f.at != (Position{12, headSize}) {
		t.Errorf("the log continues at %v", f.at)
	}
}

// failing is a file that was opened in a life of a log, and can fail from then on.
type failing struct {
	storedir.File
	write, back, sync atomic.Pointer[error]
}

func (f *failing) WriteAt(b []byte, at int64) (int, error) {
	if err := f.write.Load(); err != nil {
		return 0, *err
	}
	return f.File.WriteAt(b, at)
}

func (f *failing) WriteBack(at, size int64) error {
	if err := f.back.Load(); err != nil {
		return *err
	}
	return f.File.WriteBack(at, size)
}

func (f *failing) Sync() error {
	if err := f.sync.Load(); err != nil {
		return *err
	}
	return f.File.Sync()
}

// TestAFillThatFails: a segment for whose zeros there is no space is used as it is, because its own
// space is reserved. Every other error is final, and every one of a flush: the log would write
// where the kernel has lost pages.
func TestAFillThatFails(t *testing.T) {
	t.Parallel()
	noSpace, broken := error(syscall.ENOSPC), error(syscall.EIO)
	for what, tc := range map[string]struct {
		inject func(f *failing)
		final  error
	}{
		"a write without space":  {func(f *failing) { f.write.Store(&noSpace) }, nil},
		"a write":                {func(f *failing) { f.write.Store(&broken) }, broken},
		"a part without space":   {func(f *failing) { f.back.Store(&noSpace) }, noSpace},
		"a part":                 {func(f *failing) { f.back.Store(&broken) }, broken},
		"a flush without space":  {func(f *failing) { f.sync.Store(&noSpace) }, noSpace},
		"a flush":                {func(f *failing) { f.sync.Store(&broken) }, broken},
		"nothing, but it closes": {func(*failing) {}, fs.ErrClosed},
	} {
		s := Settings{Dir: t.TempDir() + "/redo", SegmentSize: 1 << 20, Segments: 4}
		var files []*failing
		s.OpenFile = func(name string, flag int, perm fs.FileMode) (storedir.File, error) {
			f, err := storedir.OpenFile(name, flag, perm)
			files = append(files, &failing{File: f})
			return files[len(files)-1], err
		}
		l := open(t, s, Position{})
		if !l.ready[0].raw {
			t.Skip("space cannot be reserved without being written here")
		}
		first := write(t, l, 1, Entry{Key: []byte("a")})
		tc.inject(files[1])
		l.load()
		if errors.Is(tc.final, fs.ErrClosed) {
			_ = l.Close()
		}
		l.mu.Lock()
		for l.failed == nil && (l.filling || l.ready[0].raw) {
			l.changed.Wait()
		}
		failed := l.failed
		l.mu.Unlock()
		if !errors.Is(failed, tc.final) || tc.final == nil && failed != nil {
			t.Errorf("%s: %v, want %v", what, failed, tc.final)
		}
		files[1].write.Store(nil)
		want := []frame{first}
		if tc.final == nil {
			want = append(want, write(t, l, 2, Entry{Key: []byte("b")}))
			if at := l.End().Segment; at != 2 {
				t.Errorf("%s: the log is in segment %d", what, at)
			}
		}
		_ = l.Close()
		got, _ := readAll(t, s, Position{})
		checkFrames(t, got, want)
	}
}

// TestASegmentThatCannotBeNamedIsMadeAgain has no space in the directory for the name of a segment
// that was made.
func TestASegmentThatCannotBeNamedIsMadeAgain(t *testing.T) {
	t.Parallel()
	s := tiny(t)
	l := open(t, s, Position{})
	_ = l.Close()
	made := &segment{number: 0}
	l.next = 9
	if err := os.MkdirAll(filepath.Join(s.path(9), "in the way"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := l.prepare(made); err == nil {
		t.Fatal("a file replaces a directory")
	}
	if err := l.prepare(made); err != nil || made.number != 10 || made.once {
		t.Errorf("%v, segment %d", err, made.number)
	}
	if info, err := os.Stat(s.path(10)); err != nil || info.Size() != s.SegmentSize {
		t.Errorf("%v, %v", info, err)
	}
	_ = made.file.Close()
}

// TestAPartlyFilledSegmentIsFilledAfterARestart: a segment of whose space some was never written is
// filled before it is used, also by the next process.
func TestAPartlyFilledSegmentIsFilledAfterARestart(t *testing.T) {
	t.Parallel()
	s := Settings{Dir: t.TempDir() + "/redo", SegmentSize: 2 << 20, Segments: 4}
	l := open(t, s, Position{})
	if !l.ready[0].raw {
		t.Skip("space cannot be reserved without being written here")
	}
	last := write(t, l, 1, Entry{Key: []byte("a")})
	l.load()
	for !filled(l, 2) {
		time.Sleep(time.Millisecond)
	}
	_ = l.Close()
	f, err := storedir.OpenFile(s.path(3), os.O_RDWR, 0)
	if err == nil {
		_, err = f.WriteAt(make([]byte, 256<<10), 0) // a part
		err = errors.Join(err, f.Close())
	}
	if err != nil {
		t.Fatal(err)
	}
	l = open(t, s, last.end)
	var raw []bool
	for _, segment := range l.ready {
		raw = append(raw, segment.raw)
	}
	if !slices.Equal(raw, []bool{false, true, true}) {
		t.Errorf("raw: %v", raw)
	}
}

// TestTheSizeOfALargerSegmentIsDurable cuts the power before the frame is flushed for which a
// segment was made larger: its head does not name more than the file has.
func TestTheSizeOfALargerSegmentIsDurable(t *testing.T) {
	t.Parallel()
	for seed := range uint64(20) {
		s, d := tiny(t), newDisk(seed)
		s.OpenFile = d.reserving
		l := open(t, s, Position{})
		want := write(t, l, 1, Entry{Key: []byte("a")})
		if _, err := l.Append(2, []Entry{{Key: []byte("b"), Value: make([]byte, 2*s.SegmentSize)}}); err != nil {
			t.Fatal(err)
		}
		_ = l.Close()
		d.crash(t, true)
		got, _ := readAll(t, s, Position{})
		checkFrames(t, got[:1], []frame{want})
	}
}
