package kv

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/eyelet-dev/eyelet/internal/faultdisk"
)

// strict is a database on a strict file system, and what it has answered.
type strict struct {
	*faultdisk.Strict
	*opened
	options Options
	reason  atomic.Pointer[string] // of a failure, reported by any goroutine
	commits map[uint64][]Entry
	answers []answer
}

// answer is a commit that was answered, or read, after so many flushes.
type answer struct {
	flushes int
	commit  uint64
}

func newStrict(t *testing.T, segments int) *strict {
	t.Helper()
	s := &strict{Strict: faultdisk.NewStrict(t), commits: map[uint64][]Entry{}}
	s.options = tiny(t)
	s.options.Segments = segments
	s.options.Fail = func(reason string, err error) { s.reason.Store(&reason) }
	if err := Create(s.Dir); err != nil {
		t.Fatal(err)
	}
	s.opened = reopen(t, s.Dir, s.options, 0, nil)
	return s
}

// reported returns why the database has failed, empty if it has not.
func (s *strict) reported() string {
	if reason := s.reason.Load(); reason != nil {
		return *reason
	}
	return ""
}

// answer notes that commit n must survive every crash from now on.
func (s *strict) answer(t *testing.T, n uint64) {
	t.Helper()
	flushes, err := s.Flushes()
	if err != nil {
		t.Fatal(err)
	}
	s.answers = append(s.answers, answer{flushes, n})
}

func (s *strict) put(r *rand.Rand) error {
	var entries []Entry
	for range 1 + r.IntN(8) {
		e := Entry{Key: keyOf("es"[r.IntN(2)], r.IntN(300))}
		if r.IntN(4) > 0 {
			e.Value = valueOf(r, r.IntN(600))
			if e.Keep = r.IntN(2) == 0; !e.Keep {
				e.Content = valueOf(r, r.IntN(600))
			}
		}
		entries = append(entries, e)
	}
	s.commits[s.n+1] = entries
	return s.Commit(s.n+1, entries)
}

