package valuefile

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"syscall"
	"testing"

	"github.com/eyelet-dev/eyelet/dedup/badgerstore/internal/storedir"
)

// faults is a layer over files that fails on request, and notes what is flushed.
type faults struct {
	mu     sync.Mutex
	write  func(b []byte) (n int, err error) // of the next write
	sync   error                             // of the next flush
	create error                             // of the next new file
	synced []string
}

type faultyFile struct {
	storedir.File
	name    string
	of      *faults
	changed bool
}

func (f *faults) open(name string, flag int, perm fs.FileMode) (storedir.File, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := f.create; err != nil && flag&os.O_CREATE != 0 {
		f.create = nil
		return nil, err
	}
	file, err := storedir.OpenFile(name, flag, perm)
	if err != nil {
		return nil, err
	}
	return &faultyFile{File: file, name: name, of: f}, nil
}

func (f *faultyFile) WriteAt(b []byte, at int64) (int, error) {
	f.of.mu.Lock()
	defer f.of.mu.Unlock()
	f.changed = true
	if fail := f.of.write; fail != nil {
		f.of.write = nil
		n, err := fail(b)
		if _, err := f.File.WriteAt(b[:n], at); err != nil {
			return 0, err
		}
		return n, err
	}
	return f.File.WriteAt(b, at)
}

func (f *faultyFile) Truncate(size int64) error {
	f.changed = true
	return f.File.Truncate(size)
}

func (f *faultyFile) Sync() error {
	f.of.mu.Lock()
	defer f.of.mu.Unlock()
	err := f.of.sync
	f.of.sync = nil
	name := filepath.Base(f.name)
	if filepath.Ext(name) == extension && !f.changed {
		name += " through a descriptor that may not be notified of its errors"
	}
	f.of.synced = append(f.of.synced, name)
	return errors.Join(err, f.File.Sync())
}

func TestValuesWithoutSpaceCanBeAppendedAgain(t *testing.T) {
	t.Parallel()
	for name, fail := range map[string]func([]byte) (int, error){
		"no space":             func([]byte) (int, error) { return 0, syscall.ENOSPC },
		"no quota, half of it": func(b []byte) (int, error) { return len(b) / 2, syscall.EDQUOT },
		"an error of os.File":  func([]byte) (int, error) { return 0, &fs.PathError{Err: syscall.ENOSPC} },
	} {
		layer := &faults{}
		s := Settings{Dir: t.TempDir(), OpenFile: layer.open}
		set := open(t, s, nil, 0)
		all := fill(t, set, 3, 100)
		before := set.Files()
		if _, err := set.Append([]byte("void"), []byte("value")); err != nil {
			t.Fatal(err)
		}
		layer.write = fail
		var no *storedir.NotWrittenError
		if err := set.Write(); !errors.As(err, &no) {
			t.Fatalf("%s: %v", name, err)
		}
		if got := set.Files(); !slices.Equal(got, before) {
			t.Errorf("%s: files %v, want %v", name, got, before)
		}
		more := fill(t, set, 3, 100)
		if more[0].ref.File == 1 {
			t.Errorf("%s: the next value is at %+v", name, more[0].ref)
		}
		mustRead(t, set, append(all, more...))
		if more[0].ref.Offset != 0 {
			t.Errorf("%s: the next file begins at %d", name, more[0].ref.Offset)
		}
		files := mustSync(t, set)
		if err := set.Close(); err != nil {
			t.Fatal(err)
		}
		mustRead(t, open(t, s, files, 0), append(all, more...))
	}
}

func TestRetriesOnAFullDiskLeaveNoFiles(t *testing.T) {
	t.Parallel()
	layer := &faults{}
	set := open(t, Settings{Dir: t.TempDir(), OpenFile: layer.open}, nil, 0)
	var no *storedir.NotWrittenError
	for range 3 {
		layer.write = func(b []byte) (int, error) { return len(b) / 2, syscall.ENOSPC }
		if _, err := set.Append([]byte("key"), []byte("value")); err != nil {
			t.Fatal(err)
		}
		if err := set.Write(); !errors.As(err, &no) {
			t.Fatal(err)
		}
		layer.create = syscall.ENOSPC
		if _, err := set.Append([]byte("key"), []byte("value")); !errors.As(err, &no) {
			t.Fatal(err)
		}
		if files, err := os.ReadDir(set.s.Dir); err != nil || len(files) > 0 {
			t.Errorf("files %v, error %v", files, err)
		}
	}
	mustRead(t, set, fill(t, set, 3, 100))
}

