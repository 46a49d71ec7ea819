package redolog

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"testing"

	"github.com/eyelet-dev/eyelet/internal/faultdisk"
)

// sample is a closed log of three segments whose last frame is a mark.
type sample struct {
	Settings
	frames []frame
	end    Position
}

func newSample(t testing.TB) *sample {
	r := rand.New(rand.NewPCG(3, 4))
	s := &sample{Settings: tiny(t)}
	l := open(t, s.Settings, Position{})
	for group := uint64(1); len(s.frames) < 8; group++ {
		entries := randomEntries(r, 20)
		if group < 6 {
			entries = append(entries, Entry{Key: []byte("large"), Value: randomBytes(r, 20000)})
		}
		s.frames = append(s.frames, write(t, l, group, entries...))
	}
	if err := l.Mark(); err != nil {
		t.Fatal(err)
	}
	s.end = l.End()
	last := s.frames[len(s.frames)-1]
	s.frames = append(s.frames, frame{last.group, last.end, s.end, nil})
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	got, end := readAll(t, s.Settings, Position{})
	checkFrames(t, got, s.frames)
	if end != s.end {
		t.Fatalf("Replay ends at %v, want %v", end, s.end)
	}
	return s
}

// change changes bytes of a segment and returns a function that undoes it.
func (s *sample) change(t testing.TB, segment uint64, change func([]byte)) (undo func()) {
	t.Helper()
	name := s.path(segment)
	before, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	after := bytes.Clone(before)
	change(after)
	put := func(from, to []byte) {
		f, err := os.OpenFile(name, os.O_RDWR, 0)
		if err != nil {
			t.Fatal(err)
		}
		for at := 0; at < len(to); at += 4096 {
			if page := to[at:min(at+4096, len(to))]; !bytes.Equal(page, from[at:at+len(page)]) {
				_, err = f.WriteAt(page, int64(at))
			}
		}
		if err := errors.Join(err, f.Close()); err != nil {
			t.Fatal(err)
		}
	}
	put(before, after)
	return func() { put(after, before) }
}

// interesting returns the offsets of a segment whose bits are flipped: all of heads and short
// frames, and some of large values and unused space.
func (s *sample) interesting(segment uint64) (offsets []int64) {
	isLarge := func(at int64) bool {
		i := slices.IndexFunc(s.frames, func(f frame) bool {
			return f.at.Segment == segment && f.at.Offset <= at && at < f.end.Offset
		})
		return i < 0 || at > s.frames[i].at.Offset+40 && at < s.frames[i].end.Offset-200
	}
	for at := range s.SegmentSize {
		switch {
		case at%headCopy < headBytes && at < headSize:
		case isLarge(at) && at%4001 > 0:
			continue
		}
		offsets = append(offsets, at)
	}
	return offsets
}

func TestAFlippedBitIsNeverSilent(t *testing.T) {
	t.Parallel()
	s := newSample(t)
	last := len(s.frames) - 1
	refused := 0
	for segment := range uint64(4) {
		segment++
		f, err := os.OpenFile(s.path(segment), os.O_RDWR, 0)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = f.Close() }()
		for n, at := range s.interesting(segment) {
			for bit := range 8 {
				if bit != n%8 && !faultdisk.Long() {
					continue // one of each byte
				}
				flip(t, f, at, bit)
				place := fmt.Sprintf("bit %d of byte %d of segment %d", bit, at, segment)
				got, end, err := tryRead(s.Settings, Position{})
				damage := (*DamagedError)(nil)
				switch {
				case errors.As(err, &damage):
					refused++
					if damage.Segment != segment || damage.Offset > at || s.end.Compare(Position{segment, at}) <= 0 {
						t.Errorf("%s: %v", place, err)
					}
					if refused%5 == 0 {
						s.checkTolerant(t, place, Position{segment, at})
					}
				case err != nil:
					t.Errorf("%s: %v", place, err)
				case sameFrames(got, s.frames) && end == s.end: // an unused bit
				case sameFrames(got, s.frames[:last]) && segment == s.end.Segment: // the mark
				default:
					t.Errorf("%s: %d frames instead of %d and no error", place, len(got), len(s.frames))
				}
				flip(t, f, at, bit)
			}
		}
	}
	if refused < faultdisk.Count(125, 1000) {
		t.Errorf("only %d flipped bits were found", refused)
	}
}

func flip(t testing.TB, f *os.File, at int64, bit int) {
	t.Helper()
	var b [1]byte
	_, err := f.ReadAt(b[:], at)
	b[0] ^= 1 << bit
	if _, e := f.WriteAt(b[:], at); e != nil || err != nil {
		t.Fatal(err, e)
	}
}

