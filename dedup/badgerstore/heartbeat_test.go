package badgerstore

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/eyelet-dev/eyelet/dedup"
	"github.com/eyelet-dev/eyelet/dedup/badgerstore/internal/kv"
	"github.com/eyelet-dev/eyelet/dedup/badgerstore/internal/redolog"
)

// pulse drives the heartbeat of a store.
type pulse struct {
	past  atomic.Int64 // since the start
	beats chan time.Time
}

func newPulse(o *Options) *pulse {
	p, start := &pulse{beats: make(chan time.Time)}, time.Now()
	o.now = func() time.Time { return start.Add(time.Duration(p.past.Load())) }
	o.beats = p.beats
	return p
}

// pass lets the heartbeat beat for d, unless the store fails.
func (p *pulse) pass(s *Store, d time.Duration) {
	for ; d > 0; d -= beatEvery {
		p.past.Add(int64(beatEvery))
		p.beat(s)
	}
}

// beat returns once the heartbeat has looked: it receives the second beat when the first has ended.
func (p *pulse) beat(s *Store) {
	for range 2 {
		select {
		case p.beats <- time.Time{}:
		case <-s.Failed():
		}
	}
}

// stuckDisk is a store whose commits hang while stuck is not nil.
type stuckDisk struct {
	*Store
	*pulse
	stuck atomic.Pointer[chan struct{}]
	began chan struct{} // a commit hangs
}

func openStuck(t *testing.T) *stuckDisk {
	t.Helper()
	o := quiet()
	d := &stuckDisk{pulse: newPulse(&o), began: make(chan struct{}, 1)}
	o.flush = func(l *redolog.Log) error {
		if c := d.stuck.Load(); c != nil {
			d.began <- struct{}{}
			<-*c
		}
		return l.Flush()
	}
	var err error
	if d.Store, err = Open(t.TempDir(), o); err != nil {
		t.Fatal(err)
	}
	return d
}

// hang makes the commit of a claim hang. It returns the result of the claim and a function that
// lets it continue.
func (d *stuckDisk) hang(claim dedup.Claim) (claimed <-chan error, release func()) {
	c, errs := make(chan struct{}), make(chan error, 1)
	d.stuck.Store(&c)
	go func() {
		_, err := d.Claim(context.Background(), claim)
		errs <- err
	}()
	<-d.began
	return errs, func() { d.stuck.Store(nil); close(c) }
}

// rest waits until no worker of the store runs, and the applier has nothing to do: the beats of a
// test pass so fast that it would seem to hang.
func rest(s *Store) {
	for i, w := range []*kv.Work{&s.heart.work, s.db.Applying(), s.db.Checkpointing()} {
		if i == 1 {
			_ = s.db.Settle() // with an error there is nothing to wait for
		}
		for _, working := w.Piece(); working; _, working = w.Piece() {
			time.Sleep(time.Millisecond)
		}
	}
}

// idle waits until the mark after the last commit is written.
func idle(t *testing.T, s *Store) {
	t.Helper()
	for unmarked := true; unmarked; time.Sleep(2 * markAfter) {
		onCommitter(t, s, func(c *committer) { unmarked = c.unmarked })
	}
}

func TestAHangingCommitMakesTheStoreUnavailableUntilItEnds(t *testing.T) {
	t.Parallel()
	d := openStuck(t)
	defer shut(t, d.Store)
	ctx := context.Background()
	mustClaim(t, d.Store, claimOf("before"), dedup.New)
	idle(t, d.Store)
	rest(d.Store)
	d.pass(d.Store, 2*failAfter)
	if err := d.Health(ctx); err != nil {
		t.Fatalf("an idle store: %v", err)
	}
	claimed, release := d.hang(claimOf("slow"))
	d.pass(d.Store, 5*time.Second)
	unavailable(t, d.Health(ctx), "the disk does not respond")
	_, err := d.Claim(ctx, claimOf("next"))
	unavailable(t, err, "the disk does not respond")
	unavailable(t, <-claimed, "the disk does not respond") // it stops waiting
	release()
	rest(d.Store)
	d.pass(d.Store, 2*beatEvery)
	if err := d.Health(ctx); err != nil {
		t.Errorf("the disk responds again: %v", err)
	}
	mustClaim(t, d.Store, claimOf("slow"), dedup.Known)
	mustClaim(t, d.Store, claimOf("next"), dedup.New)
}