func TestAnErrorOfTheDeviceIsFinal(t *testing.T) {
	t.Parallel()
	for name, fail := range map[string]func(*faults, *Set) error{
		"write": func(l *faults, set *Set) error {
			l.write = func([]byte) (int, error) { return 0, syscall.EIO }
			_, _ = set.Append([]byte("key"), nil)
			return set.Write()
		},
		"create": func(l *faults, set *Set) error {
			l.create = syscall.EIO
			_, err := set.Append([]byte("key"), nil)
			return errors.Join(err, set.Seal())
		},
		"flush": func(l *faults, set *Set) error {
			l.sync = syscall.EIO
			_, err := set.Sync()
			return err
		},
		"flush without space": func(l *faults, set *Set) error {
			l.sync = syscall.ENOSPC
			_, err := set.Sync()
			return err
		},
	} {
		layer := &faults{}
		set := open(t, Settings{Dir: t.TempDir(), OpenFile: layer.open}, nil, 0)
		all := fill(t, set, 3, 100)
		if name == "create" {
			if err := set.Seal(); err != nil {
				t.Fatal(err)
			}
		}
		first := fail(layer, set)
		var no *storedir.NotWrittenError
		if first == nil || errors.As(first, &no) {
			t.Errorf("%s: %v", name, first)
		}
		_, err1 := set.Sync()
		_, err2 := set.Append([]byte("key"), nil)
		if err := set.Write(); err1 == nil || err2 == nil || err == nil {
			t.Errorf("%s: then Sync %v, Append %v, Write %v", name, err1, err2, err)
		}
		if err := set.Retire(1); err == nil && set.Remove(1) == nil {
			t.Errorf("%s: a file is removed", name)
		}
		mustRead(t, set, all)
	}
}

func TestSyncFlushesEachFileThatWasWrittenThenTheDirectory(t *testing.T) {
	t.Parallel()
	layer := &faults{}
	s := Settings{Dir: filepath.Join(t.TempDir(), "values"), FileSize: 1000, OpenFile: layer.open}
	set := open(t, s, nil, 0)
	expect := func(step string, want ...string) {
		t.Helper()
		layer.synced = nil
		mustSync(t, set)
		if n := len(layer.synced); n > 0 && layer.synced[n-1] == "values" {
			slices.Sort(layer.synced[:n-1])
		}
		if !slices.Equal(layer.synced, want) {
			t.Errorf("%s: %v, want %v", step, layer.synced, want)
		}
	}
	expect("nothing")
	fill(t, set, 2, 100)
	expect("a new file", digits(1)+extension, "values")
	expect("nothing more")
	fill(t, set, 17, 100)
	expect("two complete files", digits(1)+extension, digits(2)+extension, digits(3)+extension, "values")
	fill(t, set, 1, 100)
	expect("more in the same file", digits(3)+extension)
	if err := set.Retire(1); err != nil {
		t.Fatal(err)
	}
	expect("a retired file")
	if err := set.Remove(1); err != nil {
		t.Fatal(err)
	}
	expect("a removed file", "values")
	fill(t, set, 1, 100)
	files := []FileState{{2, 150}, {3, set.Files()[1].Length}}
	if err := set.Close(); err != nil {
		t.Fatal(err)
	}
	set = open(t, s, files, 3)
	expect("a file that was cut", digits(2)+extension)
	set = open(t, s, files[:1], 3)
	expect("a file that was not listed", "values")
}

