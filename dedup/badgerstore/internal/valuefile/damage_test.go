package valuefile

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"
)

// closed returns a closed set of one file with some values, and its states.
func closed(t *testing.T, s Settings) ([]stored, []FileState) {
	t.Helper()
	set := open(t, s, nil, 0)
	all := fill(t, set, 4, 20)
	files := mustSync(t, set)
	if err := set.Close(); err != nil {
		t.Fatal(err)
	}
	return all, files
}

func isDamaged(err error, file uint64) bool {
	var damaged *DamagedError
	return errors.As(err, &damaged) && damaged.File == file && damaged.Reason != ""
}

func TestEveryFlippedBitIsDamageOfItsValueOnly(t *testing.T) {
	t.Parallel()
	s := Settings{Dir: t.TempDir(), Store: [16]byte{1}}
	all, files := closed(t, s)
	set := open(t, s, files, 1)
	good, err := os.ReadFile(path(set, 1))
	if err != nil {
		t.Fatal(err)
	}
	for bit := range len(good) * 8 {
		at := int64(bit / 8)
		if _, err := set.files[1].WriteAt([]byte{good[at] ^ 1<<(bit%8)}, at); err != nil {
			t.Fatal(err)
		}
		for _, v := range all {
			from := at - v.ref.Offset
			hit, inValue := from >= 0 && from < v.ref.Space(), from >= sumSize
			got, err := set.Read(v.key, v.ref)
			if hit != isDamaged(err, 1) || bytes.Equal(got, v.value) != (!hit || !inValue) {
				t.Fatalf("bit %d: %s is %q, error %v", bit, v.key, got, err)
			}
		}
		if _, err := set.files[1].WriteAt(good[at:at+1], at); err != nil {
			t.Fatal(err)
		}
	}
}

func TestAFileThatWasCutIsRefused(t *testing.T) {
	t.Parallel()
	s := Settings{Dir: t.TempDir()}
	all, files := closed(t, s)
	path := filepath.Join(s.Dir, digits(1)+extension)
	for n := files[0].Length - 1; n >= 0; n-- {
		if err := os.Truncate(path, n); err != nil {
			t.Fatal(err)
		}
		_, err := Open(s, files, 1)
		var damaged *DamagedError
		if !errors.As(err, &damaged) || damaged.File != 1 || damaged.Offset != n {
			t.Fatalf("%d of %d bytes: %v", n, files[0].Length, err)
		}
		if n == all[1].ref.Offset { // what is accepted as lost does not prevent the rest from being read
			set := open(t, s, []FileState{{1, n}}, 1)
			mustRead(t, set, all[:1])
			if _, err := set.Read(all[1].key, all[1].ref); !isDamaged(err, 1) {
				t.Errorf("a lost value: %v", err)
			}
		}
	}
}

func TestAFileThatIsCutWhileOpenIsDamaged(t *testing.T) {
	t.Parallel()
	set := open(t, Settings{Dir: t.TempDir()}, nil, 0)
	all := fill(t, set, 4, 2000)
	if err := os.Truncate(path(set, 1), all[2].ref.Offset+5); err != nil {
		t.Fatal(err)
	}
	mustRead(t, set, all[:2])
	if _, err := set.Read(all[2].key, all[2].ref); !isDamaged(err, 1) {
		t.Errorf("read: %v", err)
	}
}

