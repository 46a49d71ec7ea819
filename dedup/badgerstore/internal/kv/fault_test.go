package kv

import (
	"bytes"
	"errors"
	"io/fs"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/dgraph-io/badger/v4"

	"github.com/eyelet-dev/eyelet/dedup"
	"github.com/eyelet-dev/eyelet/dedup/badgerstore/internal/storedir"
)

// full is a disk on which value files cannot be written while an error is set.
type full struct{ err atomic.Pointer[error] }

func (f *full) open(name string, flag int, perm fs.FileMode) (storedir.File, error) {
	file, err := storedir.OpenFile(name, flag, perm)
	return &fullFile{file, f}, err
}

type fullFile struct {
	storedir.File
	disk *full
}

func (f *fullFile) WriteAt(b []byte, at int64) (int, error) {
	if err := f.disk.err.Load(); err != nil {
		n, _ := f.File.WriteAt(b[:len(b)/2], at) // what fits
		return n, *err
	}
	return f.File.WriteAt(b, at)
}

// TestTheApplierWaitsForSpace fills the disk. Commits succeed until the memory is full, and then
// fail as not written. Reads fail, instead of waiting. Everything is there once there is space.
func TestTheApplierWaitsForSpace(t *testing.T) {
	t.Parallel()
	disk, options := &full{}, tiny(t)
	options.OpenValues, options.Segment = disk.open, 16<<20
	o := create(t, options)
	r := rand.New(rand.NewPCG(11, 12))
	o.load(t, r, 50)
	noSpace := error(syscall.ENOSPC)
	disk.err.Store(&noSpace)
	var err error
	for n := 0; err == nil && n < 1000; n++ {
		e := Entry{Key: keyOf('e', n), Value: make([]byte, 200_000)}
		if err = o.Commit(o.n+1, []Entry{e}); err == nil {
			o.n++
			o.expect(e)
		}
	}
	var unavailable *dedup.ErrUnavailable
	if !errors.As(err, new(*storedir.NotWrittenError)) || !errors.As(err, &unavailable) {
		t.Fatalf("a commit beyond the memory: %v", err)
	}
	if err := o.View(func(*View) error { return nil }); !errors.As(err, &unavailable) {
		t.Errorf("a view: %v", err)
	}
	disk.err.Store(nil)
	for o.Settle() != nil {
		time.Sleep(10 * time.Millisecond)
	}
	o.load(t, r, 50)
	o.check(t)
	var dir string
	o.still(func() { dir = o.crashed(t) })
	again := reopen(t, dir, tinyOf(options), o.n, o.want)
	again.check(t)
	if err := errors.Join(o.Close(), again.Close()); err != nil {
		t.Fatal(err)
	}
}

func tinyOf(o Options) Options {
	o.OpenValues = nil
	return o
}

// TestACloseOnAFullDiskLosesNothing ends a database whose applier waits for space.
func TestACloseOnAFullDiskLosesNothing(t *testing.T) {
	t.Parallel()
	disk, options := &full{}, tiny(t)
	options.OpenValues = disk.open
	o := create(t, options)
	r := rand.New(rand.NewPCG(13, 14))
	o.load(t, r, 50)
	noSpace := error(syscall.ENOSPC)
	disk.err.Store(&noSpace)
	o.load(t, r, 20)
	if err := o.Close(); err != nil {
		t.Logf("Close: %v", err)
	}
	again := reopen(t, o.dir, tinyOf(options), o.n, o.want)
	again.check(t)
	if err := again.Close(); err != nil {
		t.Fatal(err)
	}
}

// failing returns options whose database records its failures.
func failing(t *testing.T) (Options, chan string) {
	o, reasons := tiny(t), make(chan string, 100)
	o.Fail = func(reason string, err error) { reasons <- reason + ": " + err.Error() }
	return o, reasons
}