func TestAFileIsRemovedAfterTheCheckpointWithoutIt(t *testing.T) {
	t.Parallel()
	s := Settings{Dir: t.TempDir(), FileSize: 1000}
	set := open(t, s, nil, 0)
	all := fill(t, set, 20, 100)
	files := mustSync(t, set)
	total := set.Bytes()
	if err := set.Remove(1); err == nil {
		t.Error("a listed file is removed")
	}
	if err := set.Retire(set.Active()); err == nil {
		t.Error("the active file is retired")
	}
	if err := set.Retire(1); err != nil {
		t.Fatal(err)
	}
	if err := set.Remove(1); err == nil {
		t.Error("a file of the last checkpoint is removed")
	}
	mustRead(t, set, all)
	if got := mustSync(t, set); !slices.Equal(got, files[1:]) {
		t.Errorf("files %v, want %v", got, files[1:])
	}
	mustRead(t, set, all)
	if err := set.Remove(1); err != nil {
		t.Fatal(err)
	}
	if _, err := set.Read(all[0].key, all[0].ref); !errors.Is(err, fs.ErrClosed) {
		t.Errorf("a removed file: %v", err)
	}
	if _, err := os.Stat(path(set, 1)); !errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
	if got, want := set.Bytes(), total-files[0].Length; got != want {
		t.Errorf("%d bytes, want %d", got, want)
	}
	if set.Retire(1) == nil || set.Remove(1) == nil {
		t.Error("a removed file is removed again")
	}
}

func TestHeldFilesCanBeReadAfterTheirRemoval(t *testing.T) {
	t.Parallel()
	set := open(t, Settings{Dir: t.TempDir(), FileSize: 1}, nil, 0)
	all := fill(t, set, 5, 100)
	remove := func(number uint64) {
		if err := set.Retire(number); err != nil {
			t.Fatal(err)
		}
		mustSync(t, set)
		if err := set.Remove(number); err != nil {
			t.Fatal(err)
		}
	}
	readable := func() string {
		text := ""
		for _, v := range all {
			if _, err := set.Read(v.key, v.ref); err == nil {
				text += fmt.Sprint(v.ref.File)
			}
		}
		return text
	}
	expect := func(step, want string) {
		t.Helper()
		if got := readable(); got != want {
			t.Errorf("%s: %s can be read, want %s", step, got, want)
		}
	}
	remove(1)
	expect("no hold", "2345")
	first := set.Hold()
	remove(2)
	second := set.Hold()
	remove(3)
	expect("two holds", "2345")
	second()
	second()
	expect("the hold from before both removals", "2345")
	third := set.Hold()
	first()
	expect("a hold from after both removals", "45")
	remove(4)
	expect("the same hold, one more removal", "45")
	third()
	expect("no hold again", "5")
	if len(set.eras) != 1 {
		t.Errorf("%d eras are left", len(set.eras))
	}
}

// TestReadersAppenderAndCheckpointsAtOnce is for the race detector: values are appended, moved
// and removed while others read them.
func TestReadersAppenderAndCheckpointsAtOnce(t *testing.T) {
	t.Parallel()
	set := open(t, Settings{Dir: t.TempDir(), FileSize: 4000}, nil, 0)
	var mu sync.Mutex
	var newest []stored
	done := make(chan struct{})
	var running sync.WaitGroup
	for range 3 {
		running.Go(func() {
			for {
				select {
				case <-done:
					return
				default:
				}
				mu.Lock()
				release, all := set.Hold(), newest
				mu.Unlock()
				mustRead(t, set, all)
				release()
			}
		})
	}
	running.Go(func() {
		for {
			select {
			case <-done:
				return
			default:
			}
			if _, err := set.Sync(); err != nil {
				t.Error(err)
			}
			set.Files()
			set.Bytes()
			set.Active()
		}
	})
	for range 30 {
		all := fill(t, set, 30, 200)
		if err := set.Seal(); err != nil {
			t.Error(err)
		}
		mu.Lock()
		newest = all
		mu.Unlock()
		for _, f := range set.Files() {
			if f.Number >= all[0].ref.File {
				break
			}
			if err := set.Retire(f.Number); err != nil {
				t.Error(err)
			}
			mustSync(t, set)
			if err := set.Remove(f.Number); err != nil {
				t.Error(err)
			}
		}
	}
	close(done)
	running.Wait()
}
