package badgerstore

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/dgraph-io/badger/v4"

	"github.com/eyelet-dev/eyelet/dedup"
	"github.com/eyelet-dev/eyelet/dedup/badgerstore/internal/kv"
	"github.com/eyelet-dev/eyelet/dedup/badgerstore/internal/record"
	"github.com/eyelet-dev/eyelet/dedup/badgerstore/internal/redolog"
	"github.com/eyelet-dev/eyelet/dedup/badgerstore/internal/storedir"
	"github.com/eyelet-dev/eyelet/internal/faultdisk"
)

// opensWholeOrNot opens a store that may be damaged. Either it is refused, by a check as well and
// without a change of its checkpoint, or it knows every event as before. It returns the error.
func opensWholeOrNot(t *testing.T, what, dir string, want map[string]string, o Options) error {
	t.Helper()
	before := contents(t, dir)[kv.CheckpointFile]
	s, err := Open(dir, o)
	if err != nil {
		if contents(t, dir)[kv.CheckpointFile] != before {
			t.Errorf("%s: the refused store has another checkpoint", what)
		}
		if r, err2 := Check(t.Context(), dir, o); err2 == nil && r.Sound() {
			t.Errorf("%s: the refused store is checked: %+v after %v", what, r, err)
		}
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

const manifestPath = kv.IndexDir + "/" + badger.ManifestFilename

func TestAFlippedBitInManifestLosesNothing(t *testing.T) {
	t.Parallel()
	bothEnds(t, 2300, func(t *testing.T, files, want map[string]string) {
		whole := files[manifestPath]
		at := records(t, whole)
		refused, tried := 0, 0
		for _, record := range at[max(0, len(at)-faultdisk.Count(3, 6)) : len(at)-1] {
			for _, bit := range []int{0, 2, 5, 7} { // of the last byte of the length
				tried++
				text := []byte(whole)
				text[record+3] ^= 1 << bit
				files[manifestPath] = string(text)
				if opensWholeOrNot(t, fmt.Sprintf("bit %d of the record at %d", bit, record), copyDir(t, files),
					want, small()) != nil {
					refused++
				}
			}
		}
		if refused < tried/2 {
			t.Errorf("only %d of %d are refused: the test tests little", refused, tried)
		}
	})
}

func TestAManifestThatIsCutOffLosesNothing(t *testing.T) {
	t.Parallel()
	bothEnds(t, 2300, func(t *testing.T, files, want map[string]string) {
		whole := files[manifestPath]
		refused := 0
		for i, end := range records(t, whole) {
			for _, cut := range []int{end, end - 3} {
				if cut < 0 || cut == len(whole) || i%2 == 1 && cut != end || i%faultdisk.Count(6, 1) > 0 {
					continue
				}
				files[manifestPath] = whole[:cut]
				if opensWholeOrNot(t, fmt.Sprintf("cut at %d of %d", cut, len(whole)), copyDir(t, files), want,
					small()) != nil {
					refused++
				}
			}
		}
		delete(files, manifestPath)
		if opensWholeOrNot(t, "without", copyDir(t, files), want, small()) == nil {
			t.Error("a store without MANIFEST is opened")
		}
		if refused == 0 {
			t.Error("none is refused: the test tests nothing")
		}
	})
}

func TestAMissingFileIsRefused(t *testing.T) {
	t.Parallel()
	bothEnds(t, 800, func(t *testing.T, files, want map[string]string) {
		refused, tried := map[string]int{}, map[string]int{}
		for name, text := range files {
			kind := cmp.Or(filepath.Ext(name), name)
			if tried[kind]++; tried[kind] > faultdisk.Count(2, 1000) {
				continue
			}
			if delete(files, name); opensWholeOrNot(t, "without "+name, copyDir(t, files), want, small()) != nil {
				refused[kind]++
			}
			files[name] = text
		}
		// The log is at rest after a clean close; before the first checkpoint it has all values and
		// the content of all tables.
		excused := map[string]string{".log": "closed", ".values": "crashed", ".sst": "crashed",
			kv.CheckpointFile: "-"}
		for _, kind := range []string{".sst", ".log", ".values", kv.CheckpointFile} {
			if refused[kind] == 0 && !strings.HasSuffix(t.Name(), excused[kind]) {
				t.Errorf("without a file %s: %v are refused", kind, refused)
			}
		}
	})
}

// TestADamagedLogIsRefused damages a commit of the redo log that others follow.
func TestADamagedLogIsRefused(t *testing.T) {
	t.Parallel()
	s := grown(t, 200)
	var crashed string
	var frames []redolog.Position
	for n := 0; len(frames) < 3; n++ { // a checkpoint may be due
		for i := range 20 {
			mustClaim(t, s, claimOf(fmt.Sprint("later ", n, i)), dedup.New)
		}
		crashed, frames = copyStore(t, s.dir), nil
		at, err := kv.ReadCheckpoint(crashed)
		if err != nil {
			t.Fatal(err)
		}
		log := redolog.Settings{Dir: filepath.Join(crashed, "redo"), Store: at.Store}
		_, _, err = redolog.Replay(log, at.Log, func(f redolog.Frame) error {
			frames = append(frames, f.At)
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	want, files := belief(t, s), contents(t, crashed)
	if err := opensWholeOrNot(t, "undamaged", copyDir(t, files), want, small()); err != nil {
		t.Fatal(err)
	}
	frame := frames[len(frames)/2]
	name := filepath.Join("redo", fmt.Sprintf("%010d.log", frame.Segment))
	text := []byte(files[name])
	text[frame.Offset+40] ^= 4
	files[name] = string(text)
	err := opensWholeOrNot(t, "damaged", copyDir(t, files), want, small())
	if err == nil || !strings.Contains(err.Error(), "--accept-loss") {
		t.Errorf("%v", err)
	}
	o := small()
	o.AcceptLoss = true
	again := open(t, copyDir(t, files), o)
	if n := len(belief(t, again)); n == 0 {
		t.Errorf("none of %d events is left", len(want))
	}
	if d := mustClaim(t, again, claimOf("new"), dedup.New); d.Record.Seq <= lostGap {
		t.Errorf("sequence %d may have been given out before", d.Record.Seq)
	}
	shut(t, again)
	mustClaim(t, open(t, again.dir, small()), claimOf("new"), dedup.Known) // once is enough
}

// TestAnOutdatedStateIsNoticed removes the newest state of an event with knowledge of
// the format: no event is missing then, but one would be handled again.
func TestAnOutdatedStateIsNoticed(t *testing.T) {
	t.Parallel()
	s := filled(t, 10, smallClaim)
	key := record.HashOf(claimOf("3").Key).Key(record.FamilyEvent)
	earlier := valueOf(t, s, key)
	finishNext(t, s, 10, dedup.Result{Kind: dedup.ResultDone})
	dir := left(t, s, false)
	o := badger.DefaultOptions(filepath.Join(dir, kv.IndexDir)).WithLogger(nil)
	raw, err := badger.OpenManaged(o)
	if err != nil {
		t.Fatal(err)
	}
	txn := raw.NewTransactionAt(raw.MaxVersion(), true)
	err = txn.Set(key, earlier)
	if err := errors.Join(err, txn.CommitAt(raw.MaxVersion(), nil), raw.Close()); err != nil {
		t.Fatal(err)
	}
	for range 2 { // the first refusal leaves nothing that the second start reads
		if _, err := Open(dir, quiet()); err == nil || !strings.Contains(err.Error(), "newest state") {
			t.Errorf("%v", err)
		}
	}
	if r, err := Check(t.Context(), dir, quiet()); err != nil || r.Sound() || r.Missing == "" {
		t.Errorf("%+v, %v", r, err)
	}
}

// TestTheLockIsHeldThroughout opens a store while another process starts, uses and closes it.
func TestTheLockIsHeldThroughout(t *testing.T) {
	t.Parallel()
	s := filled(t, 3, smallClaim)
	for what, ask := range map[string]func() error{
		"Open":      func() error { _, err := Open(s.dir, quiet()); return err },
		"Check":     func() error { _, err := Check(t.Context(), s.dir, quiet()); return err },
		"BackupDir": func() error { return BackupDir(t.Context(), s.dir, quiet(), io.Discard) },
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

// TestACheckAndABackupOfACrashedStoreLoseNothing: they leave what closing it would have left.
func TestACheckAndABackupOfACrashedStoreLoseNothing(t *testing.T) {
	t.Parallel()
	bothEnds(t, 800, func(t *testing.T, files, want map[string]string) {
		dir := copyDir(t, files)
		for range 2 {
			r, err := Check(t.Context(), dir, small())
			if err != nil || !r.Sound() || int(r.Records) < len(want) {
				t.Fatalf("%+v, %v", r, err)
			}
			if err := BackupDir(t.Context(), dir, small(), io.Discard); err != nil {
				t.Fatal(err)
			}
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
			found, err := surveyAll(s.core, func(*row) {})
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
	mustClaim(t, s, largeClaim("large", 2*record.InlineMost), dedup.New)
	check("a large body", s)
	work, err := s.Take(t.Context(), dedup.Want{Tasks: 1, Bytes: 1 << 30, Lease: time.Minute})
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
