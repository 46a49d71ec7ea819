package badgerstore

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/dgraph-io/badger/v4"
	"github.com/dgraph-io/badger/v4/table"
	"github.com/google/go-cmp/cmp"

	"github.com/eyelet-dev/eyelet/dedup"
	"github.com/eyelet-dev/eyelet/dedup/badgerstore/internal/badgerfile"
	"github.com/eyelet-dev/eyelet/dedup/badgerstore/internal/kv"
	"github.com/eyelet-dev/eyelet/dedup/badgerstore/internal/record"
	"github.com/eyelet-dev/eyelet/dedup/badgerstore/internal/storedir"
)

// assorted returns a store with an event in every state.
func assorted(t *testing.T) *Store {
	t.Helper()
	s := open(t, t.TempDir(), quiet())
	ctx := context.Background()
	for i := range 5 {
		c := largeClaim(fmt.Sprint(i), 100+i*record.InlineMost/2)
		c.Aliases = []dedup.Key{{Principal: "p", Space: dedup.SpaceNonce, ID: fmt.Sprint(i)}}
		mustClaim(t, s, c, dedup.New)
	}
	work, err := s.Take(ctx, dedup.Want{Tasks: 3, Bytes: 1 << 30, Lease: time.Hour})
	if err != nil || len(work) != 3 {
		t.Fatal(len(work), err)
	}
	for i, kind := range []dedup.Kind{dedup.ResultDone, dedup.ResultDead} {
		if err := s.Finish(ctx, work[i].Lease, dedup.Result{Kind: kind}); err != nil {
			t.Fatal(err)
		}
	}
	return s
}

func TestACheckCountsWhatIsThere(t *testing.T) {
	t.Parallel()
	s := assorted(t)
	want := Report{Format: formatVersion, Records: 5, Pending: 2, Running: 1, Done: 1, Dead: 1, Aliases: 5,
		Bodies: 3, Damaged: []Damage{}}
	look := func(what string, r Report, err error) {
		t.Helper()
		if err != nil {
			t.Fatalf("%s: %v", what, err)
		}
		if r.Commit == 0 || !r.Sound() {
			t.Errorf("%s: commit %d, sound %v", what, r.Commit, r.Sound())
		}
		r.Commit = 0
		if diff := cmp.Diff(want, r); diff != "" {
			t.Errorf("%s: %s", what, diff)
		}
	}
	r, err := s.Check(context.Background())
	look("in use", r, err)
	r, err = Check(context.Background(), copyStore(t, s.dir), quiet())
	look("after a crash", r, err)
	if _, err := Check(context.Background(), s.dir, quiet()); err == nil ||
		!strings.Contains(err.Error(), "in use by another process") {
		t.Errorf("while it is in use: %v", err)
	}
	shut(t, s)
	for range 2 {
		r, err = Check(context.Background(), s.dir, quiet())
		look("closed", r, err)
	}
	empty := t.TempDir()
	if _, err := Check(context.Background(), empty, quiet()); err == nil ||
		!strings.Contains(err.Error(), "there is no store") {
		t.Errorf("without a store: %v", err)
	}
	if entries, _ := os.ReadDir(empty); len(entries) > 0 {
		t.Errorf("the check made %v", entries)
	}
}

func TestACheckFindsEveryKindOfDamagedValue(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name, state, reason string
		key                 func(h record.Hash, seq uint64) []byte
	}{
		{"an open event", "pending", "checksum",
			func(h record.Hash, _ uint64) []byte { return h.Key(record.FamilyEvent) }},
		{"a large body", "pending", "checksum",
			func(h record.Hash, seq uint64) []byte { return h.BodyKey(seq) }},
		{"an alias", "unknown", "checksum", func(record.Hash, uint64) []byte {
			return record.HashOf(dedup.Key{Principal: "p", Space: dedup.SpaceNonce, ID: "4"}).Key(record.FamilyAlias)
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			s := assorted(t)
			h := record.HashOf(largeClaim("4", 1).Key)
			seq := uint64(0)
			if err := s.view(func(txn *kv.View) error {
				r, err := s.readRow(txn, record.Place{Hash: h})
				seq = r.rec.Seq
				return err
			}); err != nil {
				t.Fatal(err)
			}
			key := tc.key(h, seq)
			spoil(t, s, key)
			r, err := s.Check(context.Background())
			if err != nil || r.Sound() || len(r.Damaged) != 1 {
				t.Fatalf("%+v, %v", r, err)
			}
			d := r.Damaged[0]
			if key[0] == record.FamilyBody {
				key = h.Key(record.FamilyEvent) // its event is reported
			}
			if d.Key != fmt.Sprintf("%c:%x", key[0], key[1:]) || d.State != tc.state ||
				!strings.Contains(d.Reason, tc.reason) {
				t.Errorf("%+v", d)
			}
			if err := s.Degraded(); err == nil || !strings.Contains(err.Error(), "1 stored value is damaged") {
				t.Errorf("Degraded: %v", err)
			}
			if err := s.Health(context.Background()); err != nil {
				t.Errorf("one damaged value makes the store unusable: %v", err)
			}
		})
	}
}

