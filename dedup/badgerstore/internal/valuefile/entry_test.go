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
	for name, c := range map[string]struct {
		seed   uint32
		offset int64
		key    string
		intact bool
	}{
		"its place":          {7, 100, "key", true},
		"another file":       {8, 100, "key", false},
		"another offset":     {7, 101, "key", false},
		"an offset of 4 GiB": {7, 100 + 1<<32, "key", false},
		"another key":        {7, 100, "kex", false},
	} {
		f := file{seed: c.seed}
		got, intact := f.value(c.offset, []byte(c.key), entry)
		if string(got) != "value" || intact != c.intact {
			t.Errorf("%s: %q, intact %v", name, got, intact)
		}
	}
}
