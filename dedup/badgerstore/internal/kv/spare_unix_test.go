//go:build unix

package kv

import (
	"math"
	"os"
	"os/exec"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// starvedEnv is set in a child that runs out of file descriptors.
const starvedEnv = "EYELET_STARVED"

// openFiles opens up to n files, or all that the process may open.
func openFiles(n int) (opened []int) {
	for len(opened) < n {
		fd, err := unix.Open(os.DevNull, unix.O_RDONLY|unix.O_CLOEXEC, 0)
		if err != nil {
			break
		}
		opened = append(opened, fd)
	}
	return opened
}

// limited runs a test in a process that may open few files.
func limited(t *testing.T) bool {
	if os.Getenv(starvedEnv) == "" {
		cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^"+t.Name()+"$")
		cmd.Env = append(os.Environ(), starvedEnv+"=1")
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		return false
	}
	const limit = 200
	if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: limit, Max: limit}); err != nil {
		t.Fatal(err)
	}
	return true
}

// newSpare returns a full reserve in a process without other descriptors.
func newSpare(t *testing.T) *spare {
	t.Helper()
	s := &spare{}
	if err := s.reserve(); err != nil {
		t.Fatal(err)
	}
	all := openFiles(math.MaxInt)
	t.Cleanup(func() { closeAll(all) })
	return s
}

func closeAll(opened []int) {
	for _, fd := range opened {
		_ = unix.Close(fd)
	}
}

// canOpen fails if Badger could not open a file.
func canOpen(t *testing.T) {
	t.Helper()
	f, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	_ = f.Close()
}

// TestATableOfACompactionHasADescriptor opens other files, and reserves descriptors again, between
// the moment that a compaction has room for its table and that in which Badger creates the table.
func TestATableOfACompactionHasADescriptor(t *testing.T) {
	if !limited(t) {
		return
	}
	d := &DB{dir: t.TempDir()}
	if err := os.Mkdir(d.indexDir(), 0o700); err != nil {
		t.Fatal(err)
	}
	s := newSpare(t)
	d.spare = s
	for range 2 { // the second one has what the first one returned
		c := newCompactions(d)
		c.begin(1)
		c.build(1)
		s.until = time.Time{}
		if err := s.reserve(); err != nil {
			t.Fatal("a commit:", err)
		}
		eaten := openFiles(2 * spareOpens)
		canOpen(t)
		c.end(1, false)
		closeAll(eaten)
		if err := s.reserve(); err != nil || len(s.files) < spareFiles {
			t.Errorf("%d descriptors are reserved: %v", len(s.files), err)
		}
	}
	s.drop(spareTables) // just enough for a table
	c := newCompactions(d)
	c.begin(1)
	c.build(1)
	if err := s.reserve(); err != nil {
		t.Fatal("a commit:", err)
	}
	canOpen(t)
}

// TestDescriptorsOfAMemoryTableAreNotCounted asks for room and opens files side by side, between
// the line that Badger logs before it opens a memory table and that moment.
func TestDescriptorsOfAMemoryTableAreNotCounted(t *testing.T) {
	if !limited(t) {
		return
	}
	s := newSpare(t)
	for range 20 {
		end := s.write()
		s.onLogLine("Flushing memtable, mt.size=%d")
		var others sync.WaitGroup
		stop := make(chan struct{})
		for range 4 {
			others.Go(func() {
				for {
					select {
					case <-stop:
						return
					default:
						s.provide(spareTables, spareLeast)
						s.mu.Lock()
						s.until = time.Time{}
						s.mu.Unlock()
						_ = s.reserve()
					}
				}
			})
		}
		for range 1000 {
			canOpen(t)
		}
		close(stop)
		others.Wait()
		end()
		s.until = time.Time{}
		if err := s.reserve(); err != nil || len(s.files) < spareFiles {
			t.Fatalf("%d descriptors are reserved: %v", len(s.files), err)
		}
	}
}

// TestDescriptorsAreNotShortWhereThereAreMany uses the reserve as a compaction beside many writes
// does, in a process with enough descriptors.
func TestDescriptorsAreNotShortWhereThereAreMany(t *testing.T) {
	t.Parallel()
	d := &DB{dir: t.TempDir(), spare: &spare{}}
	if err := os.Mkdir(d.indexDir(), 0o700); err != nil {
		t.Fatal(err)
	}
	c := newCompactions(d)
	defer d.spare.close()
	if err := d.spare.reserve(); err != nil {
		t.Fatal(err)
	}
	c.begin(1)
	for range 20 {
		end := d.spare.write()
		d.spare.onLogLine("Flushing memtable, mt.size=%d")
		d.spare.provide(spareOpens, 0)
		if err := d.spare.open(func() error { return nil }); err != nil {
			t.Fatal(err)
		}
		if err := d.spare.reserve(); err != nil {
			t.Fatal("a commit beside a flush:", err)
		}
		end()
		c.build(1)
		if err := d.spare.reserve(); err != nil || len(d.spare.files) < spareFiles {
			t.Fatalf("a commit beside a compaction: %d are reserved, %v", len(d.spare.files), err)
		}
	}
	c.end(1, false)
}