// TestALargeCommitMayTakeLonger commits 3 seconds more than a segment.
func TestALargeCommitMayTakeLonger(t *testing.T) {
	t.Parallel()
	d := openStuck(t)
	defer shut(t, d.Store)
	claimed, release := d.hang(largeClaim("large", segmentSize+3*slowest))
	d.pass(d.Store, hangAfter+2*time.Second)
	if err := d.Health(t.Context()); err != nil {
		t.Error(err)
	}
	d.pass(d.Store, 2*time.Second)
	unavailable(t, d.Health(t.Context()), "the disk does not respond")
	unavailable(t, <-claimed, "the disk does not respond")
	release()
	for range (largeLasts + 4*time.Second) / beatEvery {
		rest(d.Store) // a checkpoint may begin at any time
		d.pass(d.Store, beatEvery)
	}
	claimed, release = d.hang(claimOf("small"))
	d.pass(d.Store, hangAfter+time.Second)
	unavailable(t, <-claimed, "the disk does not respond")
	release()
	rest(d.Store)
	d.pass(d.Store, 2*beatEvery) // else Close waits only briefly
}

func TestACommitThatHangsForAMinuteEndsTheStore(t *testing.T) {
	t.Parallel()
	d := openStuck(t)
	ctx := context.Background()
	mustClaim(t, d.Store, claimOf("a"), dedup.New)
	work, err := d.Take(ctx, dedup.Want{Tasks: 1, Bytes: 1 << 20, Lease: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	taken := make(chan error, 1)
	go func() {
		_, err := d.Take(ctx, dedup.Want{Tasks: 1, Bytes: 1 << 20, Lease: time.Hour})
		taken <- err
	}()
	claimed, release := d.hang(claimOf("slow"))
	finished := make(chan error, 1)
	go func() { finished <- d.Finish(ctx, work[0].Lease, dedup.Result{Kind: dedup.ResultDone}) }()
	d.pass(d.Store, failAfter+2*beatEvery)
	<-d.Failed()
	for what, err := range map[string]error{"Take": <-taken, "Finish": <-finished, "Health": d.Health(ctx)} {
		if u := unavailable(t, err, "the disk does not respond"); !errors.Is(u, dedup.ErrFailed) {
			t.Errorf("%s: %v does not say that the store has failed", what, u)
		}
	}
	if err := d.Close(); !errors.Is(err, errStaysOpen) {
		t.Errorf("Close: %v", err)
	}
	release()
	unavailable(t, <-claimed, "the disk does not respond")
	<-d.stopped
	d.background.Wait()
	if err := d.db.Close(); err != nil { // as the end of the process would
		t.Error(err)
	}
}

// TestAPauseIsNotAHangingDisk pauses the process for an hour during a commit, as SIGSTOP does.
func TestAPauseIsNotAHangingDisk(t *testing.T) {
	t.Parallel()
	d := openStuck(t)
	defer shut(t, d.Store)
	claimed, release := d.hang(claimOf("slow"))
	d.pass(d.Store, beatEvery) // it has seen the commit begin
	d.past.Add(int64(time.Hour))
	d.beat(d.Store)
	if err := d.Health(context.Background()); err != nil {
		t.Error(err)
	}
	release()
	if err := <-claimed; err != nil {
		t.Error(err)
	}
}

// TestAMemoryTableThatCannotBeWrittenEndsTheStore creates directories with the names of the next
// tables. Badger would retry, over files of which it does not know what is on the disk.
func TestAMemoryTableThatCannotBeWrittenEndsTheStore(t *testing.T) {
	t.Parallel()
	o := quiet()
	o.memTable = 64 << 10
	s := open(t, t.TempDir(), o)
	ctx := context.Background()
	var taken []string
	for i := range 1000 {
		name := filepath.Join(s.dir, "index", fmt.Sprintf("%06d.sst", i+1))
		if _, err := os.Stat(name); errors.Is(err, os.ErrNotExist) {
			taken = append(taken, name)
			if err := os.Mkdir(name, 0o700); err != nil {
				t.Fatal(err)
			}
		}
	}
	accepted := 0
	for i := 0; s.Health(ctx) == nil; i++ {
		if _, err := s.Claim(ctx, claimOf(fmt.Sprint(i))); err == nil {
			accepted++
		}
	}
	if u := unavailable(t, s.Health(ctx), "memory table"); !errors.Is(u, dedup.ErrFailed) {
		t.Errorf("%v is not final", u)
	}
	for _, name := range taken {
		if err := os.Remove(name); err != nil {
			t.Fatal(err)
		}
	}
	_ = s.Close() // waits only briefly for Badger, which retries once a second
	s.background.Wait()
	s.readers.Lock() // until the files are closed
	defer s.readers.Unlock()
	again := open(t, s.dir, o)
	for i := range accepted {
		mustClaim(t, again, claimOf(fmt.Sprint(i)), dedup.Known)
	}
}

// TestAMemoryTableThatIsNotWrittenForAMinuteEndsTheStore logs Badger's error once per beat.
func TestAMemoryTableThatIsNotWrittenForAMinuteEndsTheStore(t *testing.T) {
	t.Parallel()
	o := quiet()
	p := newPulse(&o)
	s := open(t, t.TempDir(), o)
	for n := range failAfter/beatEvery + 1 {
		s.db.Logger().Errorf("error flushing memtable to disk: %v, retrying", syscall.EMFILE)
		p.pass(s, beatEvery)
		if n == 0 {
			eventually(t, "the beat ends", func() bool { return s.Health(t.Context()) != nil })
			unavailable(t, s.Health(t.Context()), "the disk does not respond")
		}
	}
	<-s.Failed()
}

// TestAWorkerThatHangsIsNoticed hangs the applier, and then a checkpoint.
func TestAWorkerThatHangsIsNoticed(t *testing.T) {
	t.Parallel()
	for what, work := range map[string]func(*kv.DB) *kv.Work{
		"putting commits at rest": (*kv.DB).Applying, "a checkpoint": (*kv.DB).Checkpointing,
	} {
		o := quiet()
		p := newPulse(&o)
		s := open(t, t.TempDir(), o)
		w := work(s.db)
		idle(t, s)
		rest(s)
		p.hang(t, s, w, func() bool { return s.Health(t.Context()) != nil })
		if u := unavailable(t, s.Health(t.Context()), "the disk does not respond"); !strings.Contains(u.Error(), what) {
			t.Errorf("%v does not say what hangs", u)
		}
		w.End()
		eventually(t, "it does not hang any more", func() bool {
			p.pass(s, beatEvery)
			return s.Health(t.Context()) == nil
		})
		p.hang(t, s, w, func() bool { return s.failure.Load() != nil })
		<-s.Failed()
	}
}

// hang lets a worker hang until done. The store's own use of the worker may end a piece early.
func (p *pulse) hang(t *testing.T, s *Store, w *kv.Work, done func() bool) {
	t.Helper()
	for range 4 * failAfter / beatEvery {
		if _, working := w.Piece(); !working {
			w.Begin()
		}
		p.pass(s, beatEvery)
		if done() {
			return
		}
	}
	t.Fatal("a worker that hangs is not noticed")
}

func TestAFailedCompactionIsReported(t *testing.T) {
	t.Parallel()
	s := open(t, t.TempDir(), quiet())
	s.db.Logger().Warningf("[Compactor: %d] LOG Compact FAILED with error: %+v: %+v", 1, os.ErrPermission,
		struct{ a string }{"tables"})
	if err := s.Degraded(); err == nil ||
		!strings.Contains(err.Error(), "compaction failed: permission denied") ||
		strings.Contains(err.Error(), "tables") {
		t.Errorf("Degraded: %v", err)
	}
}
