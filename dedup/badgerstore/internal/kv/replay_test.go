package kv

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"math/rand/v2"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/dgraph-io/badger/v4"

	"github.com/eyelet-dev/eyelet/dedup/badgerstore/internal/redolog"
	"github.com/eyelet-dev/eyelet/dedup/badgerstore/internal/storedir"
)

// TestAReplayPutsBackWhatIsAheadOfTheCheckpoint has tables with references to values behind the
// noted ends of the value files. The replay groups the commits in another way than before, and
// must still replace every one of them.
func TestAReplayPutsBackWhatIsAheadOfTheCheckpoint(t *testing.T) {
	t.Parallel()
	options := tiny(t)
	options.Segment, options.ValueFile = 8<<20, 1<<20
	o := create(t, options)
	o.applier.gate.Lock() // all become one changeset
	for n := range 2 * replayBytes / 5000 {
		o.commit(t, Entry{Key: keyOf('e', n), Value: bytes.Repeat([]byte{byte(n)}, 4000)})
	}
	o.applier.gate.Unlock()
	large := o.n
	for n := 0; !inTables(o.DB, large+1); n++ {
		o.commit(t, Entry{Key: keyOf('s', n), Value: make([]byte, 200)})
	}
	var dir string
	o.still(func() { dir = o.crashed(t) })
	if err := o.Close(); err != nil {
		t.Fatal(err)
	}
	o = reopen(t, dir, options, o.n, o.want)
	o.check(t)
	if err := o.Close(); err != nil {
		t.Fatal(err)
	}
}

// TestAReplayIsKilledAndBegunAgain: its writes have higher versions than the commits of the log,
// and the next replay writes above them.
func TestAReplayIsKilledAndBegunAgain(t *testing.T) {
	t.Parallel()
	options := tiny(t)
	options.Segment, options.ValueFile = 8<<20, 1<<20
	o := create(t, options)
	for n := range 4 * replayBytes / 5000 {
		o.commit(t, Entry{Key: keyOf('e', n%1000), Value: bytes.Repeat([]byte{byte(n)}, 4000)},
			Entry{Key: keyOf('s', n), Value: make([]byte, 100)})
	}
	dir := o.crashedInTables(t)
	killed := errors.New("the process ends")
	for try := range 3 {
		at, err := ReadCheckpoint(dir)
		if err != nil {
			t.Fatal(err)
		}
		puts, failing, half := 0, options, (*DB)(nil)
		failing.Probe = func() error {
			if len(half.overlay.hurry) == 0 {
				t.Error("a replay rests")
			}
			if puts++; puts > 2 {
				return killed
			}
			return nil
		}
		if half, err = openAtRest(dir, failing, at); err != nil {
			t.Fatal(err)
		}
		if _, err := half.replay(at); !errors.Is(err, killed) || puts != 3 {
			t.Fatalf("a replay: %v", err)
		}
		if version := half.Badger().MaxVersion(); version < o.n+uint64(try) || half.applier.version != version {
			t.Errorf("try %d: version %d after %d commits", try, version, o.n)
		}
		for !inTables(half, half.applier.version) { // as a memory table that became full
			size := fillerSize(half.Badger().Opts().MemTableSize)
			if err := half.index.fill(half.applier.version, size, fillerKey); err != nil {
				t.Fatal(err)
			}
		}
		dir = (&opened{DB: half}).crashed(t)
		if err := half.closeFiles(); err != nil {
			t.Fatal(err)
		}
	}
	again := reopen(t, dir, options, o.n, o.want)
	again.check(t)
	if err := again.Close(); err != nil {
		t.Fatal(err)
	}
}

// inTables reports whether a table has a version.
func inTables(d *DB, version uint64) bool {
	return slices.ContainsFunc(d.Badger().Tables(), func(i badger.TableInfo) bool { return i.MaxVersion >= version })
}

