package kv

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"io/fs"
	"log/slog"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/eyelet-dev/eyelet/dedup/badgerstore/internal/redolog"
	"github.com/eyelet-dev/eyelet/internal/faultdisk"
)

func TestMain(m *testing.M) {
	faultdisk.SpendMemory()
	if dir := os.Getenv(blockedDirEnv); dir != "" {
		blocked(dir)
		return
	}
	if dir := os.Getenv(unflushedDirEnv); dir != "" {
		unflushed(dir)
		return
	}
	faultdisk.TempInMemory()
	goleak.VerifyTestMain(m)
}

// tiny returns options with files so small that a test uses many of them.
func tiny(t testing.TB) Options {
	return Options{
		Logger: slog.New(slog.DiscardHandler), Fail: func(reason string, err error) { t.Errorf("%s: %v", reason, err) },
		MemTable: 64 << 10, Segment: 64 << 10, ValueFile: 64 << 10,
		Summary: noSummary{}, Probe: func() error { return nil }, Flush: (*redolog.Log).Flush,
	}
}

// noSummary is the summary of a database without one.
type noSummary struct{}

func (noSummary) Load([]byte)                      {}
func (noSummary) Replay(Entry)                     {}
func (noSummary) Save(uint64) (_ uint64, _ []byte) { return 0, nil }

// opened is an open database and what was committed.
type opened struct {
	*DB
	n    uint64
	want map[string]Entry
}

func create(t testing.TB, o Options) *opened {
	t.Helper()
	dir := t.TempDir()
	if err := Create(dir); err != nil {
		t.Fatal(err)
	}
	return reopen(t, dir, o, 0, map[string]Entry{})
}

func reopen(t testing.TB, dir string, o Options, n uint64, want map[string]Entry) *opened {
	t.Helper()
	d, err := Open(dir, o)
	if err != nil {
		t.Fatal(err)
	}
	return &opened{d, n, want}
}

func (o *opened) commit(t testing.TB, entries ...Entry) {
	t.Helper()
	o.n++
	if err := o.Commit(o.n, entries); err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		o.expect(e)
	}
}

// expect notes what a committed write leaves.
func (o *opened) expect(e Entry) {
	if e.Keep {
		e.Content, e.Keep = o.want[string(e.Key)].Content, false
	}
	if o.want[string(e.Key)] = e; e.Value == nil {
		delete(o.want, string(e.Key))
	}
}

// keyOf returns a key as the store makes them: a family and a hash.
func keyOf(family byte, i int) []byte {
	h := fnv.New128a()
	_, _ = fmt.Fprint(h, i)
	return append(h.Sum([]byte{family}), 1, 2, 3, 4)
}

func valueOf(r *rand.Rand, size int) []byte {
	b := make([]byte, size)
	for i := range b {
		b[i] = byte(r.Uint32())
	}
	return b
}

// load commits changes at random: new, changed and deleted keys, small and large values, with and
// without small and large contents, which are kept or replaced.
func (o *opened) load(t testing.TB, r *rand.Rand, commits int) {
	t.Helper()
	for range commits {
		var entries []Entry
		for range 1 + r.IntN(8) {
			e := Entry{Key: keyOf("esa"[r.IntN(3)], r.IntN(2000))}
			if r.IntN(4) > 0 {
				e.Value = valueOf(r, r.IntN(600))
				if e.Keep = r.IntN(2) == 0; !e.Keep && r.IntN(3) > 0 {
					e.Content = valueOf(r, r.IntN(600))
				}
			}
			entries = append(entries, e)
		}
		o.commit(t, entries...)
	}
}

