package redolog

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/eyelet-dev/eyelet/dedup/badgerstore/internal/storedir"
)

func TestSegmentsAreUsedAgainAfterACheckpoint(t *testing.T) {
	t.Parallel()
	s := tiny(t)
	l := open(t, s, Position{})
	entries := []Entry{{Key: []byte("k"), Value: make([]byte, 50_000)}} // one frame a segment
	var frames []frame
	for group := range uint64(4) {
		frames = append(frames, write(t, l, group, entries...))
	}
	if used, total := l.Pressure(); used != 4 || total != 4 {
		t.Errorf("Pressure is %d, %d", used, total)
	}
	if _, err := l.Append(9, entries); !errors.Is(err, ErrFull) {
		t.Fatalf("Append: %v, want ErrFull", err)
	}
	small := write(t, l, 4, Entry{Key: []byte("still fits")})
	frames = append(frames, small)
	if err := l.Release(Position{l.End().Segment, l.End().Offset + 8}); err == nil {
		t.Error("a checkpoint behind the end is accepted")
	}
	if err := l.Release(frames[1].at); err != nil { // passes the first segment only
		t.Fatal(err)
	}
	frames = append(frames, write(t, l, 5, entries...))
	if number := l.End().Segment; number != 5 {
		t.Errorf("the segment has number %d, want 5", number)
	}
	if _, err := l.Append(9, entries); !errors.Is(err, ErrFull) {
		t.Fatalf("Append: %v, want ErrFull", err)
	}
	settle(l)
	got, end := readAll(t, s, frames[1].at)
	checkFrames(t, got, frames[1:])
	if end != l.End() {
		t.Errorf("Replay ends at %v, want %v", end, l.End())
	}
	for group := range uint64(40) {
		if err := l.Release(l.End()); err != nil {
			t.Fatal(err)
		}
		want := write(t, l, group, entries...)
		settle(l)
		got, _ := readAll(t, s, want.at)
		checkFrames(t, got, []frame{want})
	}
}

// TestFilesOfAnUncleanProcessAreNotWrittenAgain: after a failed write, a kernel may report flushes
// of the same pages as successful that are not on the disk (ext4 does, in space that was reserved).
func TestFilesOfAnUncleanProcessAreNotWrittenAgain(t *testing.T) {
	t.Parallel()
	for _, unclean := range []bool{false, true} {
		s := tiny(t)
		l := open(t, s, Position{})
		last := write(t, l, 1)
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
		before := filesOf(t, s)
		s.Unclean = unclean
		l = open(t, s, last.end)
		again := false
		for group := range uint64(10) {
			write(t, l, group, Entry{Key: []byte("k"), Value: make([]byte, 50_000)}) // a segment each
			written, err := os.Stat(s.path(l.End().Segment))
			if err != nil {
				t.Fatal(err)
			}
			for _, old := range before {
				again = again || os.SameFile(old, written)
			}
			if err := l.Release(l.End()); err != nil {
				t.Fatal(err)
			}
		}
		if again == unclean {
			t.Errorf("unclean: %t, and a file of the process before is written again: %t", unclean, again)
		}
	}
}

func filesOf(t *testing.T, s Settings) (files []os.FileInfo) {
	t.Helper()
	numbers, err := segmentsIn(s.Dir)
	if err != nil || len(numbers) == 0 {
		t.Fatal(numbers, err)
	}
	for _, number := range numbers {
		f, err := os.Open(s.path(number))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = f.Close() }) // so that no other file gets its inode
		info, err := f.Stat()
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, info)
	}
	return files
}

// settle waits until the released segments are prepared: a Replay does not run beside that.
func settle(l *Log) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for len(l.free) > 0 && l.failed == nil {
		l.changed.Wait()
	}
}

// TestFramesOfAFormerUseAreNotVisited writes frames of one size, so those of a former use of a file
// begin where the log ends.
func TestFramesOfAFormerUseAreNotVisited(t *testing.T) {
	t.Parallel()
	s := tiny(t)
	l := open(t, s, Position{})
	var unreleased []frame
	for group := uint64(1); l.End().Compare(Position{20, 12000}) < 0; group++ {
		e := Entry{Key: binary.BigEndian.AppendUint64(nil, group), Value: make([]byte, 1500)}
		unreleased = append(unreleased, write(t, l, group, e))
		if len(unreleased) > 60 {
			if err := l.Release(unreleased[30].end); err != nil {
				t.Fatal(err)
			}
			unreleased = unreleased[31:]
		}
		if group%7 == 0 {
			settle(l)
			got, end := readAll(t, s, unreleased[0].at)
			checkFrames(t, got, unreleased)
			if end != l.End() {
				t.Errorf("Replay ends at %v, want %v", end, l.End())
			}
		}
	}
	_ = l.Close()
	last := unreleased[len(unreleased)-1] // a torn last frame, over the frame of a former use
	b, err := os.ReadFile(s.path(last.at.Segment))
	if err != nil {
		t.Fatal(err)
	}
	clear(b[last.at.Offset+100 : last.end.Offset])
	b[last.at.Offset+100] = 1
	_ = os.WriteFile(s.path(last.at.Segment), b, 0o600)
	got, end := readAll(t, s, unreleased[0].at)
	checkFrames(t, got, unreleased[:len(unreleased)-1])
	if end != last.at {
		t.Errorf("Replay ends at %v, want %v", end, last.at)
	}
}