func TestACheckMissesNoEventWhoseStateIsLeft(t *testing.T) {
	t.Parallel()
	s := open(t, t.TempDir(), quiet())
	c := claimOf("a")
	c.Tasks = nil
	event := mustClaim(t, s, c, dedup.New).Record.Event
	key := record.HashOf(c.Key).Key(record.FamilyEvent)
	empty(t, s, key)
	r, err := s.Check(context.Background())
	if err != nil || len(r.Damaged) != 1 || r.Damaged[0].Event != event || r.Damaged[0].State != "done" {
		t.Errorf("%+v, %v", r, err)
	}
}

func TestWhatIsRepairedIsNoLongerReported(t *testing.T) {
	t.Parallel()
	s := open(t, t.TempDir(), quiet())
	c := claimOf("a")
	mustClaim(t, s, c, dedup.New)
	key := record.HashOf(c.Key).Key(record.FamilyEvent)
	flipBack := func() { spoil(t, s, key) } // flips the same bit again
	flipBack()
	if _, err := s.Check(context.Background()); err != nil || s.Degraded() == nil {
		t.Fatalf("damage is not found: %v", err)
	}
	flipBack()
	if _, err := s.Check(context.Background()); err != nil || s.Degraded() != nil {
		t.Errorf("still degraded: %v, %v", s.Degraded(), err)
	}
}

// eventually waits for background work, as long as the test may run.
func eventually(t *testing.T, what string, done func() bool) {
	t.Helper()
	t.Logf("waits until %s", what)
	for !done() {
		time.Sleep(time.Millisecond)
	}
}

func TestTheCheckInTheBackgroundFindsADamagedValue(t *testing.T) {
	t.Parallel()
	o := quiet()
	o.rhythm = ownRhythm()
	o.rhythm.check = 20 * time.Millisecond
	s := open(t, t.TempDir(), o)
	c := claimOf("a")
	c.Tasks = nil
	mustClaim(t, s, c, dedup.New)
	spoil(t, s, record.HashOf(c.Key).Key(record.FamilyEvent)) // nothing claims it
	eventually(t, "the check reports the value", func() bool { return s.Degraded() != nil })
	if err := s.Health(context.Background()); err != nil {
		t.Error(err)
	}
	mustClaim(t, s, claimOf("b"), dedup.New)
}

// TestADamagedTableOfARunningStoreRefusesWhatIsNew damages a table of a running store. Its keys
// may look as if they had never existed, so nothing may be accepted as new any more.
func TestADamagedTableOfARunningStoreRefusesWhatIsNew(t *testing.T) {
	t.Parallel()
	s := filled(t, 200, smallClaim)
	shut(t, s)
	o := quiet()
	o.rhythm = ownRhythm()
	o.rhythm.check = 50 * time.Millisecond
	tables := logs(t, s.dir, ".sst") // whole ones: a running store may be writing another
	again := open(t, s.dir, o)
	mustClaim(t, again, claimOf("before"), dedup.New)
	for _, f := range tables {
		flip(t, f, 500)
	}
	ctx := context.Background()
	eventually(t, "the check reports the table", func() bool { return again.Health(ctx) != nil })
	unavailable(t, again.Health(ctx), "the store is damaged")
	_, err := again.Claim(ctx, claimOf("after"))
	unavailable(t, err, "the store is damaged")
	mustClaim(t, again, claimOf("before"), dedup.Known)
}

