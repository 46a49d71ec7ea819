package valuefile

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"testing"
)

// stored is what a test has appended.
type stored struct {
	key, value []byte
	ref        Ref
}

func open(t *testing.T, s Settings, files []FileState, after uint64) *Set {
	t.Helper()
	set, err := Open(s, files, after)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = set.Close() })
	return set
}

func path(s *Set, number uint64) string { return s.name(number) }

// fill appends n values and writes them.
func fill(t *testing.T, set *Set, n, size int) []stored {
	t.Helper()
	var all []stored
	for i := range n {
		key := fmt.Appendf(nil, "key-%d", i)
		value := bytes.Repeat([]byte{byte(i)}, size+i)
		ref, err := set.Append(key, value)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, stored{key, value, ref})
	}
	if err := set.Write(); err != nil {
		t.Fatal(err)
	}
	return all
}

// mustRead checks that every value can be read.
func mustRead(t *testing.T, set *Set, all []stored) {
	t.Helper()
	for _, v := range all {
		if got, err := set.Read(v.key, v.ref); err != nil || !bytes.Equal(got, v.value) {
			t.Errorf("%s at %+v: %d bytes, error %v", v.key, v.ref, len(got), err)
		}
	}
}

func mustSync(t *testing.T, set *Set) []FileState {
	t.Helper()
	files, err := set.Sync()
	if err != nil {
		t.Fatal(err)
	}
	return files
}

func TestValuesAreReadAfterWriteAndAfterOpen(t *testing.T) {
	t.Parallel()
	s := Settings{Dir: t.TempDir() + "/values", FileSize: 4096}
	set := open(t, s, nil, 6)
	all := fill(t, set, 100, 300)
	mustRead(t, set, all)
	files := mustSync(t, set)
	if len(files) < 8 || files[0].Number != 7 || !slices.Equal(files, set.Files()) {
		t.Errorf("files %v", files)
	}
	next := set.Active() + 1
	if err := set.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := set.Read(all[0].key, all[0].ref); !errors.Is(err, fs.ErrClosed) {
		t.Errorf("after Close: %v", err)
	}
	set = open(t, s, files, 0)
	mustRead(t, set, all)
	if got := set.Active(); got != next {
		t.Errorf("the next file is %d, want %d", got, next)
	}
	mustRead(t, set, fill(t, set, 3, 10_000))
}

func TestKeysHaveAnyLength(t *testing.T) {
	t.Parallel()
	set := open(t, Settings{Dir: t.TempDir()}, nil, 0)
	var all []stored
	for _, n := range []int{0, 1000} {
		key := bytes.Repeat([]byte("k"), n)
		ref, err := set.Append(key, nil)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, stored{key, []byte{}, ref})
	}
	if err := set.Write(); err != nil {
		t.Fatal(err)
	}
	mustRead(t, set, all)
}

func TestMemoryOfAppendedValuesIsBounded(t *testing.T) {
	t.Parallel()
	set := open(t, Settings{Dir: t.TempDir()}, nil, 0)
	for range 40 {
		if _, err := set.Append([]byte("key"), make([]byte, 64<<10)); err != nil {
			t.Fatal(err)
		}
		if n := len(set.buffer); n > gather+65<<10 {
			t.Fatalf("%d bytes wait for Write", n)
		}
	}
	_, err := set.Append([]byte("key"), make([]byte, 5*gather))
	if err := errors.Join(err, set.Write()); err != nil {
		t.Fatal(err)
	}
	if n := cap(set.buffer); n > 4*gather {
		t.Errorf("%d bytes are kept", n)
	}
}

func TestAFileIsNeverOverwritten(t *testing.T) {
	t.Parallel()
	set := open(t, Settings{Dir: t.TempDir()}, nil, 0)
	if err := os.WriteFile(path(set, 1), []byte("another"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := set.Append([]byte("key"), nil); !errors.Is(err, fs.ErrExist) {
		t.Errorf("error %v", err)
	}
}