// load makes commits and some checkpoints.
func (s *strict) load(t *testing.T, r *rand.Rand, commits int) {
	t.Helper()
	for i := range commits {
		if err := s.put(r); err != nil {
			t.Fatal(err)
		}
		s.n++
		s.answer(t, s.n)
		if i == 20 {
			if err := s.Checkpoint(); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// start opens the database again, over what the file system shows.
func (s *strict) start(t *testing.T) {
	t.Helper()
	s.reason.Store(nil)
	s.opened = reopen(t, s.Dir, s.options, 0, nil)
	if err := s.Settle(); err != nil {
		t.Fatal(err)
	}
	s.n = s.Newest()
	s.answer(t, s.n)
}

// crashes opens what a crash would have left after each flush from one on. The flushes of segments
// are many, and alike: one of twenty counts.
func (s *strict) crashes(t *testing.T, from int) {
	t.Helper()
	of, err := s.Flushed()
	if err != nil {
		t.Fatal(err)
	}
	for n := from; n <= len(of) && !t.Failed(); n++ {
		segment := strings.HasSuffix(of[n-1], ".log")
		if segment && n%20 > 0 {
			continue
		}
		least := uint64(0)
		for _, a := range s.answers {
			if a.flushes <= n {
				least = a.commit
			}
		}
		s.crash(t, n, least)
		if t.Failed() {
			t.Logf("after flush %d of %d: %s", n, len(of), strings.Join(of[max(0, n-12):n], ", "))
		}
	}
}

// crash opens what a crash after n flushes leaves. It has whole commits, and at least those up to
// one.
func (s *strict) crash(t *testing.T, n int, least uint64) {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "image")
	if err := s.Image(n, dir); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = os.RemoveAll(dir) }()
	d, err := Open(dir, tiny(t))
	if err != nil {
		t.Errorf("commit %d was answered: %v", least, err)
		return
	}
	defer func() {
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	}()
	if err := d.Settle(); err != nil {
		t.Error(err)
	}
	if d.Newest() < least {
		t.Errorf("commit %d was answered, and %d is the newest", least, d.Newest())
	}
	o := &opened{DB: d, want: map[string]Entry{}}
	for c := uint64(1); c <= d.Newest(); c++ {
		for _, e := range s.commits[c] {
			o.expect(e)
		}
	}
	found := 0
	err = d.View(func(v *View) error {
		for item := range v.Items(nil) {
			value, content, err := item.Read()
			want := o.want[string(item.Key())]
			if err != nil || !same(value, want.Value) || !same(content, want.Content) {
				t.Errorf("key %x: %d and %d bytes, want %d and %d: %v", item.Key(), len(value), len(content),
					len(want.Value), len(want.Content), err)
			}
			found++
		}
		return nil
	})
	if err != nil || found != len(o.want) {
		t.Errorf("commit %d has %d keys, want %d: %v", d.Newest(), found, len(o.want), err)
	}
}

// recovers starts a closed database, which then survives every crash.
func (s *strict) recovers(t *testing.T, r *rand.Rand) {
	t.Helper()
	from, err := s.Flushes()
	if err != nil {
		t.Fatal(err)
	}
	s.start(t)
	s.load(t, r, 10)
	if err := s.Close(); err != nil || s.reported() != "" {
		t.Fatal(err, s.reported())
	}
	s.crashes(t, from)
}

// TestACrashAfterAnyFlushLosesNothing keeps of a database only what each flush has made durable. So
// it fails without the flush of a file or a directory, and in another order.
func TestACrashAfterAnyFlushLosesNothing(t *testing.T) {
	t.Parallel()
	s, r := newStrict(t, 4), rand.New(rand.NewPCG(31, 32))
	from, err := s.Flushes()
	if err != nil {
		t.Fatal(err)
	}
	s.load(t, r, 60)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	s.start(t)
	s.load(t, r, 30)
	if err := s.Close(); err != nil || s.reported() != "" {
		t.Fatal(err, s.reported())
	}
	s.crashes(t, from)
}

// TestAFailedFlushOfAnyFileLosesNothing fails the flush of a file of each kind. The commit or the
// checkpoint fails, and with it the database. What a start finds after that, over the same page
// cache, is answered: it survives every crash.
func TestAFailedFlushOfAnyFileLosesNothing(t *testing.T) {
	t.Parallel()
	for _, file := range []string{".log", ".values", ".sst", IndexDir + "/MANIFEST"} {
		t.Run(file, func(t *testing.T) {
			t.Parallel()
			s, r := newStrict(t, 16), rand.New(rand.NewPCG(33, 34)) // no checkpoint is needed
			s.load(t, r, 40)
			if err := s.Settle(); err != nil {
				t.Fatal(err)
			}
			before, err := os.ReadFile(filepath.Join(s.Dir, "checkpoint"))
			if err := errors.Join(err, s.FailFlush(file)); err != nil {
				t.Fatal(err)
			}
			if file == ".log" {
				if err := s.put(r); !errors.Is(err, syscall.EIO) {
					t.Error(err)
				}
			} else if err := s.Checkpoint(); err == nil || s.reported() == "" {
				t.Errorf("a checkpoint passes: %v, %v", err, s.reported())
			}
			_ = s.Close()
			if after, err := os.ReadFile(filepath.Join(s.Dir, "checkpoint")); err != nil ||
				file != ".log" && !bytes.Equal(after, before) {
				t.Errorf("the checkpoint has changed, %v", err)
			}
			s.recovers(t, r)
		})
	}
}

// TestACompactionThatIsNotFlushedLosesNothing fails the flush of MANIFEST in a compaction. Badger
// deletes its tables, but the record of them is in the file.
func TestACompactionThatIsNotFlushedLosesNothing(t *testing.T) {
	t.Parallel()
	s, r := newStrict(t, 16), rand.New(rand.NewPCG(37, 38))
	for round := range 4 { // a level below, and a table above it
		s.load(t, r, 25)
		if err := s.Checkpoint(); err != nil {
			t.Fatal(err)
		}
		if round == 2 {
			if _, err := s.Compact(t.Context(), true); err != nil {
				t.Fatal(err)
			}
		}
	}
	ended := s.tables.ended
	if err := s.FailFlush(IndexDir + "/MANIFEST"); err != nil {
		t.Fatal(err)
	}
	if err := s.Badger().Flatten(1); err == nil || s.reported() == "" || s.tables.ended > ended {
		t.Fatalf("a compaction ends: %v, %s", err, s.reported())
	}
	_ = s.Close()
	s.recovers(t, r)
}

// TestACrashDuringAStartLosesNothing ends the process with several segments to replay, and cuts the
// power after each flush of the next start.
func TestACrashDuringAStartLosesNothing(t *testing.T) {
	t.Parallel()
	s, r := newStrict(t, 4), rand.New(rand.NewPCG(35, 36))
	s.load(t, r, 110)
	s.fail("the process ends", errors.New("without a checkpoint"))
	_ = s.Close()
	from, err := s.Flushes()
	if err != nil {
		t.Fatal(err)
	}
	s.start(t)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	s.crashes(t, from)
}