// TestADamagedTableIsAnErrorWhereverItIsDamaged flips bytes all over a table, including its
// index and footer, on which Badger alone would end the process. A flip in a block may name
// another match of the same bytes to Zstandard; such a table passes only with the same entries.
func TestADamagedTableIsAnErrorWhereverItIsDamaged(t *testing.T) {
	t.Parallel()
	s := filled(t, 50, smallClaim)
	shut(t, s)
	table := logs(t, s.dir, ".sst")[0]
	info, err := os.Stat(table)
	if err != nil {
		t.Fatal(err)
	}
	whole, err := os.ReadFile(table)
	if err != nil {
		t.Fatal(err)
	}
	tried, entries := 0, tableEntries(t, table)
	if len(entries) < 50 {
		t.Fatalf("%d entries", len(entries))
	}
	for at := int64(0); at < info.Size(); at += 1 + info.Size()/400 {
		tried++
		damaged(t, s.dir, table, whole, at, entries)
	}
	for at := info.Size() - 64; at < info.Size(); at++ {
		tried++
		damaged(t, s.dir, table, whole, at, entries)
	}
	for _, n := range []int{0, 3, 4, 20, len(whole) / 2, len(whole) - 1} {
		if err := os.WriteFile(table, whole[:n], 0o600); err != nil {
			t.Fatal(err)
		}
		if err := checkTables(filepath.Dir(table)); err == nil {
			t.Errorf("a table of %d of %d bytes passes", n, len(whole))
		}
	}
	if err := os.WriteFile(table, whole, 0o600); err != nil {
		t.Fatal(err)
	}
	again := open(t, s.dir, quiet())
	mustClaim(t, again, claimOf("7"), dedup.Known)
	if tried < 400 {
		t.Errorf("only %d damaged tables were tried", tried)
	}
}

func checkTables(dir string) error {
	manifest, err := badgerfile.ReadManifest(dir)
	return errors.Join(err, badgerfile.CheckTables(dir, badger.DefaultOptions(""), manifest))
}

// tableEntries returns the keys, versions and values that Badger reads in a table.
func tableEntries(t *testing.T, path string) (entries []string) {
	t.Helper()
	tables, err := badgerfile.Tables(filepath.Dir(path), badger.DefaultOptions(""))
	id, ok := table.ParseFileID(filepath.Base(path))
	if o, known := tables[id]; err != nil || !ok || !known {
		t.Fatal(path, tables, err)
	} else if data, err := os.ReadFile(path); err != nil {
		t.Fatal(err)
	} else if table, err := table.OpenInMemoryTable(data, id, &o); err != nil {
		t.Fatal(err)
	} else {
		all := table.NewIterator(0)
		defer func() { _ = all.Close() }()
		for all.Rewind(); all.Valid(); all.Next() {
			entries = append(entries, fmt.Sprintf("%x %+v", all.Key(), all.Value()))
		}
	}
	return entries
}

// damaged flips bits of one byte: an error, unless the table has the same entries.
func damaged(t *testing.T, dir, table string, whole []byte, at int64, entries []string) {
	t.Helper()
	bad := append([]byte(nil), whole...)
	bad[at] ^= 0x55
	if err := os.WriteFile(table, bad, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := checkTables(filepath.Dir(table)); err == nil {
		if diff := cmp.Diff(entries, tableEntries(t, table)); diff != "" {
			t.Errorf("byte %d of %d: another content passes\n%s", at, len(whole), diff)
		}
		return
	}
	if at%50 == 0 { // all the way
		if s, err := Open(dir, quiet()); err == nil {
			t.Errorf("byte %d: the store is opened", at)
			_ = s.Close()
		} else if !strings.Contains(err.Error(), "restore a backup") {
			t.Errorf("byte %d: %v", at, err)
		}
	}
}

func TestAStoreThatDiedBeforeItsFirstCommitIsOpened(t *testing.T) {
	t.Parallel()
	format := t.TempDir()
	if err := storedir.WriteFormat(format, formatVersion); err != nil {
		t.Fatal(err)
	}
	checkpoint := copyStore(t, format)
	if err := kv.Create(checkpoint); err != nil {
		t.Fatal(err)
	}
	for _, dir := range []string{format, checkpoint} {
		mustClaim(t, open(t, dir, quiet()), claimOf("a"), dedup.New)
	}
}

func TestATaskWithADamagedBodyIsADeadLetter(t *testing.T) {
	t.Parallel()
	s := open(t, t.TempDir(), quiet())
	ctx := context.Background()
	c := largeClaim("bad", 2*record.InlineMost)
	r := mustClaim(t, s, c, dedup.New).Record
	event := r.Event
	mustClaim(t, s, claimOf("good"), dedup.New)
	spoil(t, s, record.HashOf(c.Key).BodyKey(r.Seq))
	var ran []string
	for len(ran) == 0 {
		work, err := s.Take(ctx, dedup.Want{Tasks: 1, Bytes: 1, Lease: time.Minute})
		if err != nil {
			t.Fatal(err)
		}
		for _, w := range work {
			ran = append(ran, w.Record.Key.ID)
		}
	}
	if diff := cmp.Diff([]string{"good"}, ran); diff != "" {
		t.Error(diff)
	}
	eventually(t, "the task is a dead letter", func() bool {
		for r, err := range s.List(ctx, dedup.Filter{States: []dedup.State{dedup.Dead}}) {
			return err == nil && r.Event == event && r.Tasks[0].Reason == reasonDamaged
		}
		return false
	})
	mustClaim(t, s, c, dedup.Known)
}