// TestAMemoryTableThatIsNotDeletedFailsACheckpoint replaces a memory table by a directory that is
// not empty: Badger cannot delete it, and only logs that.
func TestAMemoryTableThatIsNotDeletedFailsACheckpoint(t *testing.T) {
	t.Parallel()
	options, reasons := failing(t)
	options.patience = 200 * time.Millisecond
	o := create(t, options)
	o.load(t, rand.New(rand.NewPCG(15, 16)), 20)
	if err := o.Settle(); err != nil {
		t.Fatal(err)
	}
	name := filepath.Join(o.dir, IndexDir, "00001"+memTableExt)
	if err := errors.Join(os.Remove(name), os.MkdirAll(filepath.Join(name, "x"), 0o700)); err != nil {
		t.Fatal(err)
	}
	if err := o.Checkpoint(); err == nil {
		t.Error("a checkpoint passed")
	} else if reason := <-reasons; !strings.Contains(reason, "a memory table is not deleted") {
		t.Error(reason)
	}
	_ = o.Close()
}

// TestACheckpointPassesReadersOfEveryMemoryTable opens a reader for each memory table as it begins,
// for a while: a checkpoint waits for the first table that no reader has.
func TestACheckpointPassesReadersOfEveryMemoryTable(t *testing.T) {
	t.Parallel()
	options := tiny(t)
	options.patience = time.Hour
	o := create(t, options)
	o.load(t, rand.New(rand.NewPCG(17, 18)), 50)
	if err := o.Settle(); err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- o.checkpoint.run() }()
	var pins []func()
	pin := func() {
		txn := o.Badger().NewTransactionAt(1, false)
		it := txn.NewIterator(badger.DefaultIteratorOptions)
		pins = append(pins, func() { it.Close(); txn.Discard() })
	}
	newest := func() uint64 {
		n, _, err := o.checkpoint.memTables(0)
		if err != nil {
			t.Error(err)
		}
		return n
	}
	for first := newest(); newest() < first+3 && len(done) == 0; { // through the first turns
		pin()
		time.Sleep(time.Millisecond)
	}
	if err := <-done; err != nil {
		t.Error(err)
	}
	for _, f := range pins {
		f()
	}
	if err := o.Close(); err != nil {
		t.Fatal(err)
	}
}

func TestLinesOfBadgerThatAreFinal(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		format string
		err    error
		final  bool
	}{
		{"error flushing memtable to disk: %v, retrying", syscall.EIO, true},
		{"error flushing memtable to disk: %v, retrying", syscall.ENOSPC, true},
		{"error flushing memtable to disk: %v, retrying", syscall.EMFILE, false},
		{"[Compactor: 1] LOG Compact FAILED with error: %v: {}", &fs.PathError{Op: "write", Path: "/a/MANIFEST",
			Err: syscall.ENOSPC}, true},
		{"[Compactor: 1] LOG Compact FAILED with error: %v: {}", &fs.PathError{Op: "open", Path: "/a/MANIFEST-REWRITE",
			Err: syscall.EMFILE}, false},
		{"[Compactor: 1] LOG Compact FAILED with error: %v: {}", errors.New("checksum mismatch"), false},
	} {
		options, reasons := failing(t)
		o := create(t, options)
		if strings.HasPrefix(tc.format, "error") {
			o.Logger().Errorf(tc.format, tc.err)
		} else {
			o.Logger().Warningf(tc.format, tc.err)
		}
		if final := len(reasons) > 0; final != tc.final {
			t.Errorf("%v: final is %v", tc.err, final)
		}
		_ = o.Close()
	}
}

// TestATableThatBadgerIgnoresIsDamage opens a directory in which Badger has found another table.
func TestATableThatBadgerIgnoresIsDamage(t *testing.T) {
	t.Parallel()
	log := &logger{slog: slog.New(slog.DiscardHandler)}
	log.Errorf("Ignoring table %s", "000007.sst")
	_, err := openBadger(badger.DefaultOptions(t.TempDir()).WithLogger(nil), log)
	if !IsDamage(err) || !strings.Contains(err.Error(), "000007.sst") {
		t.Errorf("got %v", err)
	}
}

