package badgerstore

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/eyelet-dev/eyelet/dedup"
	"github.com/eyelet-dev/eyelet/dedup/badgerstore/internal/redolog"
	"github.com/eyelet-dev/eyelet/dedup/deduptest"
)

func claimOf(id string) dedup.Claim {
	return benchClaim(rand.New(rand.NewPCG(1, uint64(len(id)))), id)
}

func mustClaim(t *testing.T, s *Store, c dedup.Claim, want dedup.Verdict) dedup.Decision {
	t.Helper()
	ds, err := s.Claim(context.Background(), c)
	if err != nil {
		t.Fatalf("claim of %s: %v", c.Key.ID, err)
	}
	if ds[0].Verdict != want {
		t.Fatalf("claim of %s: %v, want %v", c.Key.ID, ds[0].Verdict, want)
	}
	return ds[0]
}

func unavailable(t *testing.T, err error, reason string) *dedup.ErrUnavailable {
	t.Helper()
	var u *dedup.ErrUnavailable
	if !errors.As(err, &u) || !strings.Contains(u.Reason, reason) {
		t.Fatalf("error %v, want ErrUnavailable with %q", err, reason)
	}
	return u
}

func TestAFailedCommitEndsTheStore(t *testing.T) {
	t.Parallel()
	var broken atomic.Bool
	o := quiet()
	o.flush = func(l *redolog.Log) error {
		if broken.Load() {
			return syscall.EIO
		}
		return l.Flush()
	}
	s := open(t, t.TempDir(), o)
	ctx := context.Background()
	before := mustClaim(t, s, claimOf("before"), dedup.New)
	work, err := s.Take(ctx, dedup.Want{Tasks: 1, Bytes: 1 << 20, Lease: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	taken := make(chan error, 1)
	go func() {
		_, err := s.Take(ctx, dedup.Want{Tasks: 1, Bytes: 1 << 20, Lease: time.Minute})
		taken <- err
	}()
	broken.Store(true)
	_, err = s.Claim(ctx, claimOf("lost"))
	if u := unavailable(t, err, "commit failed"); !errors.Is(u, syscall.EIO) {
		t.Errorf("cause %v, want EIO", u.Err)
	}
	<-s.Failed()
	broken.Store(false) // a disk that works again changes nothing
	unavailable(t, <-taken, "commit failed")
	_, err = s.Claim(ctx, claimOf("before"))
	unavailable(t, err, "commit failed")
	_, err = s.Get(ctx, before.Record.Event)
	unavailable(t, err, "commit failed")
	unavailable(t, s.Finish(ctx, work[0].Lease, dedup.Result{Kind: dedup.ResultDone}), "commit failed")
	unavailable(t, s.Health(ctx), "commit failed")
	_, err = s.Stats(ctx)
	unavailable(t, err, "commit failed")
}

func TestALowDiskRefusesNewEventsAndFinishesTheOthers(t *testing.T) {
	t.Parallel()
	fs, o := diskOf(10 << 30)
	s := open(t, t.TempDir(), o)
	ctx := context.Background()
	mustClaim(t, s, claimOf("a"), dedup.New)
	mustClaim(t, s, claimOf("b"), dedup.New)

	fs.leave(s, 511<<20)
	_, err := s.Claim(ctx, claimOf("c"))
	if u := unavailable(t, err, "disk low: 511 MiB free, 512 MiB wanted"); u.RetryAfter <= 0 {
		t.Error("no RetryAfter")
	}
	unavailable(t, s.Health(ctx), "disk low")
	mustClaim(t, s, claimOf("a"), dedup.Known)
	work, err := s.Take(ctx, dedup.Want{Tasks: 1, Bytes: 1 << 20, Lease: time.Minute})
	if err != nil {
		t.Fatalf("Take on a low disk: %v", err)
	}
	if err := s.Finish(ctx, work[0].Lease, dedup.Result{Kind: dedup.ResultDone}); err != nil {
		t.Fatalf("Finish on a low disk: %v", err)
	}

	fs.leave(s, 3*memTable-1)
	short, cancel := context.WithTimeout(ctx, 50*time.Millisecond)
	defer cancel()
	_, err = s.Take(short, dedup.Want{Tasks: 1, Bytes: 1 << 20, Lease: time.Minute})
	if !errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("Take on a full disk: %v, want it to wait", err)
	}
	commits := commitsOf(t, s)
	waits := make(chan error, 1)
	go func() {
		_, err := s.Take(ctx, dedup.Want{Tasks: 1, Bytes: 1 << 20, Lease: time.Minute})
		waits <- err
	}()
	mustClaim(t, s, claimOf("a"), dedup.Known)
	if n := commitsOf(t, s); n != commits {
		t.Errorf("%d commits on a full disk", n-commits)
	}

	fs.free.Store(10 << 30)
	if err := <-waits; err != nil { // it checks for space by itself
		t.Fatalf("Take after space came back: %v", err)
	}
	mustClaim(t, s, claimOf("c"), dedup.New)
	if err := s.Health(ctx); err != nil {
		t.Error(err)
	}
}

func TestFinishOnAFullDiskIsRefusedAndTheLeaseStays(t *testing.T) {
	t.Parallel()
	fs, o := diskOf(10 << 30)
	s := open(t, t.TempDir(), o)
	ctx := context.Background()
	mustClaim(t, s, claimOf("a"), dedup.New)
	work, err := s.Take(ctx, dedup.Want{Tasks: 1, Bytes: 1 << 20, Lease: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	fs.leave(s, 1)
	unavailable(t, s.Finish(ctx, work[0].Lease, dedup.Result{Kind: dedup.ResultDone}), "disk low")
	fs.leave(s, 10<<30)
	if err := s.Finish(ctx, work[0].Lease, dedup.Result{Kind: dedup.ResultDone}); err != nil {
		t.Fatal(err)
	}
}

func TestMinFreeIsNeverMoreThanAQuarterOfTheFileSystem(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name                       string
		minFree, size, total, want int64
	}{
		{"default", 0, 0, 100 << 30, 512 << 20},
		{"large store", 0, 10 << 30, 100 << 30, 10 << 30 * 15 / 100},
		{"small file system", 0, 0, 1 << 30, 256 << 20},
		{"option", 1 << 30, 0, 100 << 30, 1 << 30},
		{"option on a small file system", 1 << 30, 0, 2 << 30, 512 << 20},
	} {
		d := &disk{minFree: tc.minFree, memTable: memTable, size: func() int64 { return tc.size },
			statfs: func(string) (int64, int64, error) { return 0, tc.total, nil }}
		if got := d.look().want; got != tc.want {
			t.Errorf("%s: %d, want %d", tc.name, got, tc.want)
		}
	}
}

func TestAFullDiskIsNotOpened(t *testing.T) {
	t.Parallel()
	_, o := diskOf(1 << 20)
	_, err := Open(t.TempDir(), o)
	unavailable(t, err, "disk low")
}

// flip changes one byte of a file.
func flip(t *testing.T, file string, at int64) {
	t.Helper()
	f, err := os.OpenFile(file, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := f.Close(); err != nil {
			t.Error(err)
		}
	}()
	var b [1]byte
	if _, err := f.ReadAt(b[:], at); err != nil {
		t.Fatal(err)
	}
	b[0] ^= 0x55
	if _, err := f.WriteAt(b[:], at); err != nil {
		t.Fatal(err)
	}
}

func TestACrashLosesNothing(t *testing.T) {
	t.Parallel()
	s := filled(t, 20, smallClaim)
	again := open(t, copyStore(t, s.dir), quiet())
	for i := range 20 {
		mustClaim(t, again, claimOf(fmt.Sprint(i)), dedup.Known)
	}
}

func TestAnImplausibleClockIsRefused(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name string
		by   time.Duration
		ok   bool
	}{
		{"the same", 0, true},
		{"a little back", -30 * time.Second, true},
		{"an hour back", -time.Hour, false},
		{"almost a window ahead", 23 * time.Hour, true},
		{"more than a window ahead", 25 * time.Hour, true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			dir, clock := t.TempDir(), deduptest.NewClock()
			o := quiet()
			o.Clock = clock
			s := open(t, dir, o)
			mustClaim(t, s, claimOf("a"), dedup.New)
			shut(t, s)
			clock.Advance(tc.by)
			again, err := Open(dir, o)
			if tc.ok != (err == nil) || err != nil && !strings.Contains(err.Error(), "--accept-clock") {
				t.Fatalf("Open: %v", err)
			}
			if err != nil {
				o.AcceptClock = true
				if again, err = Open(dir, o); err != nil {
					t.Fatal(err)
				}
			}
			if err := again.Close(); err != nil {
				t.Error(err)
			}
		})
	}
}

