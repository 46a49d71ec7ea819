package badgerstore

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/dgraph-io/badger/v4"

	"github.com/eyelet-dev/eyelet/dedup"
	"github.com/eyelet-dev/eyelet/dedup/badgerstore/internal/record"
	"github.com/eyelet-dev/eyelet/dedup/badgerstore/internal/storedir"
)

// small returns options with which a few thousand events fill several tables and value log files.
func small() Options {
	o := quiet()
	o.memTable, o.logFile, o.CheckEvery = 128<<10, 1<<20, -1
	return o
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

// opensWholeOrNot opens a store that may be damaged. Either it is refused and its files are
// unchanged, or it knows every event as before. It returns the error.
func opensWholeOrNot(t *testing.T, what, dir string, want map[string]string, o Options) error {
	t.Helper()
	before := contents(t, dir)
	s, err := Open(dir, o)
	if err != nil {
		sameContents(t, what, before, contents(t, dir))
		return err
	}
	defer shut(t, s)
	got := belief(t, s)
	lost, changed := 0, 0
	for key, state := range want {
		switch now, there := got[key]; {
		case !there:
			lost++
		case now != state:
			changed++
		}
	}
	if lost > 0 || changed > 0 || len(got) > len(want) {
		t.Errorf("%s: opened with %d of %d events lost, %d changed, %d there", what, lost, len(want), changed, len(got))
	}
	return nil
}

// copyDir writes a directory of files into a new one.
func copyDir(t *testing.T, from map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range from {
		write(t, dir, name, text)
	}
	return dir
}

const recordHead = 8 // length and checksum of a record of MANIFEST

// records returns where the records of a MANIFEST start, and its end.
func records(t *testing.T, text string) (at []int) {
	t.Helper()
	for n := 8; n < len(text); n += recordHead + int(binary.BigEndian.Uint32([]byte(text[n:]))) {
		at = append(at, n)
	}
	if at = append(at, len(text)); len(at) < 5 {
		t.Fatalf("%d records", len(at)-1)
	}
	return at
}

// bothEnds calls test with the files of a grown store, after a crash and after a clean close,
// and the content of the store.
func bothEnds(t *testing.T, events int, test func(t *testing.T, files, want map[string]string)) {
	t.Helper()
	for _, end := range []string{"crashed", "closed"} {
		t.Run(end, func(t *testing.T) {
			t.Parallel()
			s := grown(t, events)
			want := belief(t, s)
			dir := left(t, s, end == "crashed")
			test(t, contents(t, dir), want)
		})
	}
}

func TestAFlippedBitInManifestLosesNothing(t *testing.T) {
	t.Parallel()
	bothEnds(t, 1500, func(t *testing.T, files, want map[string]string) {
		whole := files[badger.ManifestFilename]
		at := records(t, whole)
		refused := 0
		for _, record := range at[max(0, len(at)-6) : len(at)-1] {
			for _, bit := range []int{0, 2, 5, 7} { // of the last byte of the length
				text := []byte(whole)
				text[record+3] ^= 1 << bit
				files[badger.ManifestFilename] = string(text)
				if opensWholeOrNot(t, fmt.Sprintf("bit %d of the record at %d", bit, record), copyDir(t, files),
					want, small()) != nil {
					refused++
				}
			}
		}
		if refused < 10 {
			t.Errorf("only %d are refused: the test tests little", refused)
		}
	})
}

func TestAManifestThatIsCutOffLosesNothing(t *testing.T) {
	t.Parallel()
	bothEnds(t, 1500, func(t *testing.T, files, want map[string]string) {
		whole := files[badger.ManifestFilename]
		refused := 0
		for i, end := range records(t, whole) {
			for _, cut := range []int{end, end - 3} {
				if cut < 0 || cut == len(whole) || i%2 == 1 && cut != end {
					continue
				}
				files[badger.ManifestFilename] = whole[:cut]
				if opensWholeOrNot(t, fmt.Sprintf("cut at %d of %d", cut, len(whole)), copyDir(t, files), want,
					small()) != nil {
					refused++
				}
			}
		}
		delete(files, badger.ManifestFilename)
		if opensWholeOrNot(t, "without", copyDir(t, files), want, small()) == nil {
			t.Error("a store without MANIFEST is opened")
		}
		if refused == 0 {
			t.Error("none is refused: the test tests nothing")
		}
	})
}

func TestAMissingTableIsRefused(t *testing.T) {
	t.Parallel()
	bothEnds(t, 800, func(t *testing.T, files, want map[string]string) {
		for name, text := range files {
			if filepath.Ext(name) == ".sst" {
				delete(files, name)
				if opensWholeOrNot(t, "without "+name, copyDir(t, files), want, small()) == nil {
					t.Errorf("without %s: opened", name)
				}
				files[name] = text
			}
		}
	})
}

// TestAnOlderLogThatIsDamagedInItsMiddleIsRefused keeps memory tables from becoming files, so
// that a crash leaves two write-ahead logs. Badger ends the older one at the damaged entry and
// continues with the newer one.
func TestAnOlderLogThatIsDamagedInItsMiddleIsRefused(t *testing.T) {
	t.Parallel()
	s := open(t, t.TempDir(), small())
	var taken []string
	for n := 1; n < 40; n++ {
		name := filepath.Join(s.dir, fmt.Sprintf("%06d.sst", n))
		if os.Mkdir(name, 0o700) == nil {
			taken = append(taken, name)
		}
	}
	defer func() { // otherwise Close waits for the memory table
		for _, name := range taken {
			_ = os.Remove(name)
		}
	}()
	for i := range 4000 {
		mustClaim(t, s, largeClaim(fmt.Sprint(i), 10), dedup.New)
		if logs, _ := filepath.Glob(filepath.Join(s.dir, "*.mem")); len(logs) == 2 {
			break
		}
	}
	want := belief(t, s)
	files := contents(t, s.dir)
	var logs []string
	for name, text := range files {
		if filepath.Ext(name) == ".mem" {
			logs = append(logs, name)
		}
		if text == "directory" {
			delete(files, name)
		}
	}
	if len(logs) != 2 {
		t.Fatalf("logs %v", logs)
	}
	if err := opensWholeOrNot(t, "undamaged", copyDir(t, files), want, small()); err != nil {
		t.Fatal(err)
	}
	text := []byte(files[slices.Min(logs)])
	text[len(strings.TrimRight(string(text), "\x00"))/2] ^= 4
	files[slices.Min(logs)] = string(text)
	err := opensWholeOrNot(t, "damaged", copyDir(t, files), want, small())
	if err == nil || !strings.Contains(err.Error(), "lost acknowledged data") {
		t.Errorf("%v", err)
	}
	o := small()
	o.AcceptLoss = true
	again := open(t, copyDir(t, files), o)
	if n := len(belief(t, again)); n == 0 || n == len(want) {
		t.Errorf("%d of %d events are left", n, len(want))
	}
	if d := mustClaim(t, again, claimOf("new"), dedup.New); d.Record.Seq <= lostGap {
		t.Errorf("sequence %d may have been given out before", d.Record.Seq)
	}
}

// TestAnOutdatedStateIsNoticed removes the newest state of an event with knowledge of
// the format: no event is missing then, but one would be handled again.
func TestAnOutdatedStateIsNoticed(t *testing.T) {
	t.Parallel()
	s := filled(t, 10, smallClaim)
	earlier := map[string][]byte{}
	key := record.HashOf(claimOf("3").Key).Key(record.FamilyState)
	read := func() {
		_ = s.db.View(func(txn *badger.Txn) error {
			value, err := readValue(txn, key)
			earlier["state"] = value
			return err
		})
	}
	read()
	finishNext(t, s, 10, dedup.Result{Kind: dedup.ResultDone})
	dir := left(t, s, true)
	raw, err := openBadger(dir, newStore(dir, quiet()).badgerOptions(), &logger{slog: quiet().Logger})
	if err != nil {
		t.Fatal(err)
	}
	err = raw.Update(func(txn *badger.Txn) error {
		if earlier["state"] == nil {
			return txn.Delete(key)
		}
		return txn.Set(key, earlier["state"])
	})
	if err := errors.Join(err, raw.Close()); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(dir, quiet()); err == nil || !strings.Contains(err.Error(), "newest state") {
		t.Errorf("%v", err)
	}
	if r, err := Check(t.Context(), dir, quiet()); err != nil || r.Sound() || r.Missing == "" {
		t.Errorf("%+v, %v", r, err)
	}
}

// TestAStartMayEndAnywhere ends a start after each of its steps on the files. The next one
// undoes it.
func TestAStartMayEndAnywhere(t *testing.T) {
	t.Parallel()
	s := grown(t, 800)
	want := belief(t, s)
	crashed := contents(t, left(t, s, true))
	crashed["000900.sst"] = "a table that is not named"
	for name, end := range map[string]func(t *testing.T, dir string) error{
		"while it keeps the files": func(t *testing.T, dir string) error {
			kept := filepath.Join(dir, storedir.BeforeStart)
			return errors.Join(os.Mkdir(kept, 0o700),
				os.WriteFile(filepath.Join(kept, "000001.vlog"+storedir.NewSuffix), []byte("half"), 0o600))
		},
		"when the files are kept": func(t *testing.T, dir string) error {
			return storedir.KeepBefore(dir,
				[]string{"000900.sst"})
		},
		"when Badger has opened them": func(t *testing.T, dir string) error {
			if err := storedir.KeepBefore(dir, []string{"000900.sst"}); err != nil {
				return err
			}
			db, err := openBadger(dir, newStore(dir, small()).badgerOptions(), &logger{slog: quiet().Logger})
			if err != nil {
				return err
			}
			return db.Close()
		},
		"while it undoes another one": func(t *testing.T, dir string) error {
			if err := storedir.KeepBefore(dir, []string{"000900.sst"}); err != nil {
				return err
			}
			return os.Rename(filepath.Join(dir, storedir.BeforeStart, badger.ManifestFilename),
				filepath.Join(dir, badger.ManifestFilename))
		},
		"when it is sure": func(t *testing.T, dir string) error {
			return errors.Join(storedir.KeepBefore(dir, []string{"000900.sst"}),
				os.Rename(filepath.Join(dir, storedir.BeforeStart), filepath.Join(dir, storedir.AfterStart)))
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := copyDir(t, maps.Clone(crashed))
			if err := end(t, dir); err != nil {
				t.Fatal(err)
			}
			if name != "when it is sure" {
				undone := copyTree(t, dir)
				if err := storedir.UndoStart(undone); err != nil {
					t.Fatal(err)
				}
				sameContents(t, "undone", crashed, contents(t, undone))
			}
			if err := opensWholeOrNot(t, name, copyTree(t, dir), want, small()); err != nil {
				t.Fatal(err)
			}
		})
	}
}