// TestAStartWritesTheCheckpointAgain opens a database that was closed. After a failed flush only
// the page cache may have the name of its checkpoint, or parts of MANIFEST. A start makes others.
func TestAStartWritesTheCheckpointAgain(t *testing.T) {
	t.Parallel()
	o := create(t, tiny(t))
	o.load(t, rand.New(rand.NewPCG(29, 30)), 20)
	if err := o.Close(); err != nil {
		t.Fatal(err)
	}
	old := map[string]fs.FileInfo{}
	for _, name := range []string{CheckpointFile, filepath.Join(IndexDir, badger.ManifestFilename)} {
		before, err := os.Open(filepath.Join(o.dir, name)) // so that its inode is not used again
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = before.Close() }()
		if old[name], err = before.Stat(); err != nil {
			t.Fatal(err)
		}
	}
	again := reopen(t, o.dir, tiny(t), o.n, o.want)
	for name, before := range old {
		if info, err := os.Stat(filepath.Join(o.dir, name)); err != nil || os.SameFile(info, before) {
			t.Errorf("%s is the file of before: %v", name, err)
		}
	}
	if at, err := ReadCheckpoint(o.dir); err != nil || at.Closed {
		t.Errorf("an open database counts as closed: %v", err)
	}
	if err := again.Close(); err != nil {
		t.Fatal(err)
	}
}

// TestNoCheckpointFollowsAFailure notes a failure, such as Badger's log lines have.
func TestNoCheckpointFollowsAFailure(t *testing.T) {
	t.Parallel()
	options, _ := failing(t)
	options.Segment = 1 << 20 // so that no checkpoint is due
	o := create(t, options)
	o.load(t, rand.New(rand.NewPCG(27, 28)), 20)
	noted := o.noted(t)
	o.fail("by this test", syscall.EIO)
	if err := o.Checkpoint(); !errors.Is(err, syscall.EIO) {
		t.Errorf("a checkpoint: %v", err)
	}
	_ = o.Close() // with the failure, or without
	if now := o.noted(t); !reflect.DeepEqual(now, noted) {
		t.Errorf("a checkpoint was noted after the failure: %+v, before %+v", now, noted)
	}
}

// writerFunc is a writer of lines.
type writerFunc func(line []byte)

func (f writerFunc) Write(line []byte) (int, error) { f(line); return len(line), nil }

// TestAFailureDuringACloseIsFinal notes a failure while Badger closes, such as that of its last
// memory table.
func TestAFailureDuringACloseIsFinal(t *testing.T) {
	t.Parallel()
	options, _ := failing(t)
	var o *opened
	options.Logger = slog.New(slog.NewTextHandler(writerFunc(func(line []byte) {
		if bytes.Contains(line, []byte("Closing database")) {
			o.fail("by this test", syscall.EIO)
		}
	}), &slog.HandlerOptions{Level: slog.LevelDebug}))
	o = create(t, options)
	o.load(t, rand.New(rand.NewPCG(37, 38)), 20)
	noted := o.noted(t)
	if err := o.Close(); !errors.Is(err, syscall.EIO) {
		t.Errorf("Close: %v", err)
	}
	if now := o.noted(t); !reflect.DeepEqual(now, noted) {
		t.Errorf("a checkpoint was noted after the failure: %+v, before %+v", now, noted)
	}
}