// A child process that is being started briefly has the files of its parent, and so the lock of
// a store that the parent closes meanwhile.
func TestOpenWaitsForALockThatIsAboutToBeReleased(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "store")
	if err := open(t, dir, quiet()).Close(); err != nil {
		t.Fatal(err)
	}
	left, err := os.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	if err := lockDir(left); errors.Is(err, errors.ErrUnsupported) {
		t.Skip("skipped: the lock is not on the directory")
	} else if err != nil {
		t.Fatal(err)
	}
	time.AfterFunc(20*time.Millisecond, func() { _ = left.Close() })
	open(t, dir, quiet())
}

func TestDirectoriesThatCannotBeAStoreAreRefused(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name, want string
		make       func(t *testing.T, dir string)
	}{
		{"another format", "use the version that wrote it", func(t *testing.T, dir string) {
			write(t, dir, "format", fmt.Sprintf("eyelet store %d\n", formatVersion+1))
		}},
		{"not a format", "is this the right directory", func(t *testing.T, dir string) {
			write(t, dir, "format", "something else\n")
		}},
		{"files of others", "is not a store and not empty (letter.txt)", func(t *testing.T, dir string) {
			write(t, dir, "letter.txt", "")
		}},
		{"in use", "in use by another process", func(t *testing.T, dir string) {
			open(t, dir, quiet())
		}},
		{"file", "cannot be created", func(t *testing.T, dir string) {
			if err := os.Remove(dir); err != nil {
				t.Fatal(err)
			}
			write(t, filepath.Dir(dir), filepath.Base(dir), "")
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			dir := filepath.Join(t.TempDir(), "store")
			if err := os.Mkdir(dir, 0o700); err != nil {
				t.Fatal(err)
			}
			tc.make(t, dir)
			s, err := Open(dir, quiet())
			if err == nil {
				t.Fatal("it was opened", s.Close())
			}
			if !strings.Contains(err.Error(), tc.want) || !strings.Contains(err.Error(), dir) {
				t.Fatalf("error %q, want it to name the directory and say %q", err, tc.want)
			}
		})
	}
	if _, err := Open("", quiet()); err == nil {
		t.Error("a store without a directory was opened")
	}
	if os.Geteuid() != 0 { // root may write everywhere
		locked := filepath.Join(t.TempDir(), "locked")
		if err := os.Mkdir(locked, 0o500); err != nil {
			t.Fatal(err)
		}
		if _, err := Open(filepath.Join(locked, "store"), quiet()); err == nil ||
			!strings.Contains(err.Error(), locked) {
			t.Errorf("a directory that cannot be made: %v", err)
		}
	}
}