// copyTree copies a directory with its subdirectories.
func copyTree(t *testing.T, from string) string {
	t.Helper()
	to := t.TempDir()
	if err := os.CopyFS(to, os.DirFS(from)); err != nil {
		t.Fatal(err)
	}
	return to
}

func TestAStartIsConfirmedOrUndone(t *testing.T) {
	t.Parallel()
	for _, crashed := range []bool{true, false} {
		s := grown(t, 400)
		dir := left(t, s, crashed)
		again := open(t, dir, small())
		for _, name := range []string{storedir.BeforeStart, storedir.AfterStart, storedir.ClosedFile} {
			if _, err := os.Stat(filepath.Join(dir, name)); err == nil {
				t.Errorf("crashed %v: %s is there while the store is open", crashed, name)
			}
		}
		shut(t, again)
		if ok, err := storedir.ClosedCleanly(dir); !ok || err != nil {
			t.Errorf("crashed %v: closed in order: %v, %v", crashed, ok, err)
		}
	}
}

func TestAFailedStoreIsNotMarkedClosed(t *testing.T) {
	t.Parallel()
	o, broken := quiet(), false
	o.commit = func(txn *badger.Txn) error {
		if broken {
			return errors.New("input/output error")
		}
		return txn.Commit()
	}
	s := open(t, t.TempDir(), o)
	mustClaim(t, s, claimOf("a"), dedup.New)
	broken = true
	if _, err := s.Claim(t.Context(), claimOf("b")); err == nil {
		t.Fatal("no error")
	}
	_ = s.Close()
	if ok, err := storedir.ClosedCleanly(s.dir); ok || err != nil {
		t.Errorf("closed in order: %v, %v", ok, err)
	}
}