// TestAPreparedSegmentIsNotPartOfTheLog stops between the preparation of a segment and its head.
func TestAPreparedSegmentIsNotPartOfTheLog(t *testing.T) {
	t.Parallel()
	s := tiny(t)
	checkpoint := Position{}
	for life := range uint64(5) {
		l := open(t, s, checkpoint)
		if life%2 == 0 { // else the log ends where it began
			for range 3 {
				f := write(t, l, life, Entry{Key: []byte("k"), Value: make([]byte, 50_000)})
				if err := l.Release(f.end); err != nil {
					t.Fatal(err)
				}
			}
		}
		want := l.End()
		_ = l.Close()
		for _, from := range []Position{checkpoint, want} {
			if from.Segment < want.Segment {
				continue // released
			}
			got, end := readAll(t, s, from)
			checkFrames(t, got, nil)
			if end != want {
				t.Errorf("life %d: Replay from %v ends at %v, want %v", life, from, end, want)
			}
		}
		checkpoint = want
	}
}

func TestAMarkIsWrittenOnce(t *testing.T) {
	t.Parallel()
	s := tiny(t)
	l := open(t, s, Position{})
	mark := func() {
		t.Helper()
		if err := l.Mark(); err != nil {
			t.Fatal(err)
		}
	}
	mark()
	if l.End() != (Position{}) {
		t.Errorf("a mark without a frame is at %v", l.End())
	}
	f := write(t, l, 7, Entry{Key: []byte("k")})
	mark()
	mark()
	want := []frame{f, {7, f.end, Position{f.end.Segment, f.end.Offset + frameHead}, nil}}
	got, _ := readAll(t, s, Position{})
	checkFrames(t, got, want)
	want = append(want, write(t, l, 8))
	got, _ = readAll(t, s, Position{})
	checkFrames(t, got, want)
}

// TestCheckpointsRunBesideTheAppends releases in one goroutine and appends in another.
func TestCheckpointsRunBesideTheAppends(t *testing.T) {
	t.Parallel()
	s := tiny(t)
	l := open(t, s, Position{})
	stop := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			select {
			case <-stop:
				return
			default:
			}
			used, total := l.Pressure()
			if used > total {
				t.Errorf("%d of %d segments are used", used, total)
			}
			if err := l.Release(l.End()); err != nil {
				t.Error(err)
			}
		}
	})
	var last frame
	for group := uint64(0); group < 300; {
		f := []Entry{{Key: []byte("k"), Value: make([]byte, 5000)}}
		end, err := l.Append(group, f)
		if errors.Is(err, ErrFull) {
			continue
		}
		if err = errors.Join(err, l.Flush()); err != nil {
			t.Fatal(err)
		}
		last = frame{group, Position{}, end, f}
		group++
	}
	close(stop)
	wg.Wait()
	if last.end.Segment < 20 {
		t.Errorf("the log ends at %v", last.end)
	}
	settle(l)
	got, end := readAll(t, s, Position{last.end.Segment, headSize})
	if n := len(got); n == 0 || end != last.end || got[n-1].group != last.group {
		t.Errorf("%d frames up to %v, want the last at %v", n, end, last.end)
	}
}

func TestAppendDoesNotAllocate(t *testing.T) {
	s := tiny(t)
	s.SegmentSize = 1 << 20
	l := open(t, s, Position{})
	entries := []Entry{{Key: []byte("key"), Value: make([]byte, 3000)}, {Key: []byte("deleted")}}
	write(t, l, 1, entries...)
	allocs := testing.AllocsPerRun(100, func() {
		if _, err := l.Append(2, entries); err != nil {
			t.Error(err)
		}
		if err := l.Flush(); err != nil {
			t.Error(err)
		}
	})
	if allocs > 0 {
		t.Errorf("Append and Flush make %v allocations", allocs)
	}
}

// filling is a file whose zeros wait.
type filling struct {
	storedir.File
	opened      *atomic.Bool // only those after Open
	begun, goes chan struct{}
}

func (f *filling) WriteAt(b []byte, at int64) (int, error) {
	if f.opened.Load() && bytes.Count(b, []byte{0}) == len(b) {
		select {
		case f.begun <- struct{}{}:
		default:
		}
		<-f.goes
	}
	return f.File.WriteAt(b, at)
}