func TestARefusedOpenChangesNoFile(t *testing.T) {
	t.Parallel()
	s := Settings{Dir: t.TempDir()}
	_, files := closed(t, s)
	behind := FileState{Number: 1, Length: files[0].Length - 10}
	if err := os.WriteFile(filepath.Join(s.Dir, digits(5)+extension), []byte("later"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(s, []FileState{behind, {Number: 3, Length: 1}}, 3); !isDamaged(err, 3) {
		t.Errorf("a missing file: %v", err)
	}
	info, err := os.Stat(filepath.Join(s.Dir, digits(1)+extension))
	if err != nil || info.Size() != files[0].Length {
		t.Errorf("the other file: %v, %v", info, err)
	}
	if _, err := os.Stat(filepath.Join(s.Dir, digits(5)+extension)); err != nil {
		t.Error(err)
	}
}

func TestOpenCutsAndRemovesWhatTheCheckpointDoesNotKnow(t *testing.T) {
	t.Parallel()
	s := Settings{Dir: t.TempDir(), FileSize: 1000}
	set := open(t, s, nil, 0)
	all := fill(t, set, 2, 100)
	files := mustSync(t, set)
	fill(t, set, 40, 100)
	last := set.Active()
	if err := set.Close(); err != nil {
		t.Fatal(err)
	}
	other := filepath.Join(s.Dir, "notes.txt")
	if err := os.WriteFile(other, nil, 0o600); err != nil {
		t.Fatal(err)
	}

	set = open(t, s, files, 1)
	mustRead(t, set, all)
	if got := set.Files(); !slices.Equal(got, files) {
		t.Errorf("files %v, want %v", got, files)
	}
	if info, err := os.Stat(path(set, 1)); err != nil || info.Size() != files[0].Length {
		t.Errorf("%v, want %d bytes, error %v", info, files[0].Length, err)
	}
	names, err := filepath.Glob(filepath.Join(s.Dir, "*"))
	if err != nil || !slices.Equal(names, []string{path(set, 1), other}) {
		t.Errorf("files %v, error %v", names, err)
	}
	if set.Active() <= last {
		t.Errorf("the next file is %d, which is not above %d", set.Active(), last)
	}
}

func TestValuesOfAnotherPlaceAreDamage(t *testing.T) {
	t.Parallel()
	s := Settings{Dir: t.TempDir(), Store: [16]byte{1}}
	all, files := closed(t, s)
	v := all[1]
	s.Store[15]++
	other := open(t, s, files, 1)
	s.Store[15]--
	set := open(t, s, files, 1)
	bytes, err := os.ReadFile(path(set, 1))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path(set, 2), bytes, 0o600); err != nil {
		t.Fatal(err)
	}
	copied := open(t, s, []FileState{files[0], {Number: 2, Length: files[0].Length}}, 2)
	for name, c := range map[string]struct {
		set *Set
		key string
		ref Ref
	}{
		"another store":  {other, "key-1", v.ref},
		"another file":   {copied, "key-1", Ref{2, v.ref.Offset, v.ref.Size}},
		"another key":    {set, "key-2", v.ref},
		"a shorter key":  {set, "key-", Ref{1, v.ref.Offset, v.ref.Size + 1}},
		"another offset": {set, "key-1", Ref{1, v.ref.Offset + 1, v.ref.Size}},
		"before":         {set, "key-1", Ref{1, -1, v.ref.Size}},
		"behind":         {set, "key-1", Ref{1, files[0].Length, v.ref.Size}},
		"far behind":     {set, "key-1", Ref{1, 1<<63 - 1, v.ref.Size}},
		"longer":         {set, "key-1", Ref{1, v.ref.Offset, v.ref.Size + 1}},
		"too long":       {set, "key-1", Ref{1, v.ref.Offset, 1<<32 - 1}},
		"shorter":        {set, "key-1", Ref{1, v.ref.Offset, v.ref.Size - 1}},
	} {
		if _, err := c.set.Read([]byte(c.key), c.ref); !isDamaged(err, c.ref.File) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func FuzzRead(f *testing.F) {
	f.Add([]byte{}, int64(0), uint32(0))
	f.Add(appendEntry(nil, 0, 0, []byte("key"), []byte("value")), int64(0), uint32(5))
	f.Fuzz(func(t *testing.T, data []byte, offset int64, size uint32) {
		s := Settings{Dir: t.TempDir()}
		if err := os.WriteFile(filepath.Join(s.Dir, digits(1)+extension), data, 0o600); err != nil {
			t.Fatal(err)
		}
		set := open(t, s, []FileState{{1, int64(len(data))}}, 1)
		value, err := set.Read([]byte("key"), Ref{1, offset, size})
		if !isDamaged(err, 1) && (err != nil || !bytes.HasSuffix(data[:offset+sumSize+int64(size)], value)) {
			t.Errorf("%q, error %v", value, err)
		}
		if err := set.Close(); err != nil {
			t.Fatal(err)
		}
	})
}
