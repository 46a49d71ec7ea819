package redolog

import (
	"bytes"
	"errors"
	"os"
	"slices"
	"testing"
)

// everyEntry has an entry of every kind.
var everyEntry = []Entry{
	{Key: []byte("key"), Value: []byte("value")}, {Key: []byte("gone")}, {Value: []byte{}},
	{Key: []byte("both"), Value: []byte("value"), Content: []byte("content")},
	{Key: []byte("empty"), Value: []byte{}, Content: []byte{}},
	{Key: []byte("kept"), Value: []byte("value"), Keep: true},
}

// TestFramesKeepTheirFormat holds the bytes of entries, which later programs must read. The first
// three are those of store format 3.
func TestFramesKeepTheirFormat(t *testing.T) {
	t.Parallel()
	const want = "\x03\x06keyvalue\x04\x00gone\x00\x01" +
		"\x84\x02\x06\x07bothvaluecontent\x85\x02\x01\x00empty\x84\x04\x06keptvalue"
	b := appendFrame(nil, 1, everyEntry)
	if got := string(b[frameHead : len(b)-padding(b)]); got != want {
		t.Errorf("%q", got)
	}
	for name, b := range map[string]string{
		"an unknown flag":        "\x81\x08\x02kv",
		"a content of nothing":   "\x81\x02\x00\x01kc",
		"a content that is kept": "\x81\x06\x02\x01kvc",
		"a content cut off":      "\x81\x02\x02\x02kvc",
	} {
		if e, ok := decodeEntries(nil, 1, []byte(b)); ok {
			t.Errorf("%s is decoded as %v", name, e)
		}
	}
}

// FuzzReplay replays a segment with any bytes behind its head. Whatever is visited must be a frame
// that the log would have written there.
func FuzzReplay(f *testing.F) {
	h := head{number: 1, salt: 5, size: headSize}
	store := [16]byte{7}
	frames := func(groups ...uint64) (b []byte) {
		for _, group := range groups {
			at := len(b)
			b = appendFrame(b, group, everyEntry)
			sealFrame(b[at:], h.seed(store), headSize+int64(at))
		}
		return b
	}
	f.Add([]byte{})
	f.Add(frames(1))
	f.Add(frames(1, 2, 3))
	f.Add(append(frames(1), make([]byte, 100)...))
	f.Add(frames(1, 2)[:70])
	f.Add(append(make([]byte, 64), frames(1)...))
	f.Fuzz(func(t *testing.T, body []byte) {
		s := Settings{Dir: t.TempDir(), Store: store}
		b := append(make([]byte, headSize, headSize+len(body)), body...)
		h.encode(b[:headSize], store)
		if err := os.WriteFile(s.path(1), b, 0o600); err != nil {
			t.Fatal(err)
		}
		at := int64(headSize)
		visit := func(frame Frame) error {
			again := appendFrame(nil, frame.Group, frame.Entries)
			sealFrame(again, h.seed(store), frame.At.Offset)
			isWritten := bytes.HasPrefix(b[frame.At.Offset:], again[:frameHead])
			if frame.At.Offset < at || !isWritten && isMinimal(frame, again) {
				t.Errorf("a frame at %v that was never written", frame.At)
			}
			at = frame.End.Offset
			return nil
		}
		end, _, err := Replay(s, Position{}, visit)
		if damage := (*DamagedError)(nil); err != nil && !errors.As(err, &damage) {
			t.Error(err)
		}
		if end.Offset != at && at > headSize {
			t.Errorf("the end is %v, want byte %d", end, at)
		}
		at = headSize
		s.AcceptLoss = true
		if _, _, err = Replay(s, Position{}, visit); err != nil {
			t.Error(err)
		}
	})
}

// isMinimal reports whether a frame has the size with which the log would write it: a length has
// several encodings.
func isMinimal(f Frame, encoded []byte) bool {
	return f.End.Offset-f.At.Offset == int64(len(encoded))
}

// FuzzEntries decodes any bytes as entries.
func FuzzEntries(f *testing.F) {
	all := appendFrame(nil, 1, everyEntry)
	f.Add(uint32(len(everyEntry)), all[frameHead:len(all)-padding(all)])
	f.Add(uint32(1), []byte{255, 255, 255, 255, 255, 255, 255, 255, 255, 1, 0})
	f.Add(uint32(1), []byte{0, 255, 255, 255, 255, 255, 255, 255, 255, 255, 1})
	f.Fuzz(func(t *testing.T, n uint32, b []byte) {
		entries, ok := decodeEntries(nil, n, b)
		if !ok {
			return
		}
		if uint32(len(entries)) != n {
			t.Fatalf("%d entries, want %d", len(entries), n)
		}
		again := appendFrame(nil, 0, entries)
		decoded, ok := decodeEntries(nil, n, again[frameHead:][:len(again)-frameHead-padding(again)])
		if !ok || !slices.EqualFunc(entries, decoded, sameEntry) {
			t.Errorf("%v is decoded as %v", entries, decoded)
		}
	})
}

// padding returns the number of zeros behind the entries of a frame.
func padding(b []byte) int {
	return len(b) - frameHead - int(b[0]) - int(b[1])<<8 - int(b[2])<<16 - int(b[3])<<24
}