// TestAChangesetThatStallsIsPutAtAnotherVersion: some of it may be at rest, with references that
// the next try replaces.
func TestAChangesetThatStallsIsPutAtAnotherVersion(t *testing.T) {
	t.Parallel()
	o := create(t, tiny(t))
	calls, full := 0, false
	enough := o.index.room
	o.applier.gate.Lock()
	o.index.room = func() error {
		if calls++; calls == 2 {
			full = true
			return syscall.EMFILE
		}
		return enough()
	}
	var entries []Entry
	for n := range txnKeys + 10 {
		entries = append(entries, Entry{Key: keyOf('s', n), Value: []byte("value")})
	}
	o.commit(t, entries...)
	o.applier.gate.Unlock()
	for o.Settle() != nil || !full {
		time.Sleep(10 * time.Millisecond)
	}
	txn := o.Badger().NewTransactionAt(math.MaxUint64, false)
	options := badger.DefaultIteratorOptions
	options.AllVersions = true
	it := txn.NewIterator(options)
	var versions []uint64
	first := slices.MinFunc(entries, func(a, b Entry) int { return bytes.Compare(a.Key, b.Key) }).Key
	for it.Seek(first); it.Valid() && bytes.Equal(it.Item().Key(), first); it.Next() {
		versions = append(versions, it.Item().Version())
	}
	it.Close()
	txn.Discard()
	if len(versions) != 2 || versions[0] <= versions[1] {
		t.Errorf("the first key has the versions %v", versions)
	}
	o.check(t)
	if err := o.Close(); err != nil {
		t.Fatal(err)
	}
}

// TestAKeptContentIsThatOfTheNewestWrite writes the parts of a key again and again, while the write
// before is in the live changeset, in the frozen one, at rest or in a checkpoint. A replay begins
// with tables that may be ahead, with contents that are gone.
func TestAKeptContentIsThatOfTheNewestWrite(t *testing.T) {
	t.Parallel()
	large := func(text string) []byte { return bytes.Repeat([]byte(text), 400) }
	key := keyOf('e', 1)
	writes := map[string]Entry{
		"whole":  {Key: key, Value: []byte("value"), Content: large("content")},
		"inline": {Key: key, Value: large("v"), Content: []byte("small")},
		"bare":   {Key: key, Value: []byte("no content")},
		"kept":   {Key: key, Value: []byte("another"), Keep: true},
		"gone":   {Key: key},
	}
	for _, history := range [][]string{
		{"whole", "kept"}, {"whole", "gone", "kept"}, {"kept"}, {"inline", "kept", "kept"}, {"bare", "kept"},
		{"whole", "kept", "gone", "inline"}, {"whole", "kept", "gone", "inline", "kept"}, {"inline", "kept", "whole"},
		{"whole", "kept", "gone", "kept"},
	} {
		for _, place := range []string{"live", "frozen", "at rest", "durable"} { // of the write before
			t.Run(fmt.Sprint(history, place), func(t *testing.T) {
				t.Parallel()
				o := create(t, tiny(t))
				for i, name := range history {
					e := writes[name]
					if e.Value != nil {
						e.Value = append(bytes.Clone(e.Value), byte(i))
					}
					o.applier.gate.Lock()
					if place == "frozen" {
						_, _ = o.overlay.freeze()
					}
					o.commit(t, e)
					o.check1(t, key)
					o.applier.gate.Unlock()
					var err error
					if place == "at rest" || place == "durable" {
						err = o.Settle()
					}
					if place == "durable" && i == 0 {
						err = errors.Join(err, o.Checkpoint())
					}
					o.check1(t, key)
					if err != nil {
						t.Fatal(err)
					}
				}
				// Memory tables become tables that are ahead of the checkpoint.
				for n := 0; n < 1000; n += 100 {
					var entries []Entry
					for i := range 100 {
						entries = append(entries, Entry{Key: keyOf('s', n+i), Value: make([]byte, 200)})
					}
					o.commit(t, entries...)
				}
				var dir string
				o.still(func() { dir = o.crashed(t) })
				again := reopen(t, dir, tiny(t), o.n, o.want)
				again.checkItems(t)
				again.check1(t, key)
				if err := errors.Join(o.Close(), again.Close()); err != nil {
					t.Fatal(err)
				}
			})
		}
	}
}