// checkTolerant checks that a replay of a damaged log visits every frame but one.
func (s *sample) checkTolerant(t testing.TB, place string, at Position) {
	t.Helper()
	want := slices.DeleteFunc(slices.Clone(s.frames), func(f frame) bool {
		return f.at.Compare(at) <= 0 && f.end.Compare(at) > 0
	})
	var got []frame
	settings := s.Settings
	settings.AcceptLoss = true
	end, damage, err := Replay(settings, Position{}, collect(&got))
	if err != nil || len(damage) != 1 || !sameFrames(got, want) {
		t.Errorf("%s: ReplayDamaged visits %d of %d frames: %v, %v", place, len(got), len(s.frames), damage, err)
	}
	if end != (Position{Segment: 5}) {
		t.Errorf("%s: ReplayDamaged ends at %v", place, end)
	}
}

func TestSearchMissesNoHeadBehindZeros(t *testing.T) {
	const size = 3 * len(zeros)
	for word := range size / align {
		b := make([]byte, size)
		b[word*align] = 1
		w := window{file: bytes.NewReader(b), limit: int64(size)}
		for from := range size / align {
			want := from * align
			for size-want >= frameHead && !isPossible(b[want:], int64(size-want)) {
				want += align
			}
			if size-want < frameHead {
				want = size
			}
			if got, err := w.search(int64(from * align)); got != int64(want) || err != nil {
				t.Fatalf("word %d, from %d: %d, want %d; %v", word, from*align, got, want, err)
			}
		}
	}
}

func TestALostPageIsNeverSilent(t *testing.T) {
	t.Parallel()
	s := newSample(t)
	for segment := range s.end.Segment {
		segment++
		for at := int64(0); at < s.SegmentSize; at += 4096 {
			undo := s.change(t, segment, func(b []byte) { clear(b[at : at+4096]) })
			got, _, err := tryRead(s.Settings, Position{})
			damage := (*DamagedError)(nil)
			isTail := segment == s.end.Segment && at+4096 >= s.end.Offset-frameHead // the mark is lost too
			if !errors.As(err, &damage) && !isTail && !sameFrames(got, s.frames) {
				t.Errorf("page %d of segment %d: %d of %d frames: %v", at/4096, segment, len(got), len(s.frames), err)
			}
			undo()
		}
	}
}

func TestATornWriteIsTheEndOfTheLog(t *testing.T) {
	t.Parallel()
	s := newSample(t)
	last := s.frames[len(s.frames)-2]
	want := s.frames[:len(s.frames)-2]
	before := want[len(want)-1].end
	for at := last.at.Offset; at < s.end.Offset; at++ {
		intact := s.frames[:len(s.frames)-1]
		undo := s.change(t, last.at.Segment, func(b []byte) {
			if slices.Max(b[at:s.end.Offset]) == 0 { // a random end
				intact = s.frames
			}
			clear(b[at:])
		})
		got, end, err := tryRead(s.Settings, Position{})
		isWhole := sameFrames(got, intact) && end == intact[len(intact)-1].end
		if err != nil || !isWhole && (end != before || !sameFrames(got, want)) {
			t.Errorf("torn at byte %d: %d of %d frames, end %v: %v", at, len(got), len(s.frames), end, err)
		}
		undo()
	}
	first := slices.IndexFunc(s.frames, func(f frame) bool { return f.at.Segment == s.end.Segment })
	want, before = s.frames[:first], s.frames[first-1].end
	size := int(s.frames[first].end.Offset)
	for at := range size { // the head and the first frame of a segment are one write
		if at%headCopy > 100 && at%509 > 0 {
			continue
		}
		undo := s.change(t, s.end.Segment, func(b []byte) { clear(b[at:]) })
		got, end, err := tryRead(s.Settings, Position{})
		if isWhole := len(got) == first+1; err != nil || !isWhole && (end != before || !sameFrames(got, want)) {
			t.Errorf("torn at byte %d: %d of %d frames, end %v: %v", at, len(got), len(s.frames), end, err)
		}
		undo()
	}
}

func TestMissingAndShortSegmentsAreDamage(t *testing.T) {
	t.Parallel()
	s := newSample(t)
	from := []Position{{}, {1, headSize}, s.frames[1].at, s.frames[3].end, s.end}
	for segment := range s.end.Segment {
		segment++
		text, err := os.ReadFile(s.path(segment))
		if err != nil {
			t.Fatal(err)
		}
		for _, from := range from {
			isNeeded := segment >= from.Segment && (segment < s.end.Segment || from.Segment == segment)
			_ = os.Remove(s.path(segment))
			s.checkRefused(t, fmt.Sprintf("without segment %d from %v", segment, from), from, isNeeded)
			_ = os.WriteFile(s.path(segment), text[:len(text)-8], 0o600)
			isNeeded = segment >= from.Segment
			s.checkRefused(t, fmt.Sprintf("with a short segment %d from %v", segment, from), from, isNeeded)
			_ = os.WriteFile(s.path(segment), text, 0o600)
			s.checkRefused(t, fmt.Sprint("from ", from), from, false)
		}
	}
	s.checkRefused(t, "from behind the end of a segment", Position{1, s.SegmentSize - 8}, true)
	s.checkRefused(t, "from the middle of a frame", Position{1, s.frames[0].at.Offset + 8}, true)
}