// TestTheLockIsHeldThroughout opens a store while another process starts, uses and closes it.
func TestTheLockIsHeldThroughout(t *testing.T) {
	t.Parallel()
	s := filled(t, 3, smallClaim)
	for what, ask := range map[string]func() error{
		"Open":  func() error { _, err := Open(s.dir, quiet()); return err },
		"Check": func() error { _, err := Check(t.Context(), s.dir, quiet()); return err },
		"BackupDir": func() error {
			_, err := BackupDir(t.Context(), s.dir, quiet(), nopWriter{}, Position{})
			return err
		},
	} {
		if err := ask(); err == nil || !strings.Contains(err.Error(), "in use") ||
			!strings.Contains(err.Error(), fmt.Sprint(os.Getpid())) {
			t.Errorf("%s: %v", what, err)
		}
	}
	dir := left(t, s, true)
	asked := 0
	o := quiet()
	o.statfs = func(dir string) (int64, int64, error) { // called before a start reads the files
		if asked++; asked == 1 {
			if _, err := storedir.LockDir(dir); err == nil {
				t.Error("a start does not hold the lock")
			}
		}
		return 1 << 40, 1 << 40, nil
	}
	shut(t, open(t, dir, o))
	l, err := storedir.LockDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	if err := l.Release(); err != nil {
		t.Fatal(err)
	}
}

