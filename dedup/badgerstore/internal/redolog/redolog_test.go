package redolog

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"slices"
	"testing"

	"go.uber.org/goleak"

	"github.com/eyelet-dev/eyelet/internal/faultdisk"
)

func TestMain(m *testing.M) {
	faultdisk.TempInMemory()
	goleak.VerifyTestMain(m)
}

// frame is a copy of a Frame.
type frame struct {
	group   uint64
	at, end Position
	entries []Entry
}

func (f frame) equal(o frame) bool {
	return f.group == o.group && f.at == o.at && f.end == o.end && slices.EqualFunc(f.entries, o.entries, sameEntry)
}

func sameEntry(a, b Entry) bool {
	same := func(a, b []byte) bool { return bytes.Equal(a, b) && (a == nil) == (b == nil) }
	return bytes.Equal(a.Key, b.Key) && same(a.Value, b.Value) && same(a.Content, b.Content) && a.Keep == b.Keep
}

// tiny returns the settings of a log with the smallest segments.
func tiny(t testing.TB) Settings {
	return Settings{Dir: t.TempDir() + "/redo", Store: [16]byte{1, 2, 3}, SegmentSize: 64 << 10, Segments: 4}
}

func open(t testing.TB, s Settings, after Position) *Log {
	t.Helper()
	l, err := Open(s, after)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	return l
}

// write appends and flushes a frame.
func write(t testing.TB, l *Log, group uint64, entries ...Entry) frame {
	t.Helper()
	end, err := l.Append(group, entries)
	if err == nil {
		err = l.Flush()
	}
	if err != nil {
		t.Fatal(err)
	}
	f := frame{group: group, end: end, entries: entries}
	size := int64(len(appendFrame(nil, group, entries)))
	f.at = Position{end.Segment, end.Offset - size}
	return f
}

// readAll replays a log from a position on.
func readAll(t testing.TB, s Settings, from Position) ([]frame, Position) {
	t.Helper()
	frames, end, err := tryRead(s, from)
	if err != nil {
		t.Fatal(err)
	}
	return frames, end
}

func tryRead(s Settings, from Position) (frames []frame, end Position, err error) {
	end, _, err = Replay(s, from, collect(&frames))
	return frames, end, err
}

func collect(frames *[]frame) func(Frame) error {
	return func(f Frame) error {
		*frames = append(*frames, frame{group: f.Group, at: f.At, end: f.End, entries: f.Clone().Entries})
		return nil
	}
}

func sameFrames(a, b []frame) bool { return slices.EqualFunc(a, b, frame.equal) }

func checkFrames(t testing.TB, got, want []frame) {
	t.Helper()
	if !sameFrames(got, want) {
		t.Fatalf("got %d frames, want %d:\n%.300s\n%.300s", len(got), len(want), fmt.Sprint(got), fmt.Sprint(want))
	}
}

// randomEntries returns writes of every kind, with values up to a size.
func randomEntries(r *rand.Rand, size int) []Entry {
	entries := make([]Entry, r.IntN(5))
	for i := range entries {
		entries[i].Key = fmt.Appendf(nil, "key-%d", r.IntN(1000))
		switch r.IntN(4) {
		case 0:
		case 1:
			entries[i].Value = []byte{}
		default:
			entries[i].Value = randomBytes(r, r.IntN(size))
		}
		switch e := &entries[i]; r.IntN(4) {
		case 0:
			e.Keep = e.Value != nil
		case 1:
			if e.Value != nil {
				e.Content = randomBytes(r, r.IntN(size/8))
			}
		}
	}
	return entries
}

func randomBytes(r *rand.Rand, size int) []byte {
	b := make([]byte, size)
	for i := range b {
		b[i] = byte(r.Uint32())
	}
	return b
}