// check compares everything with what was committed.
func (o *opened) check(t testing.TB) {
	t.Helper()
	o.checkItems(t)
	for i := range 2000 {
		for _, family := range []byte("esa") {
			key := keyOf(family, i)
			value, content, err := o.Read(key)
			want := o.want[string(key)]
			if err != nil || !same(value, want.Value) || !same(content, want.Content) {
				t.Fatalf("key %x: %d and %d bytes, %v, want %d and %d", key, len(value), len(content), err,
					len(want.Value), len(want.Content))
			}
			if value, err := o.Get(key); err != nil || !same(value, want.Value) {
				t.Fatalf("key %x: %d bytes, %v, want %d", key, len(value), err, len(want.Value))
			}
		}
	}
}

// checkItems compares the items of a view with what was committed.
func (o *opened) checkItems(t testing.TB) {
	t.Helper()
	found := 0
	err := o.View(func(v *View) error {
		for item := range v.Items(nil) {
			value, content, err := item.Read()
			want, known := o.want[string(item.Key())]
			if err != nil || !known || !same(value, want.Value) || !same(content, want.Content) {
				t.Fatalf("key %x: %d and %d bytes, %v, want %d and %d", item.Key(), len(value), len(content), err,
					len(want.Value), len(want.Content))
			}
			if value, err := item.Value(); err != nil || !same(value, want.Value) {
				t.Fatalf("key %x: %d bytes, %v, want %d", item.Key(), len(value), err, len(want.Value))
			}
			found++
		}
		return nil
	})
	if err != nil || found != len(o.want) {
		t.Fatalf("%d keys, want %d: %v", found, len(o.want), err)
	}
}

func same(a, b []byte) bool { return bytes.Equal(a, b) && (a == nil) == (b == nil) }

// crashed returns a copy of the files, as the end of the process leaves them: one between two
// changes of Badger's tables and their list.
func (o *opened) crashed(t testing.TB) string {
	t.Helper()
	to := t.TempDir()
	tables := func() (names []string) {
		entries, err := os.ReadDir(o.indexDir())
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range entries {
			if info, err := e.Info(); err == nil {
				names = append(names, fmt.Sprint(e.Name(), info.Size()))
			}
		}
		return names
	}
	for range 100 {
		if err := os.RemoveAll(to); err != nil {
			t.Fatal(err)
		}
		before := tables()
		err := os.CopyFS(to, os.DirFS(o.dir))
		if err == nil && slices.Equal(tables(), before) {
			return to
		} else if err != nil && !errors.Is(err, os.ErrNotExist) {
			t.Fatal(err)
		}
	}
	t.Fatal("no copy succeeded")
	return ""
}

// still keeps the applier and the checkpoints from changing files during f.
func (o *opened) still(f func()) {
	o.checkpoint.mu.Lock()
	defer o.checkpoint.mu.Unlock()
	o.applier.gate.Lock()
	defer o.applier.gate.Unlock()
	f()
}

// TestAfterACrashTheLogGetsNewFiles: of another process, only files that it closed are written.
func TestAfterACrashTheLogGetsNewFiles(t *testing.T) {
	t.Parallel()
	o := create(t, tiny(t))
	o.load(t, rand.New(rand.NewPCG(1, 7)), 20)
	crashed := o.crashed(t)
	if err := o.Close(); err != nil {
		t.Fatal(err)
	}
	for dir, clean := range map[string]bool{o.dir: true, crashed: false} {
		before := map[string]os.FileInfo{}
		files, _ := filepath.Glob(filepath.Join(dir, logDir, "*"))
		for _, name := range files {
			f, err := os.Open(name)
			if err != nil {
				t.Fatal(err)
			}
			defer f.Close() //nolint:errcheck // it keeps the inode
			before[name], _ = f.Stat()
		}
		d, err := Open(dir, tiny(t))
		if err != nil {
			t.Fatal(err)
		}
		again := 0
		files, _ = filepath.Glob(filepath.Join(dir, logDir, "*"))
		for _, name := range files {
			now, err := os.Stat(name)
			for _, old := range before {
				if err == nil && os.SameFile(old, now) {
					again++
				}
			}
		}
		if err := d.Close(); err != nil {
			t.Fatal(err)
		}
		// The last segment of the process before is kept until a checkpoint has passed it.
		if clean && again != len(before) || !clean && again > 1 || len(before) < 3 {
			t.Errorf("clean: %t, and %d of %d files are used again", clean, again, len(before))
		}
	}
}

