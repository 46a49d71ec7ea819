package badgerstore

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/eyelet-dev/eyelet/dedup"
	"github.com/eyelet-dev/eyelet/dedup/badgerstore/internal/kv"
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
	work, err := s.Take(context.Background(), dedup.Want{Tasks: n, Bytes: 1 << 30, Lease: time.Minute})
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
	o.memTable = memTable
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

// write writes to the database whatever the store thinks of it.
func (c *core) write(writes ...mutation) error {
	return c.submit(&writeOp{newTicket(true), writes})
}

type writeOp struct {
	ticket
	writes []mutation
}

func (o *writeOp) apply(b *batch) error {
	b.bodies = append(b.bodies, o.writes...)
	return nil
}

// valueOf returns the stored value of a key, nil if there is none.
func valueOf(t *testing.T, s *Store, key []byte) (value []byte) {
	t.Helper()
	err := s.db.View(func(in *kv.View) (err error) {
		value, err = readValue(in, key)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return value
}

// bothOf returns the stored value and content of a key.
func bothOf(t *testing.T, s *Store, key []byte) (value, content []byte) {
	t.Helper()
	err := s.db.View(func(in *kv.View) (err error) {
		value, content, err = in.Read(key)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return value, content
}

// bothEnds calls test with the files of a grown store, after a crash and after a clean close,
// and the content of the store.
func bothEnds(t *testing.T, events int, test func(t *testing.T, files, want map[string]string)) {
	t.Helper()
	for _, end := range []string{"crashed", "closed"} {
		t.Run(end, func(t *testing.T) {
			t.Parallel()
			once, _ := endedStores.LoadOrStore(fmt.Sprint(events, end), &endedStore{})
			e := once.(*endedStore)
			e.made.Do(func() {
				s := grown(t, events)
				e.want = belief(t, s)
				e.files = contents(t, left(t, s, end == "crashed"))
			})
			test(t, maps.Clone(e.files), e.want)
		})
	}
}

// endedStores are the stores of bothEnds, by their size and end: several tests use the same.
var endedStores sync.Map

type endedStore struct {
	made        sync.Once
	files, want map[string]string
}

// copyDir writes files into a new directory.
func copyDir(t *testing.T, from map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range from {
		if err := os.MkdirAll(filepath.Join(dir, filepath.Dir(name)), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// copyStore copies an open store as a crash would leave it: between two changes of its files, not
// during one, of which the copy would have a part.
func copyStore(t *testing.T, dir string) string {
	t.Helper()
	for {
		before := stamps(t, dir)
		copied := contents(t, dir)
		if maps.Equal(stamps(t, dir), before) {
			return copyDir(t, copied)
		}
	}
}

// stamps returns the size and the last change of every file of a directory and below.
func stamps(t *testing.T, dir string) map[string]string {
	t.Helper()
	out := map[string]string{}
	err := filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) || err == nil && e.IsDir() {
			return nil
		} else if err != nil {
			return err
		}
		info, err := e.Info()
		if err == nil {
			out[path] = fmt.Sprint(info.Size(), info.ModTime())
		} else if errors.Is(err, fs.ErrNotExist) {
			err = nil
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// contents returns every file of a directory and below by its path there, except the lock and the
// prepared segments, which are zeros.
func contents(t *testing.T, dir string) map[string]string {
	t.Helper()
	out := map[string]string{}
	err := filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) || err == nil && !e.Type().IsRegular() {
			return nil
		} else if err != nil {
			return err
		}
		name, err := filepath.Rel(dir, path)
		if err != nil || name == "LOCK" {
			return err
		}
		text, err := os.ReadFile(path)
		if prepared := filepath.Ext(name) == ".log" && len(bytes.Trim(text, "\x00")) == 0; err == nil && !prepared {
			out[name] = string(text)
		} else if errors.Is(err, fs.ErrNotExist) {
			err = nil // Badger has just deleted it
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// files returns the sizes of the files of a directory and below.
func files(t *testing.T, dir string) map[string]int64 {
	t.Helper()
	out := map[string]int64{}
	for name, text := range contents(t, dir) {
		out[name] = int64(len(text))
	}
	return out
}

// logs returns the files of a store with a suffix, by name.
func logs(t *testing.T, dir, ending string) (found []string) {
	t.Helper()
	for name := range files(t, dir) {
		if strings.HasSuffix(name, ending) {
			found = append(found, filepath.Join(dir, name))
		}
	}
	if slices.Sort(found); len(found) == 0 {
		t.Fatalf("no %s files in %s", ending, dir)
	}
	return found
}

// cramped returns options with which every life of a busy store uses several segments, tables and
// value files, and uses segments again.
func cramped() Options {
	o := quiet()
	o.segment, o.valueFile, o.memTable = 1<<20, 1<<20, 256<<10
	return o
}

// recycled checks that a store of many lives has used its segments again.
func recycled(t *testing.T, dir string, lives int) {
	t.Helper()
	at, err := kv.ReadCheckpoint(dir)
	if err != nil || at.Log.Segment < uint64(lives) || at.NextValue < uint64(lives)/2 {
		t.Errorf("after %d lives the last checkpoint is in segment %d, and the next value file is %d: %v", lives,
			at.Log.Segment, at.NextValue, err)
	}
	t.Logf("%d lives: checkpoint in segment %d, next value file %d", lives, at.Log.Segment, at.NextValue)
}

// small returns options with which a few thousand events fill several tables and value log files.
func small() Options {
	o := quiet()
	o.memTable, o.valueFile = 128<<10, 1<<20
	return o
}

// belief returns what a store reports about its events: the state and attempts of each, by key.
func belief(t *testing.T, s *Store) map[string]string {
	t.Helper()
	out := map[string]string{}
	for r, err := range s.List(t.Context(), dedup.Filter{}) {
		if err != nil {
			t.Fatal(err)
		}
		out[r.Key.ID] = fmt.Sprint(r.Event, r.State(), r.Tasks[0].Attempt)
	}
	return out
}

// grown returns a store of many tables with finished, dead, purged and quarantined events, and
// aliases.
func grown(t *testing.T, events int) *Store {
	t.Helper()
	s := open(t, t.TempDir(), small())
	ctx := t.Context()
	for from := 0; from < events; from += 25 {
		var claims []dedup.Claim
		for i := from; i < from+25; i++ {
			c := largeClaim(fmt.Sprint(i), 300+i%100)
			if i%3 == 0 {
				c.Aliases = []dedup.Key{{Principal: "p", Space: dedup.SpaceNonce, ID: fmt.Sprint(i)}}
			}
			claims = append(claims, c)
		}
		ds, err := s.Claim(ctx, claims...)
		if err != nil {
			t.Fatal(err)
		}
		finishNext(t, s, 10, dedup.Result{Kind: dedup.ResultDone})
		finishNext(t, s, 2, dedup.Result{Kind: dedup.ResultDead})
		if err := s.Purge(ctx, ds[0].Record.Event); err != nil && !errors.Is(err, dedup.ErrOpen) {
			t.Fatal(err)
		}
	}
	return s
}