type nopWriter struct{}

func (nopWriter) Write(b []byte) (int, error) { return len(b), nil }

// TestACheckOfACrashedStoreChangesNothing: the check restores the files that it opened for writing.
func TestACheckOfACrashedStoreChangesNothing(t *testing.T) {
	t.Parallel()
	bothEnds(t, 400, func(t *testing.T, files, want map[string]string) {
		dir := copyDir(t, files)
		for range 2 {
			r, err := Check(context.Background(), dir, small())
			if err != nil || !r.Sound() || int(r.Records) < len(want) {
				t.Fatalf("%+v, %v", r, err)
			}
			if _, err := BackupDir(t.Context(), dir, small(), nopWriter{}, Position{}); err != nil {
				t.Fatal(err)
			}
			sameContents(t, "after a check and a backup", files, contents(t, dir))
		}
		if err := opensWholeOrNot(t, "after", dir, want, small()); err != nil {
			t.Fatal(err)
		}
	})
}

func TestACensusFollowsWhatHappens(t *testing.T) {
	t.Parallel()
	s := open(t, t.TempDir(), small())
	check := func(what string, s *Store) {
		t.Helper()
		onCommitter(t, s, func(c *committer) {
			found, err := s.survey(func(*row) {})
			if err != nil || found.census != c.meta.Census {
				t.Errorf("%s: counted %+v, there are %+v, %v", what, c.meta.Census, found.census, err)
			}
		})
	}
	check("empty", s)
	c := claimOf("a")
	c.Aliases = []dedup.Key{{ID: "x"}, {ID: "y"}}
	event := mustClaim(t, s, c, dedup.New).Record.Event
	check("a claim with aliases", s)
	finishNext(t, s, 1, dedup.Result{Kind: dedup.ResultDead})
	check("a dead letter", s)
	if _, err := s.Reopen(t.Context(), event); err != nil {
		t.Fatal(err)
	}
	check("reopened", s)
	finishNext(t, s, 1, dedup.Result{Kind: dedup.ResultDone})
	if err := s.Purge(t.Context(), event); err != nil {
		t.Fatal(err)
	}
	check("purged", s)
	mustClaim(t, s, largeClaim("large", 2*record.ChunkSize), dedup.New)
	check("a large body", s)
	work, err := s.Take(t.Context(), 1, 1<<30, time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	check("a running task", s)
	again := open(t, copyStore(t, s.dir), small())
	check("after a crash", again)
	if err := s.Finish(t.Context(), work[0].Lease, dedup.Result{Kind: dedup.ResultDone}); err != nil {
		t.Fatal(err)
	}
	check("finished", s)
}
