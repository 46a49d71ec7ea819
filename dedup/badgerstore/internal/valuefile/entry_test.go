package valuefile

import (
	"math"
	"testing"
)

func FuzzParseRef(f *testing.F) {
	f.Add(Ref{}.AppendTo(nil))
	f.Add(Ref{1, 2, 3}.AppendTo(nil))
	f.Add(Ref{math.MaxUint64, math.MaxInt64, math.MaxUint32}.AppendTo(nil))
	f.Add([]byte{0x80})
	f.Fuzz(func(t *testing.T, b []byte) {
		r, err := ParseRef(b)
		if err != nil {
			return
		}
		again, err := ParseRef(r.AppendTo(nil))
		if err != nil || again != r || r.Offset < 0 {
			t.Errorf("%x: %+v, then %+v, error %v", b, r, again, err)
		}
		if _, err := ParseRef(append(b, 0)); err == nil {
			t.Errorf("%x: a byte more passes", b)
		}
	})
}

func TestAnEntryPassesOnlyAtItsPlace(t *testing.T) {
	t.Parallel()
	key, value := []byte("key"), []byte("value")
	entry := appendEntry(nil, 7, 100, key, value)
	if got, size, ok := parseHead(7, 100, entry); !ok || string(got) != "key" || size != 5 || !intact(entry, value) {
		t.Fatalf("key %q, %d bytes, ok %v", got, size, ok)
	}
	for name, c := range map[string]struct {
		seed   uint32
		offset int64
	}{
		"another file":       {8, 100},
		"another offset":     {7, 101},
		"an offset of 4 GiB": {7, 100 + 1<<32},
	} {
		if _, _, ok := parseHead(c.seed, c.offset, entry); ok {
			t.Errorf("%s: the head passes", name)
		}
	}
	for n := range entry[:headSize+len(key)] {
		if _, _, ok := parseHead(7, 100, entry[:n]); ok {
			t.Errorf("%d bytes of the head pass", n)
		}
	}
}