// TestTheNextSegmentIsFilledUnderLoad writes while the next segment, which was only reserved, is
// filled with zeros. It keeps its number, or gets a new one if the log has gone past it. The log
// waits for it once there is no other one.
func TestTheNextSegmentIsFilledUnderLoad(t *testing.T) {
	t.Parallel()
	for what, row := range map[string]struct {
		frames  int    // written meanwhile
		segment uint64 // of the last one
		more    int    // that wait for the filled segment
		number  uint64 // that it gets; 0 is that of the last frame
	}{"kept": {4, 1, 0, 2}, "overtaken": {40, 3, 0, 5}, "awaited": {73, 4, 1, 0}} {
		t.Run(what, func(t *testing.T) {
			var opened atomic.Bool
			begun, goes := make(chan struct{}, 1), make(chan struct{})
			fill := sync.OnceFunc(func() { close(goes) })
			defer fill() // else Close waits for it
			s := Settings{Dir: t.TempDir() + "/redo", SegmentSize: 2 << 20, Segments: 4}
			s.OpenFile = func(name string, flag int, perm fs.FileMode) (storedir.File, error) {
				f, err := storedir.OpenFile(name, flag, perm)
				return &filling{f, &opened, begun, goes}, err
			}
			l := open(t, s, Position{})
			if opened.Store(true); !l.ready[0].raw {
				t.Skip("space cannot be reserved without being written here")
			}
			random := rand.New(rand.NewPCG(1, 2))
			var want []frame
			add := func(n int) {
				for range n {
					e := Entry{Key: []byte("key"), Value: randomBytes(random, 64<<10)}
					want = append(want, write(t, l, uint64(len(want)+1), e))
				}
			}
			add(1)
			select {
			case <-begun:
				t.Fatal("a segment is filled although little was written")
			case <-time.After(10 * time.Millisecond):
			}
			add(19) // beyond its sixteenth
			<-begun
			add(row.frames)
			if at := l.End().Segment; at != row.segment {
				t.Fatalf("the log is in segment %d", at)
			}
			time.AfterFunc(10*time.Millisecond, fill)
			add(row.more)
			isFilled := func(number uint64) {
				for begin := time.Now(); !filled(l, number); time.Sleep(time.Millisecond) {
					if time.Since(begin) > 10*time.Second {
						t.Fatalf("segment %d is not filled", number)
					}
				}
			}
			if row.number > 0 {
				isFilled(row.number)
			}
			if row.number == 2 { // it is used at once, and the one behind it is the next
				if add(1); l.End().Segment != 2 {
					t.Errorf("the log stays in a segment that was only reserved: %v", l.End())
				}
				add(9)
				isFilled(3)
			}
			if row.number > 0 {
				add(50)
			} else if at := l.End().Segment; at != 5 {
				t.Errorf("the log is in segment %d", at)
			}
			got, end := readAll(t, s, Position{})
			checkFrames(t, got, want)
			if end != l.End() {
				t.Errorf("the log ends at %v, want %v", end, l.End())
			}
		})
	}
}

// filled reports whether the segment with a number is prepared and was filled, and whether it is
// where its number belongs.
func filled(l *Log, number uint64) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	has := func(s *segment) bool { return s.number == number && !s.raw }
	return slices.ContainsFunc(l.ready, has) &&
		slices.IsSortedFunc(l.ready, func(a, b *segment) int { return cmp.Compare(a.number, b.number) })
}

// zeroed is a file that notes how it is filled.
type zeroed struct {
	storedir.File
	done []string
}

func (f *zeroed) WriteAt(b []byte, at int64) (int, error) {
	f.done = append(f.done, fmt.Sprintf("%d:%d", at>>10, len(b)>>10))
	return len(b), nil
}

func (f *zeroed) WriteBack(at, size int64) error {
	f.done = append(f.done, fmt.Sprintf("back %d:%d", at>>10, size>>10))
	return nil
}

func (f *zeroed) Sync() error { f.done = append(f.done, "sync"); return nil }

// TestZerosAreWrittenInSmallParts: rests separate them, and a flush of the log waits for a few.
func TestZerosAreWrittenInSmallParts(t *testing.T) {
	t.Parallel()
	f, rests := &zeroed{}, 0
	if err := writeZeros(f, 5<<20+100<<10, func() error { rests++; return nil }); err != nil || rests != 21 {
		t.Errorf("%v, %d rests", err, rests)
	}
	var want []string
	for n := range 21 {
		at, size := n*256, 256
		if n == 20 {
			size = 100
		}
		want = append(want, fmt.Sprintf("%d:%d", at, size))
		if n == 15 || n == 20 {
			want = append(want, "sync")
		} else {
			want = append(want, fmt.Sprintf("back %d:%d", at, size))
		}
	}
	if !slices.Equal(f.done, want) {
		t.Errorf("%v\nwant %v", f.done, want)
	}
	failed := errors.New("the log has failed")
	if err := writeZeros(&zeroed{}, 5<<20, func() error { return failed }); !errors.Is(err, failed) {
		t.Errorf("%v", err)
	}
}