func (s *sample) checkRefused(t testing.TB, what string, from Position, want bool) {
	t.Helper()
	_, _, err := tryRead(s.Settings, from)
	damage := (*DamagedError)(nil)
	if isDamaged := errors.As(err, &damage); isDamaged != want || err != nil && !isDamaged {
		t.Errorf("%s: %v, want damage: %t", what, err, want)
	}
}

// TestALogContinuesAfterAcceptedDamage loses the head of a segment, which loses its frames.
func TestALogContinuesAfterAcceptedDamage(t *testing.T) {
	t.Parallel()
	for segment := range uint64(3) {
		segment++
		s := newSample(t)
		s.change(t, segment, func(b []byte) { b[30] ^= 1; b[headCopy+30] ^= 1 })
		s.checkRefused(t, fmt.Sprintf("without both heads of segment %d", segment), Position{}, true)
		var got []frame
		settings := s.Settings
		settings.AcceptLoss = true
		end, damage, err := Replay(settings, Position{}, collect(&got))
		if err != nil || len(damage) == 0 {
			t.Fatal(damage, err)
		}
		isLost := func(f frame) bool { return f.at.Segment == segment }
		checkFrames(t, got, slices.DeleteFunc(slices.Clone(s.frames), isLost))
		for range 2 {
			got, again := readAll(t, s.Settings, end)
			checkFrames(t, got, nil)
			l := open(t, s.Settings, again)
			want := write(t, l, 1, Entry{Key: []byte("k")})
			got, _ = readAll(t, s.Settings, end)
			checkFrames(t, got, []frame{want})
			end = l.End()
			_ = l.Close()
		}
	}
}

// TestAValueCannotLookLikeAFrame puts a frame into a value that would be valid there if the
// checksums did not depend on the salt.
func TestAValueCannotLookLikeAFrame(t *testing.T) {
	t.Parallel()
	for _, knowsSalt := range []bool{false, true} {
		s := tiny(t)
		l := open(t, s, Position{})
		want := write(t, l, 1, Entry{Key: []byte("a"), Value: []byte("b")})
		at := want.end.Offset
		seed := l.seed
		if !knowsSalt {
			h := head{number: 1}
			seed = h.seed(s.Store)
		}
		inner := appendFrame(nil, 3, []Entry{{Key: []byte("forged"), Value: []byte("c")}})
		step := len(inner) + 1 // so one of eight is aligned
		value := make([]byte, 8*step)
		for i := range 8 {
			sealFrame(inner, seed, at+frameHead+4+int64(i*step))
			copy(value[i*step:], inner)
		}
		write(t, l, 2, Entry{Key: []byte("x"), Value: value})
		_ = l.Close()
		b, err := os.ReadFile(s.path(1))
		if err != nil {
			t.Fatal(err)
		}
		binary.LittleEndian.PutUint32(b[at+16:], 0) // torn
		_ = os.WriteFile(s.path(1), b, 0o600)
		got, end, err := tryRead(s, Position{})
		damage := (*DamagedError)(nil)
		switch isDamaged := errors.As(err, &damage); {
		case knowsSalt && !isDamaged:
			t.Errorf("the forged frame is not valid even with the salt: %v", err)
		case !knowsSalt && (err != nil || end != want.end):
			t.Errorf("the forged frame counts: end %v: %v", end, err)
		case !knowsSalt:
			checkFrames(t, got, []frame{want})
		}
	}
}

// TestAFrameIsValidOnlyInItsPlace copies frames to other places, as a misdirected write would.
func TestAFrameIsValidOnlyInItsPlace(t *testing.T) {
	t.Parallel()
	s := newSample(t)
	from, err := os.ReadFile(s.path(s.frames[0].at.Segment))
	if err != nil {
		t.Fatal(err)
	}
	last := s.frames[len(s.frames)-1].end
	copyOfFirst := from[s.frames[0].at.Offset:s.frames[0].end.Offset]
	other := s.frames[slices.IndexFunc(s.frames, func(f frame) bool { return f.at.Segment == last.Segment })]
	for name, copied := range map[string][]byte{"another segment": copyOfFirst, "another offset": nil} {
		undo := s.change(t, last.Segment, func(b []byte) {
			if copied == nil {
				copied = bytes.Clone(b[other.at.Offset:other.end.Offset])
			}
			copy(b[last.Offset:], copied)
		})
		got, end, err := tryRead(s.Settings, Position{})
		if err != nil || end != s.end || !sameFrames(got, s.frames) {
			t.Errorf("a frame of %s is visited: end %v, %v", name, end, err)
		}
		undo()
	}
	store, h := [16]byte{1}, head{number: 2, salt: 3}
	for what, other := range map[string]uint32{
		"another store":      h.seed([16]byte{4}),
		"another segment":    (&head{number: 4, salt: 3}).seed(store),
		"another use of one": (&head{number: 2, salt: 4}).seed(store),
	} {
		if other == h.seed(store) {
			t.Errorf("the checksums of %s begin alike", what)
		}
	}
}
