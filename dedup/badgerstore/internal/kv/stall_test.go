package kv

import (
	"context"
	"fmt"
	"io/fs"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/eyelet-dev/eyelet/dedup/badgerstore/internal/storedir"
	"github.com/eyelet-dev/eyelet/internal/faultdisk"
)

// fullDisk returns options of a database whose file system can be full.
func fullDisk(t *testing.T) (o Options, full *atomic.Bool) {
	o, full = tiny(t), new(atomic.Bool)
	o.Segments = 64
	o.Probe = func() error {
		if full.Load() {
			return syscall.ENOSPC
		}
		return nil
	}
	return o, full
}

// stall makes the applier wait for space.
func stall(t *testing.T, o *opened, full *atomic.Bool) {
	t.Helper()
	full.Store(true)
	o.commit(t, Entry{Key: keyOf('e', 7000), Value: []byte("x")})
	for o.Stalled() == nil {
		time.Sleep(time.Millisecond)
	}
}

// fillsTheDisk is a context that calls a function when it is asked for the first time.
type fillsTheDisk struct {
	context.Context
	once *sync.Once
	fill func()
}

func (c fillsTheDisk) Err() error {
	c.once.Do(c.fill)
	return nil
}

// TestFilesOfAReclaimThatFailedAreDeletedByTheNextOne fills the disk before the checkpoint.
func TestFilesOfAReclaimThatFailedAreDeletedByTheNextOne(t *testing.T) {
	t.Parallel()
	options, full := fullDisk(t)
	o, r := create(t, options), rand.New(rand.NewPCG(1, 2))
	for i := range 42 {
		o.commit(t, Entry{Key: keyOf('e', i), Value: valueOf(r, 10_000)})
	}
	if err := o.Settle(); err != nil {
		t.Fatal(err)
	}
	o.commit(t, Entry{Key: keyOf('e', 42), Value: valueOf(r, 10_000)}) // in a file of its own
	for i := range 42 {
		o.commit(t, Entry{Key: keyOf('e', i)})
	}
	if err := o.Checkpoint(); err != nil {
		t.Fatal(err)
	}
	before := o.index.values.Bytes()
	put := func(v []Stored) error { o.putAgain(t, v); return nil }
	ctx := fillsTheDisk{t.Context(), &sync.Once{}, func() { stall(t, o, full) }}
	if err := o.Reclaim(ctx, put, readable(t)); err == nil {
		t.Fatal("files are deleted without a checkpoint")
	}
	full.Store(false)
	for o.Stalled() != nil {
		time.Sleep(time.Millisecond)
	}
	if waste, err := o.Waste(t.Context()); err != nil || waste < before/2 {
		t.Errorf("%d of %d bytes are waste: %v", waste, before, err)
	}
	if err := o.Reclaim(t.Context(), put, readable(t)); err != nil {
		t.Fatal(err)
	}
	if after := o.index.values.Bytes(); after > before/2 {
		t.Errorf("%d of %d bytes are left", after, before)
	}
	o.check(t)
	if err := o.Close(); err != nil {
		t.Fatal(err)
	}
}

// TestTheApplierEndsWithEverythingAtRest closes a database when one changeset has stalled, more was
// written since, and there is space again.
func TestTheApplierEndsWithEverythingAtRest(t *testing.T) {
	t.Parallel()
	options, full := fullDisk(t)
	o := create(t, options)
	stall(t, o, full)
	o.commit(t, Entry{Key: keyOf('e', 2), Value: []byte("x")})
	full.Store(false)
	if err := o.Close(); err != nil {
		t.Fatal(err)
	}
	if n, _ := o.overlay.atRest(); n != o.n {
		t.Errorf("commit %d of %d is at rest", n, o.n)
	}
}

// TestTheFilterIsFilledOnceThereIsSpace begins with a full disk.
func TestTheFilterIsFilledOnceThereIsSpace(t *testing.T) {
	t.Parallel()
	options, full := fullDisk(t)
	o := create(t, options)
	key := append(keyOf('e', 1), make([]byte, filteredKey)...)
	o.commit(t, Entry{Key: key, Value: []byte("x")})
	o.filter.current.Store(nil)
	stall(t, o, full)
	o.background.Go(o.keepFilter)
	for begun := map[*filter]bool{nil: true}; len(begun) < 3; {
		begun[o.filter.next.Load()] = true
		time.Sleep(time.Millisecond)
	}
	full.Store(false)
	for o.filter.current.Load() == nil {
		time.Sleep(time.Millisecond)
	}
	if o.Lacks(key) {
		t.Error("the filter lacks a key")
	}
	if err := o.Close(); err != nil {
		t.Fatal(err)
	}
}

// TestADirectoryThatCannotBeOpenedIsOpenedLater has no descriptor for the directory of value files.
func TestADirectoryThatCannotBeOpenedIsOpenedLater(t *testing.T) {
	t.Parallel()
	options, exhausted := tiny(t), new(atomic.Bool)
	options.OpenValues = func(name string, flag int, perm fs.FileMode) (storedir.File, error) {
		if exhausted.Load() && filepath.Base(name) == valuesDir {
			return nil, &fs.PathError{Op: "open", Path: name, Err: syscall.EMFILE}
		}
		return storedir.OpenFile(name, flag, perm)
	}
	o, r := create(t, options), rand.New(rand.NewPCG(1, 2))
	o.commit(t, Entry{Key: keyOf('e', 1), Value: valueOf(r, 10_000)})
	exhausted.Store(true)
	if err := o.Checkpoint(); !isExhausted(err) {
		t.Errorf("a checkpoint without the directory: %v", err)
	}
	exhausted.Store(false)
	if err := o.Checkpoint(); err != nil {
		t.Error(err)
	}
	if err := o.Close(); err != nil {
		t.Fatal(err)
	}
}

