package badgerstore

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/eyelet-dev/eyelet/dedup"
)

// smallClaim and mediumClaim return the claims of filled: bodies of 1 KiB, and of 2,000 bytes
// that differ.
func smallClaim(i int) dedup.Claim  { return claimOf(fmt.Sprint(i)) }
func mediumClaim(i int) dedup.Claim { return largeClaim(fmt.Sprint(i), 2000) }

// filled returns a store with n new events.
func filled(t *testing.T, n int, claim func(i int) dedup.Claim) *Store {
	t.Helper()
	s := open(t, t.TempDir(), quiet())
	for i := range n {
		mustClaim(t, s, claim(i), dedup.New)
	}
	return s
}

// shut closes a store before the end of its test.
func shut(t *testing.T, s *Store) {
	t.Helper()
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
}

// left returns the directory of a store after its process has ended, cleanly or by a crash.
func left(t *testing.T, s *Store, crashed bool) (dir string) {
	t.Helper()
	if crashed {
		return copyStore(t, s.dir)
	}
	shut(t, s)
	return s.dir
}

// finishNext takes the next n tasks and finishes all with the same result.
func finishNext(t *testing.T, s *Store, n int, res dedup.Result) {
	t.Helper()
	work, err := s.Take(context.Background(), n, 1<<30, time.Minute)
	if err != nil || len(work) != n {
		t.Fatalf("%d tasks, want %d: %v", len(work), n, err)
	}
	for _, w := range work {
		if err := s.Finish(context.Background(), w.Lease, res); err != nil {
			t.Fatal(err)
		}
	}
}

// space is a file system whose free space the test sets.
type space struct{ free, total atomic.Int64 }

// diskOf returns a file system of 100 GiB and the options of a store on it.
func diskOf(free int64) (*space, Options) {
	fs, o := &space{}, quiet()
	fs.free.Store(free)
	fs.total.Store(100 << 30)
	o.statfs = fs.statfs
	return fs, o
}

func (f *space) statfs(string) (free, total int64, err error) {
	return f.free.Load(), f.total.Load(), nil
}

// leave sets the free space and makes the store notice it at once.
func (f *space) leave(s *Store, free int64) {
	f.free.Store(free)
	s.disk.recheck()
}