// TestAnErrorOfTheApplierIsFinal lets the device of the value files fail. No checkpoint follows.
func TestAnErrorOfTheApplierIsFinal(t *testing.T) {
	t.Parallel()
	options, reasons := failing(t)
	disk := &full{}
	options.OpenValues, options.Segment = disk.open, 1<<20 // so that no checkpoint is due
	o := create(t, options)
	r := rand.New(rand.NewPCG(25, 26))
	o.load(t, r, 50)
	if err := o.Checkpoint(); err != nil {
		t.Fatal(err)
	}
	noted := o.noted(t)
	o.load(t, r, 1) // with a commit that is at rest and not in the checkpoint
	if err := o.Settle(); err != nil {
		t.Fatal(err)
	}
	broken := error(syscall.EIO)
	disk.err.Store(&broken)
	o.commit(t, Entry{Key: keyOf('e', 1), Content: valueOf(r, 1000), Value: []byte("v")})
	if reason := <-reasons; !strings.Contains(reason, "writes could not be applied") {
		t.Error(reason)
	}
	disk.err.Store(nil)
	if err := o.checkpoint.run(); err == nil {
		t.Error("a checkpoint follows")
	}
	if err := o.Commit(o.n+1, []Entry{{Key: keyOf('e', 2), Value: []byte("v")}}); !errors.Is(err, broken) {
		t.Errorf("a commit follows: %v", err)
	}
	_ = o.Close() // with the failure, or without
	if now := o.noted(t); !reflect.DeepEqual(now, noted) {
		t.Errorf("a checkpoint was noted after the failure: %+v, before %+v", now, noted)
	}
	options.OpenValues, options.Fail = nil, tiny(t).Fail
	again := reopen(t, o.dir, options, o.n, o.want)
	again.check(t)
	if err := again.Close(); err != nil {
		t.Fatal(err)
	}
}

// TestACheckpointCoversOnlyWhatIsAtRest makes a checkpoint while commits wait for space.
func TestACheckpointCoversOnlyWhatIsAtRest(t *testing.T) {
	t.Parallel()
	options := tiny(t)
	var full atomic.Bool
	options.Probe = func() error {
		if full.Load() {
			return syscall.ENOSPC
		}
		return nil
	}
	o := create(t, options)
	r := rand.New(rand.NewPCG(23, 24))
	o.load(t, r, 20)
	if err := o.Settle(); err != nil {
		t.Fatal(err)
	}
	rest := o.log.End()
	full.Store(true)
	o.load(t, r, 20)
	if err := o.checkpoint.run(); err != nil {
		t.Fatal(err)
	}
	if at, err := ReadCheckpoint(o.dir); err != nil || at.Log != rest {
		t.Errorf("the checkpoint is at %v, want %v: %v", at.Log, rest, err)
	}
	o.crashes(t, "with commits that wait")
	if err := o.Close(); err != nil {
		t.Fatal(err)
	}
}

// TestAKeyIsReadWhileItIsPutAtRest reads a key when its commit has left the live writes and is not
// at rest.
func TestAKeyIsReadWhileItIsPutAtRest(t *testing.T) {
	t.Parallel()
	key, options, probes := keyOf('e', 1), tiny(t), 0
	var o *opened
	options.Probe = func() error {
		probes++
		if value, err := o.Get(key); err != nil || string(value) != "new" {
			t.Errorf("%q, %v", value, err)
		}
		return nil
	}
	o = create(t, options)
	o.commit(t, Entry{Key: key, Value: []byte("new")})
	if err := o.Settle(); err != nil || probes == 0 {
		t.Fatal(probes, err)
	}
	if err := o.Close(); err != nil {
		t.Fatal(err)
	}
}

// TestAKeyIsFoundBeforeTheFilterIsComplete opens a database whose last commit is not at rest: the
// view that fills the filter waits for it.
func TestAKeyIsFoundBeforeTheFilterIsComplete(t *testing.T) {
	t.Parallel()
	o := create(t, tiny(t))
	o.load(t, rand.New(rand.NewPCG(27, 28)), 50)
	if err := o.Checkpoint(); err != nil {
		t.Fatal(err)
	}
	o.commit(t, Entry{Key: keyOf('e', 1), Value: []byte("last")})
	var dir string
	o.still(func() { dir = o.crashed(t) })
	options, release := tiny(t), make(chan struct{})
	options.Probe = func() error { <-release; return nil }
	again := reopen(t, dir, options, o.n, o.want)
	for key, want := range o.want {
		if value, err := again.Get([]byte(key)); err != nil || !same(value, want.Value) {
			t.Fatalf("key %x: %d bytes, want %d: %v", key, len(value), len(want.Value), err)
		}
	}
	close(release)
	if err := errors.Join(o.Close(), again.Close()); err != nil {
		t.Fatal(err)
	}
}