// check1 compares one key with what was committed, without waiting for the applier.
func (o *opened) check1(t *testing.T, key []byte) {
	t.Helper()
	value, content, err := o.Read(key)
	if want := o.want[string(key)]; err != nil || !same(value, want.Value) || !same(content, want.Content) {
		t.Fatalf("%.20q and %.20q, %v, want %.20q and %.20q", value, content, err, want.Value, want.Content)
	}
}

// unwritable is a segment that cannot be written.
type unwritable struct{ storedir.File }

func (unwritable) WriteAt([]byte, int64) (int, error) { return 0, syscall.EIO }

// TestAStartThatFailsLeavesTheLastCommit crashes when the log has one commit after the checkpoint,
// in the next segment. The start after that fails to write the commit to the log again.
func TestAStartThatFailsLeavesTheLastCommit(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(31, 32))
	o := create(t, tiny(t))
	o.commit(t, Entry{Key: keyOf('e', 1), Value: valueOf(r, 40<<10)})
	if err := o.Checkpoint(); err != nil {
		t.Fatal(err)
	}
	o.commit(t, Entry{Key: keyOf('e', 2), Value: valueOf(r, 40<<10)})
	var dir string
	o.still(func() { dir = o.crashed(t) })
	if err := o.Close(); err != nil {
		t.Fatal(err)
	}
	broken := tiny(t)
	broken.OpenSegment = func(name string, flag int, perm fs.FileMode) (storedir.File, error) {
		f, err := storedir.OpenFile(name, flag, perm)
		return unwritable{f}, err
	}
	if _, err := Open(dir, broken); !errors.Is(err, syscall.EIO) {
		t.Fatalf("the start ended with %v", err)
	}
	again := reopen(t, dir, tiny(t), o.n, o.want)
	again.check(t)
	if err := again.Close(); err != nil {
		t.Fatal(err)
	}
}

// TestALogBehindTheTablesIsRefused damages the last frame, which looks as if a crash had torn it,
// while its commit is at rest.
func TestALogBehindTheTablesIsRefused(t *testing.T) {
	t.Parallel()
	options := tiny(t)
	o := create(t, options)
	for n := range 3 {
		o.commit(t, Entry{Key: keyOf('e', n), Value: make([]byte, 100)})
	}
	dir := o.crashedInTables(t)
	at, err := ReadCheckpoint(dir)
	if err != nil {
		t.Fatal(err)
	}
	var last redolog.Position
	log := (&DB{dir: dir, o: options, spare: &spare{}}).logSettings(at)
	_, _, err = redolog.Replay(log, at.Log, func(f redolog.Frame) error {
		last = f.At
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	flipBit(t, log.Dir+fmt.Sprintf("/%010d.log", last.Segment), last.Offset+40)
	d, err := Open(dir, options)
	if err == nil {
		err = errors.Join(errors.New("it is opened"), d.Close())
	}
	if !IsDamage(err) {
		t.Errorf("without a commit that is at rest: %v", err)
	}
}

// crashedInTables returns what a process leaves that ends when all commits are in tables.
func (o *opened) crashedInTables(t *testing.T) (dir string) {
	t.Helper()
	if err := o.Settle(); err != nil {
		t.Fatal(err)
	}
	for !inTables(o.DB, o.n) {
		if err := o.checkpoint.fill(); err != nil {
			t.Fatal(err)
		}
	}
	o.still(func() { dir = o.crashed(t) })
	if err := o.Close(); err != nil {
		t.Fatal(err)
	}
	return dir
}