func write(t *testing.T, dir, name, text string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestFilesAreReadableByTheirOwnerOnly(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "store")
	s := open(t, dir, quiet())
	mustClaim(t, s, claimOf("a"), dedup.New)
	s.maintenance.restrictFiles()
	info, err := os.Stat(dir)
	if err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("directory: %v, %v", info, err)
	}
	all := files(t, dir)
	if len(all) < 8 {
		t.Fatal(all)
	}
	for name := range all {
		info, err := os.Stat(filepath.Join(dir, name))
		if errors.Is(err, fs.ErrNotExist) {
			continue // the store writes and renames files meanwhile
		}
		if err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%s: %v, %v", name, info, err)
		}
	}
}

func TestAFullQueueRefusesClaimsOnly(t *testing.T) {
	t.Parallel()
	q := newQueue()
	for range queueOps {
		if err := q.push(&claimOp{ticket: ticket{claim: true, eager: true}}); err != nil {
			t.Fatal(err)
		}
	}
	unavailable(t, q.push(&claimOp{ticket: ticket{claim: true, eager: true}}), "write queue full")
	if err := q.push(&finishOp{ticket: newTicket(false)}); err != nil {
		t.Errorf("Finish: %v", err)
	}
	large := newQueue()
	if err := large.push(&claimOp{ticket: ticket{claim: true, bytes: queueBytes}}); err != nil {
		t.Fatal(err)
	}
	unavailable(t, large.push(&claimOp{ticket: ticket{claim: true, bytes: 1}}), "write queue full")
}