// syncing calls back before a value file is flushed.
type syncing struct {
	storedir.File
	before func() error
}

func (f syncing) Sync() error {
	if err := f.before(); err != nil {
		return err
	}
	return f.File.Sync()
}

// TestACheckpointIsNotedAfterTheFlushes looks at the noted checkpoint and the log when value files
// are flushed: both are as before, and stay so if the flush fails.
func TestACheckpointIsNotedAfterTheFlushes(t *testing.T) {
	t.Parallel()
	options, reasons := failing(t)
	flushes, check := 0, func() error { return nil }
	options.OpenValues = func(name string, flag int, perm fs.FileMode) (storedir.File, error) {
		f, err := storedir.OpenFile(name, flag, perm)
		return syncing{f, func() error { flushes++; return check() }}, err
	}
	options.Segment = 1 << 20
	o := create(t, options)
	r := rand.New(rand.NewPCG(19, 20))
	for o.log.End().Segment < 3 {
		o.load(t, r, 20)
	}
	if err := o.Settle(); err != nil {
		t.Fatal(err)
	}
	before, err := ReadCheckpoint(o.dir)
	if err != nil {
		t.Fatal(err)
	}
	used, _ := o.log.Pressure()
	unchanged := func() error {
		now, err := ReadCheckpoint(o.dir)
		if n, _ := o.log.Pressure(); err != nil || now.Log != before.Log || n < used {
			t.Errorf("the checkpoint was at %v and is at %v; %d segments were used, now %d: %v", before.Log, now.Log,
				used, n, err)
		}
		return nil
	}
	check = unchanged
	if err := o.Checkpoint(); err != nil || flushes == 0 {
		t.Fatalf("%d flushes, %v", flushes, err)
	}
	now, err := ReadCheckpoint(o.dir)
	if n, _ := o.log.Pressure(); err != nil || now.Log != o.log.End() || n >= used {
		t.Errorf("the checkpoint is at %v, the end at %v; %d segments are used: %v", now.Log, o.log.End(), n, err)
	}
	if now.Manifest.Length <= before.Manifest.Length {
		t.Errorf("%d bytes of MANIFEST are noted, as before", now.Manifest.Length)
	}
	check = func() error { return syscall.EIO }
	o.load(t, r, 20)
	before, used = now, 0
	if err := o.Checkpoint(); !errors.Is(err, syscall.EIO) || len(reasons) == 0 {
		t.Errorf("a failed flush: %v", err)
	}
	check = func() error { return nil }
	if err := o.Checkpoint(); !errors.Is(err, syscall.EIO) {
		t.Errorf("a checkpoint after a failed flush: %v", err)
	}
	_ = o.Close()
	_ = unchanged()
	o = reopen(t, o.dir, tiny(t), o.n, o.want)
	o.check(t)
	if err := o.Close(); err != nil {
		t.Fatal(err)
	}
}

// TestStalledDoesNotWaitForBadger asks while a write of Badger does not return.
func TestStalledDoesNotWaitForBadger(t *testing.T) {
	t.Parallel()
	o := create(t, tiny(t))
	defer func() {
		if err := o.Close(); err != nil {
			t.Error(err)
		}
	}()
	o.applier.gate.Lock()
	defer o.applier.gate.Unlock()
	answered := make(chan error)
	go func() { answered <- o.Stalled() }()
	if err := <-answered; err != nil {
		t.Error(err)
	}
}