// TestAMemoryTableIsNotOverlooked begins memory tables while a directory of many files is read. A
// listing may have a file without the one that began before it.
func TestAMemoryTableIsNotOverlooked(t *testing.T) {
	t.Parallel()
	d := &DB{dir: t.TempDir(), spare: &spare{}}
	touch := func(name string) {
		if err := os.WriteFile(filepath.Join(d.indexDir(), name), nil, 0o600); err != nil {
			t.Error(err)
		}
	}
	if err := os.Mkdir(d.indexDir(), 0o700); err != nil {
		t.Fatal(err)
	}
	for i := range 2000 {
		touch(fmt.Sprintf("%06d.sst", i))
	}
	c := &checkpointer{db: d}
	for round := range 20 {
		than := uint64(round * 100)
		touch(fmt.Sprintf("%05d.mem", than))
		var begins sync.WaitGroup
		begins.Go(func() {
			for n := than + 1; n < than+40; n++ {
				touch(fmt.Sprintf("%05d.mem", n))
			}
		})
		for range 30 {
			if newest, passed, err := c.memTables(than); passed || err != nil {
				t.Fatalf("memory table %d counts as written beside %d: %v", than, newest, err)
			}
		}
		begins.Wait()
		if err := os.Remove(filepath.Join(d.indexDir(), fmt.Sprintf("%05d.mem", than+1))); err != nil {
			t.Fatal(err)
		}
		if _, passed, err := c.memTables(than); !passed || err != nil {
			t.Errorf("a later memory table is written, and memory table %d is not: %v", than, err)
		}
		paths, _ := filepath.Glob(filepath.Join(d.indexDir(), "*.mem"))
		for _, path := range paths {
			if err := os.Remove(path); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// slowCompaction holds back the first compaction.
type slowCompaction struct {
	slog.Handler
	once     sync.Once
	by, ends chan string
}

func (s *slowCompaction) Enabled(context.Context, slog.Level) bool { return true }

func (s *slowCompaction) Handle(_ context.Context, r slog.Record) error {
	r.Attrs(func(a slog.Attr) bool {
		if text := a.Value.String(); strings.Contains(text, "LOG Compact. Added") {
			s.once.Do(func() { s.by <- text; <-s.ends })
		}
		return true
	})
	return nil
}

// TestADeletedKeyStaysDeletedBesideASlowCompaction deletes a key while the first compaction has its
// table. Badger merges tables of level 0 meanwhile once they are 10 s old.
func TestADeletedKeyStaysDeletedBesideASlowCompaction(t *testing.T) {
	t.Parallel()
	if !faultdisk.Long() {
		t.Skip("it takes 15 s: set EYELET_LONG=1")
	}
	s := &slowCompaction{Handler: slog.DiscardHandler, by: make(chan string, 1), ends: make(chan string)}
	options := tiny(t)
	options.Logger, options.Segments = slog.New(s), 64
	o, r := create(t, options), rand.New(rand.NewPCG(1, 2))
	key := keyOf('k', 1)
	o.commit(t, Entry{Key: key, Value: []byte("old")})
	write := func() {
		o.load(t, r, 5)
		if err := o.Checkpoint(); err != nil {
			t.Fatal(err)
		}
	}
	by := ""
	for by == "" {
		write()
		select {
		case by = <-s.by:
		case <-time.After(100 * time.Millisecond):
		}
	}
	o.commit(t, Entry{Key: key})
	for range 4 {
		write()
	}
	time.Sleep(11500 * time.Millisecond)
	close(s.ends)
	time.Sleep(2 * time.Second)
	if value, err := o.Get(key); value != nil || err != nil {
		t.Errorf("by %s: the deleted key has %q, %v", by, value, err)
	}
	o.check(t)
	if err := o.Close(); err != nil {
		t.Fatal(err)
	}
}

// TestTablesThatLackCommitsOfTheCheckpointAreDamage notes a commit that the tables do not have.
func TestTablesThatLackCommitsOfTheCheckpointAreDamage(t *testing.T) {
	t.Parallel()
	o := create(t, tiny(t))
	o.load(t, rand.New(rand.NewPCG(1, 2)), 20)
	if err := o.Close(); err != nil {
		t.Fatal(err)
	}
	at, err := ReadCheckpoint(o.dir)
	if err != nil {
		t.Fatal(err)
	}
	at.Commit++
	if err := WriteCheckpoint(o.dir, at); err != nil {
		t.Fatal(err)
	}
	options := tiny(t)
	if _, err := Open(o.dir, options); !IsDamage(err) {
		t.Errorf("the database opens: %v", err)
	}
	options.AcceptLoss = true
	again := reopen(t, o.dir, options, o.n, o.want)
	again.check(t)
	if err := again.Close(); err != nil {
		t.Fatal(err)
	}
}