func TestBatchesAreBounded(t *testing.T) {
	t.Parallel()
	q := newQueue()
	for range batchOps + 10 {
		if err := q.push(&claimOp{ticket: ticket{eager: true, bytes: 1}}); err != nil {
			t.Fatal(err)
		}
	}
	if ops, _ := q.wait(nil, 0, time.Time{}, nil); len(ops) != batchOps {
		t.Errorf("first batch of %d", len(ops))
	}
	if ops, _ := q.wait(nil, 0, time.Time{}, nil); len(ops) != 10 {
		t.Errorf("second batch of %d", len(ops))
	}
	for range 4 {
		if err := q.push(&claimOp{ticket: ticket{eager: true, bytes: batchBytes / 2}}); err != nil {
			t.Fatal(err)
		}
	}
	if ops, _ := q.wait(nil, 0, time.Time{}, nil); len(ops) != 2 {
		t.Errorf("batch of %d large operations", len(ops))
	}
}

// TestConcurrentClaimsShareCommits sends claims while the commit of another one is flushed: they
// are one commit.
func TestConcurrentClaimsShareCommits(t *testing.T) {
	t.Parallel()
	o := quiet()
	var hangs atomic.Bool
	began, ends := make(chan struct{}), make(chan struct{})
	o.flush = func(l *redolog.Log) error {
		if hangs.CompareAndSwap(true, false) {
			began <- struct{}{}
			<-ends
		}
		return l.Flush()
	}
	s := open(t, t.TempDir(), o)
	before, err := s.Stats(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	const clients = 64
	var wg sync.WaitGroup
	claim := func(id int) {
		wg.Go(func() { mustClaimInLoop(t, s, claimOf(fmt.Sprint(id))) })
	}
	hangs.Store(true)
	claim(0)
	<-began
	for id := 1; id < clients; id++ {
		claim(id)
	}
	eventually(t, "the others wait", func() bool {
		s.queue.mu.Lock()
		defer s.queue.mu.Unlock()
		return len(s.queue.ops) == clients-1
	})
	close(ends)
	wg.Wait()
	st, err := s.Stats(t.Context())
	if err != nil || st.Accepted-before.Accepted != clients || st.Pending != clients || st.Commits-before.Commits != 2 {
		t.Errorf("stats %+v, before %+v, %v", st, before, err)
	}
}

func TestCloseWakesBlockedTakes(t *testing.T) {
	t.Parallel()
	s := open(t, t.TempDir(), quiet())
	errs := make(chan error, 3)
	for range cap(errs) {
		go func() {
			_, err := s.Take(context.Background(), dedup.Want{Tasks: 1, Bytes: 1, Lease: time.Minute})
			errs <- err
		}()
	}
	for blocked := 0; blocked < cap(errs); {
		onCommitter(t, s, func(c *committer) { blocked = len(c.parked) })
	}
	shut(t, s)
	for range cap(errs) {
		if err := <-errs; !errors.Is(err, dedup.ErrClosed) {
			t.Errorf("Take: %v", err)
		}
	}
	if _, err := s.Claim(context.Background(), claimOf("a")); !errors.Is(err, dedup.ErrClosed) {
		t.Errorf("Claim: %v", err)
	}
}