func TestReplayVisitsWhatWasAppended(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(1, 2))
	s := tiny(t)
	l := open(t, s, Position{})
	var want []frame
	for group := range uint64(100) {
		want = append(want, write(t, l, group, randomEntries(r, 500)...))
	}
	if got := l.End(); got != want[len(want)-1].end {
		t.Errorf("End is %v, want %v", got, want[len(want)-1].end)
	}
	got, end := readAll(t, s, Position{})
	checkFrames(t, got, want)
	if end != l.End() {
		t.Errorf("Replay ends at %v, want %v", end, l.End())
	}
	for i, f := range want { // from every position follow the frames after it
		got, end := readAll(t, s, f.at)
		checkFrames(t, got, want[i:])
		if end != l.End() {
			t.Errorf("Replay from %v ends at %v, want %v", f.at, end, l.End())
		}
	}
}

func TestAnEmptyLogEndsWhereItBegins(t *testing.T) {
	t.Parallel()
	s := tiny(t)
	got, end := readAll(t, s, Position{})
	checkFrames(t, got, nil)
	if end != (Position{}) {
		t.Errorf("a log without a directory ends at %v", end)
	}
	l := open(t, s, Position{})
	got, end = readAll(t, s, Position{})
	checkFrames(t, got, nil)
	if end != (Position{}) || l.End() != end {
		t.Errorf("a log without frames ends at %v and %v", end, l.End())
	}
}

func TestSettingsAreChecked(t *testing.T) {
	t.Parallel()
	for _, s := range []Settings{{SegmentSize: 65535}, {SegmentSize: 1<<30 + 1}, {Segments: 2}} {
		s.Dir = t.TempDir() + "/redo"
		if _, err := Open(s, Position{}); err == nil {
			t.Errorf("Open accepts %+v", s)
		}
		if _, _, err := Replay(s, Position{}, nil); err == nil {
			t.Errorf("Replay accepts %+v", s)
		}
		if _, err := os.Stat(s.Dir); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%+v: a directory was made", s)
		}
	}
}

func TestALogCannotBeUsedAfterClose(t *testing.T) {
	t.Parallel()
	l := open(t, tiny(t), Position{})
	write(t, l, 1)
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	_, err := l.Append(2, nil)
	for _, err := range []error{err, l.Flush(), l.Mark(), l.Release(l.End())} {
		if !errors.Is(err, fs.ErrClosed) {
			t.Errorf("after Close: %v", err)
		}
	}
	if err := l.Close(); err != nil {
		t.Errorf("second Close: %v", err)
	}
}

// TestALargeFrameGetsALargerSegment writes frames around and beyond the size of a segment,
// continues behind each, and releases them: then all files have the usual size again.
func TestALargeFrameGetsALargerSegment(t *testing.T) {
	t.Parallel()
	s := tiny(t)
	s.Segments = 8
	l := open(t, s, Position{})
	var want []frame
	for i, size := range []int64{l.Room() - 32, l.Room(), 1, 5 * s.SegmentSize, 1} {
		want = append(want, write(t, l, uint64(i), Entry{Key: []byte("k"), Value: make([]byte, size)}))
	}
	if err := l.Mark(); err != nil {
		t.Fatal(err)
	}
	got, _ := readAll(t, s, Position{})
	checkFrames(t, got[:len(want)], want)
	if cap(l.buf) > int(s.SegmentSize) {
		t.Errorf("a buffer of %d bytes is kept", cap(l.buf))
	}
	_ = l.Close()
	at := want[3].at // a start at a large frame carries it
	l = open(t, s, at)
	settle(l)
	end, err := l.Carry(3, []Entry{{Key: []byte("k"), Value: make([]byte, 5*s.SegmentSize)}})
	if err != nil {
		t.Fatal(err)
	}
	carried, _ := readAll(t, s, at)
	if last := carried[len(carried)-1]; last.end != end || len(last.entries[0].Value) != int(5*s.SegmentSize) {
		t.Errorf("the carried frame ends at %v, want %v", last.end, end)
	}
	small := write(t, l, 4, Entry{Key: []byte("k")})
	if cap(l.buf) > int(2*s.SegmentSize) {
		t.Errorf("a buffer of %d bytes is kept after a start", cap(l.buf))
	}
	if err := l.Release(small.end); err != nil {
		t.Fatal(err)
	}
	settle(l)
	_ = l.Close()
	files, err := os.ReadDir(s.Dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		if info, err := f.Info(); err != nil || info.Size() != s.SegmentSize {
			t.Errorf("%s: %v, %v", f.Name(), info, err)
		}
	}
}