func TestWhatIsCommittedIsThereAfterAnyEnd(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(1, 2))
	o := create(t, tiny(t))
	lives := faultdisk.Count(9, 30)
	for life := range lives {
		o.load(t, r, 1+r.IntN(300))
		if life%5 == 0 {
			o.check(t)
		}
		dir := o.dir
		if life%3 > 0 {
			o.still(func() { dir = o.crashed(t) })
		}
		if err := o.Close(); err != nil {
			t.Fatal(err)
		}
		o = reopen(t, dir, tiny(t), o.n, o.want)
		o.check(t)
	}
	at, err := ReadCheckpoint(o.dir)
	if err != nil || at.Log.Segment < uint64(3*lives) {
		t.Errorf("checkpoint in segment %d, %v: nothing was used again", at.Log.Segment, err)
	}
	if err := o.Close(); err != nil {
		t.Fatal(err)
	}
}

// TestSegmentsGoRoundWhileAReaderStays commits much more than the log holds, while a view is read.
// The view keeps memory tables, but a checkpoint does not wait for it.
func TestSegmentsGoRoundWhileAReaderStays(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(3, 4))
	o := create(t, tiny(t))
	o.load(t, r, 100)
	before := len(o.want)
	err := o.View(func(v *View) error {
		n := 0
		for range v.Items(nil) {
			if n++; n == 10 {
				o.load(t, r, 3000)
			}
		}
		if n != before {
			t.Errorf("%d keys in the view, want %d", n, before)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	o.check(t)
	if at, err := ReadCheckpoint(o.dir); err != nil || at.Log.Segment < 20 {
		t.Errorf("checkpoint in segment %d, %v", at.Log.Segment, err)
	}
	if err := o.Close(); err != nil {
		t.Fatal(err)
	}
}

// TestAViewIsOneCommit changes two keys in every commit: a view never sees half of one.
func TestAViewIsOneCommit(t *testing.T) {
	t.Parallel()
	o := create(t, tiny(t))
	a, b := keyOf('e', 1), keyOf('s', 2)
	var last atomic.Uint64
	stop := make(chan struct{})
	var readers sync.WaitGroup
	for range 2 {
		readers.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				least := last.Load()
				err := o.View(func(v *View) error {
					x, err1 := v.Get(a)
					y, err2 := v.Get(b)
					if err := errors.Join(err1, err2); err != nil {
						return err
					}
					if !bytes.Equal(x, y) {
						t.Errorf("%d and %d bytes", len(x), len(y))
					}
					if least > 0 && binary.LittleEndian.Uint64(x) < least {
						t.Errorf("commit %d, after commit %d was answered", binary.LittleEndian.Uint64(x), least)
					}
					return nil
				})
				if err != nil {
					t.Error(err)
				}
			}
		})
	}
	for n := range uint64(1000) {
		value := binary.LittleEndian.AppendUint64(nil, n+1)
		value = append(value, make([]byte, n%2*400)...) // in Badger, or in a value file
		o.commit(t, Entry{Key: a, Value: value}, Entry{Key: b, Value: value})
		last.Store(n + 1)
	}
	close(stop)
	readers.Wait()
	if err := o.Close(); err != nil {
		t.Fatal(err)
	}
}

