package valuefile

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"math"
	"os"
	"path/filepath"
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
	for _, keyed := range []bool{false, true} {
		entry := appendEntry(nil, 7, 100, key, value)
		if keyed {
			entry = appendKeyedEntry(nil, 7, 100, key, value)
		}
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
			f := file{seed: c.seed, keyed: keyed}
			got, intact := f.value(c.offset, []byte(c.key), entry)
			if string(got) != "value" || intact != c.intact {
				t.Errorf("%s, keyed %v: %q, intact %v", name, keyed, got, intact)
			}
		}
	}
}

// appendKeyedEntry appends an entry as programs of the formats 3 to 6 do.
func appendKeyedEntry(b []byte, seed uint32, offset int64, key, value []byte) []byte {
	part := binary.LittleEndian.AppendUint32(nil, uint32(len(value)))
	part = append(append(part, byte(len(key))), key...)
	head := crc32.Update(seed, castagnoli, part) ^ uint32(offset) ^ uint32(offset>>32)
	b = binary.LittleEndian.AppendUint32(b, head)
	b = binary.LittleEndian.AppendUint32(b, crc32.Update(head, castagnoli, value))
	return append(append(b, part...), value...)
}

// TestFilesOfEarlierFormatsAreRead: they are read, cut and removed as the others, and values go to
// new files. Each of their flipped bits is damage.
func TestFilesOfEarlierFormatsAreRead(t *testing.T) {
	t.Parallel()
	s := Settings{Dir: t.TempDir(), Store: [16]byte{1}}
	seed := open(t, s, nil, 0).newFile(nil, 1, "").seed
	var data []byte
	var all []stored
	for i := range 4 {
		v := stored{fmt.Appendf(nil, "key-%d", i), bytes.Repeat([]byte{byte(i)}, 20), Ref{1, int64(len(data)), 20}}
		data = appendKeyedEntry(data, seed, v.ref.Offset, v.key, v.value)
		all = append(all, v)
	}
	name := filepath.Join(s.Dir, digits(1)+".val")
	if err := os.WriteFile(name, append(data, "behind"...), 0o600); err != nil {
		t.Fatal(err)
	}
	set := open(t, s, []FileState{{1, int64(len(data))}}, 0)
	all = append(all, fill(t, set, 2, 30)...)
	mustRead(t, set, all)
	if all[4].ref.File != 2 {
		t.Errorf("the next value is at %+v", all[4].ref)
	}
	if info, err := os.Stat(name); err != nil || info.Size() != int64(len(data)) {
		t.Errorf("%d bytes, error %v", info.Size(), err)
	}
	for bit := range len(data) * 8 {
		at := int64(bit / 8)
		if _, err := set.files[1].WriteAt([]byte{data[at] ^ 1<<(bit%8)}, at); err != nil {
			t.Fatal(err)
		}
		for _, v := range all[:4] {
			from := at - v.ref.Offset
			hit := from >= 0 && from < keyedHead+int64(len(v.key))+20
			if _, err := set.Read(v.key, v.ref); hit != isDamaged(err, 1) {
				t.Fatalf("bit %d: %s: %v", bit, v.key, err)
			}
		}
		if _, err := set.files[1].WriteAt(data[at:at+1], at); err != nil {
			t.Fatal(err)
		}
	}
	if err := set.Retire(1); err != nil {
		t.Fatal(err)
	}
	files := mustSync(t, set)
	if err := set.Remove(1); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(name); !errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
	if err := errors.Join(os.WriteFile(name, data, 0o600), set.Close()); err != nil {
		t.Fatal(err)
	}
	mustRead(t, open(t, s, files, 0), all[4:])
	if _, err := os.Stat(name); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a file that is not listed: %v", err)
	}
}