// TestAViewReadsWhatWasCommittedBefore changes and deletes keys while a view is open, and compacts
// the tables: it reads the values of its commit.
func TestAViewReadsWhatWasCommittedBefore(t *testing.T) {
	t.Parallel()
	o := create(t, tiny(t))
	for i := range 500 {
		o.commit(t, Entry{Key: keyOf('e', i), Value: []byte("before")})
	}
	err := o.View(func(v *View) error {
		for i := range 500 {
			e := Entry{Key: keyOf('e', i), Value: []byte("after")}
			if i%2 == 0 {
				e.Value = nil
			}
			o.commit(t, e)
		}
		if _, err := o.Compact(t.Context(), true); err != nil {
			return err
		}
		for i := range 500 {
			if value, err := v.Get(keyOf('e', i)); err != nil || string(value) != "before" {
				t.Fatalf("key %d: %q, %v", i, value, err)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	o.check(t)
	if err := o.Close(); err != nil {
		t.Fatal(err)
	}
}

// TestReplayedTwiceIsTheSame ends starts at random points of a replay.
func TestReplayedTwiceIsTheSame(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(5, 6))
	o := create(t, tiny(t))
	o.load(t, r, 400)
	var dir string
	o.still(func() { dir = o.crashed(t) })
	for range 5 {
		at, err := ReadCheckpoint(dir)
		if err != nil {
			t.Fatal(err)
		}
		half, err := openAtRest(dir, tiny(t), at)
		if err != nil {
			t.Fatal(err)
		}
		stopAfter := r.IntN(400)
		errStop := errors.New("the process ends")
		if _, _, err := redolog.Replay(half.logSettings(at), at.Log, func(f redolog.Frame) error {
			half.overlay.add(f.Group, f.Entries, f.End)
			if r.IntN(4) == 0 {
				half.applier.apply()
			}
			if stopAfter--; stopAfter <= 0 {
				half.applier.apply()
				return errStop
			}
			return nil
		}); err != nil && !errors.Is(err, errStop) {
			t.Fatal(err)
		}
		dir = (&opened{DB: half}).crashed(t)
		if err := half.closeFiles(); err != nil {
			t.Fatal(err)
		}
	}
	again := reopen(t, dir, tiny(t), o.n, o.want)
	again.check(t)
	if err := errors.Join(o.Close(), again.Close()); err != nil {
		t.Fatal(err)
	}
}

// TestAFailedFlushIsTheEnd fails one flush: nothing is answered any more, the end of the process
// loses nothing that was, and the commit that failed may or may not exist.
func TestAFailedFlushIsTheEnd(t *testing.T) {
	t.Parallel()
	options := tiny(t)
	broken := false
	options.Flush = func(l *redolog.Log) error {
		if broken {
			return syscall.EIO
		}
		return l.Flush()
	}
	o := create(t, options)
	o.load(t, rand.New(rand.NewPCG(7, 8)), 50)
	broken = true
	key := keyOf('e', 5000)
	if err := o.Commit(o.n+1, []Entry{{Key: key, Value: []byte("lost?")}}); !errors.Is(err, syscall.EIO) {
		t.Fatal(err)
	}
	if value, err := o.Get(key); value != nil || err != nil {
		t.Errorf("what failed is read: %q, %v", value, err)
	}
	var dir string
	o.still(func() { dir = o.crashed(t) })
	_ = o.Close()
	again := reopen(t, dir, tiny(t), o.n+1, o.want)
	if value, err := again.Get(key); err != nil {
		t.Error(err)
	} else if value != nil {
		again.want[string(key)] = Entry{Key: key, Value: value}
	}
	again.check(t)
	if err := again.Close(); err != nil {
		t.Fatal(err)
	}
}

// TestDamageIsRefused flips a bit in every kind of file of a crashed database. Refused files are
// unchanged.
func TestDamageIsRefused(t *testing.T) {
	t.Parallel()
	options, summary := tiny(t), &lastSummary{}
	options.Summary, options.Segments = summary, 64 // no other checkpoint is due
	o := create(t, options)
	r := rand.New(rand.NewPCG(9, 10))
	o.load(t, r, 300)
	if err := o.Checkpoint(); err != nil {
		t.Fatal(err)
	}
	o.load(t, r, 40)
	err := errors.Join(o.Mark(), o.Settle()) // memory tables and value files are beyond the checkpoint
	if err != nil {
		t.Fatal(err)
	}
	var crashed string
	o.still(func() { crashed = o.crashed(t) })
	if err := o.Close(); err != nil {
		t.Fatal(err)
	}
	at, err := ReadCheckpoint(crashed)
	if err != nil {
		t.Fatal(err)
	}
	tables, err := filepath.Glob(filepath.Join(crashed, IndexDir, "*.sst"))
	if err != nil || len(tables) == 0 {
		t.Fatal(tables, err)
	}
	table, size := "", int64(0) // with values, not with filler only
	for _, name := range tables {
		if info, err := os.Stat(name); err == nil && info.Size() > size {
			table, size = name, info.Size()
		}
	}
	frame, log := redolog.Position{}, (&DB{dir: crashed, o: options, spare: &spare{}}).logSettings(at)
	_, _, err = redolog.Replay(log, at.Log, func(f redolog.Frame) error {
		frame = cmp.Or(frame, f.At) // perhaps in the next segment
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	segment := filepath.Join(crashed, logDir, fmt.Sprintf("%010d.log", frame.Segment))
	refused := func(dir, path string, at int64) bool {
		flipBit(t, path, at)
		before := contents(t, dir)
		if d, err := Open(dir, tiny(t)); err == nil {
			return d.Close() != nil
		}
		if after := contents(t, dir); !maps.Equal(after, before) {
			for name := range before {
				if after[name] != before[name] {
					t.Errorf("file %s has changed: byte %d of %s is damaged", name, at, path)
				}
			}
		}
		return true
	}
	passed := 0
	for i := range int64(10) {
		dir := t.TempDir()
		if err := os.CopyFS(dir, os.DirFS(crashed)); err != nil {
			t.Fatal(err)
		}
		at := size * i / 20 // filler is at the end
		if refused(dir, filepath.Join(dir, IndexDir, filepath.Base(table)), at) {
			continue
		}
		passed++ // the bit may name another match of the same bytes to Zstandard
		again := reopen(t, dir, tiny(t), o.n, o.want)
		again.check(t)
		if err := again.Close(); err != nil {
			t.Fatal(err)
		}
	}
	manifest := filepath.Join(crashed, IndexDir, "MANIFEST")
	listed := refused(crashed, manifest, at.Manifest.Length/2)
	flipBit(t, manifest, at.Manifest.Length/2)
	if !listed || !refused(crashed, segment, frame.Offset+40) || passed > 5 {
		t.Fatalf("opened with a damaged MANIFEST, log or %d tables", passed)
	}
	// With the loss of a commit accepted, the rest is there. A lost commit may be at rest, and the
	// summary does not know that.
	options.AcceptLoss = true
	d, err := Open(crashed, options)
	if err != nil {
		t.Fatal(err)
	}
	if summary.content != nil {
		t.Error("the summary is trusted")
	}
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
}

// lastSummary is a summary that notes what Open has restored.
type lastSummary struct {
	noSummary
	content []byte
}

func (s *lastSummary) Load(content []byte)             { s.content = content }
func (s *lastSummary) Save(at uint64) (uint64, []byte) { return at, []byte("all") }

// contents returns the content of the files in a directory by their paths.
func contents(t *testing.T, dir string) map[string]string {
	t.Helper()
	files, found := os.DirFS(dir), map[string]string{}
	err := fs.WalkDir(files, ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		text, err := fs.ReadFile(files, name)
		found[name] = string(text)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}

func flipBit(t *testing.T, path string, at int64) {
	t.Helper()
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	var b [1]byte
	if _, err := f.ReadAt(b[:], at); err != nil && !errors.Is(err, io.EOF) {
		t.Fatal(err)
	}
	b[0] ^= 4
	if _, err := f.WriteAt(b[:], at); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
}

// TestACommitIsInBothFilters adds keys while a filter is replaced.
func TestACommitIsInBothFilters(t *testing.T) {
	t.Parallel()
	k := keyFilter{full: make(chan struct{}, 1)}
	current, next := newFilter(4), newFilter(100)
	k.current.Store(current)
	k.next.Store(next)
	for i := range 10 {
		key := keyOf('e', i)
		k.add([]Entry{{Key: key, Value: []byte{1}}})
		if current.lacks(key) || next.lacks(key) {
			t.Errorf("key %d is not in both", i)
		}
	}
	if len(k.full) == 0 {
		t.Error("the filter is not full")
	}
}

// TestTheFilterKnowsEveryKey fills filters while keys are committed, and outgrows them.
func TestTheFilterKnowsEveryKey(t *testing.T) {
	t.Parallel()
	const keys = 48 << 10
	options := tiny(t)
	options.filterKeys = keys / 3
	o := create(t, options)
	for i := 0; i < keys; i += 512 {
		var entries []Entry
		for j := range 512 {
			entries = append(entries, Entry{Key: keyOf('a', i+j), Value: []byte{1}})
		}
		o.n++
		if err := o.Commit(o.n, entries); err != nil {
			t.Fatal(err)
		}
		for _, e := range entries {
			if o.filter.lacks(e.Key) {
				t.Fatalf("the filter lacks key %x, which was committed", e.Key)
			}
		}
	}
	for grown := false; !grown; time.Sleep(time.Millisecond) {
		f := o.filter.current.Load()
		grown = f != nil && f.capacity > keys/3 && o.filter.next.Load() == nil
	}
	wrong := 0
	for i := range keys {
		if o.filter.lacks(keyOf('a', i)) {
			t.Fatalf("the filter lacks key %d", i)
		}
		if i < 10_000 && !o.filter.lacks(keyOf('a', keys+1000+i)) {
			wrong++
		}
	}
	if wrong > 300 {
		t.Errorf("the filter takes %d of 10,000 keys for others", wrong)
	}
	if err := o.Close(); err != nil {
		t.Fatal(err)
	}
}

// TestAMarkIsNoCommit closes a database whose log ends with a mark: the next start applies nothing.
// After a crash the first start applies what there is, and the second one nothing.
func TestAMarkIsNoCommit(t *testing.T) {
	t.Parallel()
	for _, crash := range []bool{false, true} {
		var lines bytes.Buffer
		o := create(t, tiny(t))
		o.commit(t, Entry{Key: keyOf('e', 1), Value: []byte("value")})
		if err := o.Mark(); err != nil {
			t.Fatal(err)
		}
		dir := o.dir
		if crash {
			o.still(func() { dir = o.crashed(t) })
		}
		if err := o.Close(); err != nil {
			t.Fatal(err)
		}
		for start := range 3 {
			options := tiny(t)
			options.Logger = slog.New(slog.NewTextHandler(&lines, nil))
			again := reopen(t, dir, options, o.n, o.want)
			again.check(t)
			if err := again.Close(); err != nil {
				t.Fatal(err)
			}
			if applied := bytes.Contains(lines.Bytes(), []byte("were applied")); applied != (crash && start == 0) {
				t.Errorf("crash %v, start %d: %s", crash, start, lines.Bytes())
			}
			lines.Reset()
		}
	}
}

func TestWritesAreNotLogged(t *testing.T) {
	t.Parallel()
	var lines bytes.Buffer
	options := tiny(t)
	options.Logger = slog.New(slog.NewTextHandler(&lines, &slog.HandlerOptions{Level: slog.LevelDebug}))
	o := create(t, options)
	o.load(t, rand.New(rand.NewPCG(1, 1)), 100)
	if err := o.Close(); err != nil {
		t.Fatal(err)
	}
	if !bytes.Contains(lines.Bytes(), []byte("badger")) {
		t.Error("nothing of Badger is logged at debug level")
	}
	if bytes.Contains(lines.Bytes(), []byte("entries written")) {
		t.Errorf("writes are logged:\n%s", lines.Bytes())
	}
}
