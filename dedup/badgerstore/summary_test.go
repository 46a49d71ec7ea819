package badgerstore

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/eyelet-dev/eyelet/dedup"
	"github.com/eyelet-dev/eyelet/dedup/badgerstore/internal/kv"
	"github.com/eyelet-dev/eyelet/dedup/badgerstore/internal/record"
	"github.com/eyelet-dev/eyelet/dedup/deduptest"
)

// stock is what a start has to know of all events.
type stock struct {
	Open   map[uint64]record.Hash
	Older  generations
	Counts record.Counts
	Recent []record.Recent
}

// stockOf returns what the committer of a store knows, and what reading the whole store finds.
func stockOf(c *committer) (known, found stock, err error) {
	known = stock{maps.Clone(c.unqueued), generations{}, c.meta.Counts, nil}
	for seq, h := range c.tasks.Events() {
		known.Open[seq] = h
	}
	found = stock{map[uint64]record.Hash{}, generations{}, record.Counts{}, nil}
	all, err := surveyAll(c.core, func(r *row) {
		found.Older.update(r)
		if r.rec.Open() {
			found.Open[r.rec.Seq] = r.place.Hash
		}
	})
	found.Counts = all.total.Counts
	there := map[uint64]bool{}
	for _, l := range all.newest.events {
		there[l.Seq] = true
		found.Recent = append(found.Recent, l)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, l := range c.recent.events {
		if there[l.Seq] { // it may be gone
			known.Recent = append(known.Recent, l)
		}
	}
	for h, all := range c.older {
		known.Older[h] = slices.SortedFunc(slices.Values(all), byNumber)
	}
	for _, all := range found.Older {
		slices.SortFunc(all, byNumber)
	}
	return known, found, err
}

func byNumber(a, b generation) int { return cmp.Compare(a.seq, b.seq) }

// differs returns how the knowledge of a store differs from its content, empty if it does not.
func (s *Store) differs() (diff string) {
	o := &inspectOp{newTicket(true), func(c *committer) {
		known, found, err := stockOf(c)
		if diff = gocmp.Diff(found, known, gocmp.AllowUnexported(generation{})); err != nil {
			diff = err.Error()
		}
	}}
	if err := s.submit(o); err != nil {
		return err.Error()
	}
	return diff
}

// mixed returns a store with events in every state, and its clock.
func mixed(t *testing.T, o Options) (*Store, Options) {
	t.Helper()
	clock := deduptest.NewClock()
	o.Clock, o.AcceptClock = clock, true
	s := open(t, t.TempDir(), o)
	for i := range 60 {
		mustClaim(t, s, largeClaim(fmt.Sprint(i), 300), dedup.New)
	}
	finishNext(t, s, 20, dedup.Result{Kind: dedup.ResultDone})
	finishNext(t, s, 20, dedup.Result{Kind: dedup.ResultDead})
	clock.Advance(25 * time.Hour)
	for i := 20; i < 30; i++ { // the dead letters become older generations
		mustClaim(t, s, largeClaim(fmt.Sprint(i), 300), dedup.New)
	}
	quarantined := claimOf("quarantined")
	quarantined.Quarantine = &dedup.Quarantine{Reason: "conflict"}
	mustClaim(t, s, quarantined, dedup.New)
	held := claimOf("held")
	held.Hold, held.Lease, held.Response = true, time.Hour, dedup.Response{}
	mustClaim(t, s, held, dedup.New)
	return s, o
}

// change changes events of every state of mixed.
func change(t *testing.T, s *Store, round int) {
	t.Helper()
	mustClaim(t, s, largeClaim(fmt.Sprint(36+round), 300), dedup.New) // its dead letter is an older generation now
	finishNext(t, s, 5, dedup.Result{Kind: dedup.ResultDone})
	dead := 0
	for r, err := range s.List(t.Context(), dedup.Filter{States: []dedup.State{dedup.Dead}}) {
		if err != nil {
			t.Fatal(err)
		}
		dead++
		switch {
		case r.QuarantineReason != "" || r.Key.ID >= "36":
		case dead%3 == 0:
			if _, err := s.Reopen(t.Context(), r.Event); err != nil {
				t.Fatal(err)
			}
		case dead%3 == 1:
			if err := s.Purge(t.Context(), r.Event); err != nil {
				t.Fatal(err)
			}
		}
	}
	if _, err := s.Take(t.Context(), dedup.Want{Tasks: 3, Bytes: 1 << 30, Lease: time.Hour}); err != nil || dead < 5 {
		t.Fatal(dead, err)
	}
	for i := range 5 {
		mustClaim(t, s, claimOf(fmt.Sprint("later-", round, i)), dedup.New)
		finished := claimOf(fmt.Sprint("finished-", round, i))
		finished.Tasks = nil
		mustClaim(t, s, finished, dedup.New)
	}
}

// TestAStartFromASummaryKnowsWhatASurveyFinds ends stores in every way: with a checkpoint before
// the last changes or after them, twice, and with the end of the start that follows.
func TestAStartFromASummaryKnowsWhatASurveyFinds(t *testing.T) {
	t.Parallel()
	for _, ends := range [][]bool{{false}, {true}, {true, true}, {true, false}, {false, true}, {true, true, true}} {
		t.Run(fmt.Sprint("crashed ", ends), func(t *testing.T) {
			t.Parallel()
			s, o := mixed(t, quiet())
			if err := s.db.Checkpoint(); err != nil {
				t.Fatal(err)
			}
			for i, crashed := range ends {
				if i < 2 {
					change(t, s, i)
				}
				s = open(t, left(t, s, crashed), o)
				if !s.summary.known {
					t.Error("the summary was not used")
				}
				if diff := s.differs(); diff != "" {
					t.Errorf("start %d: %s", i, diff)
				}
			}
		})
	}
}

// TestASummaryCoversTheCommitInProgress makes a checkpoint when commits are durable and not yet
// published.
func TestASummaryCoversTheCommitInProgress(t *testing.T) {
	t.Parallel()
	var at atomic.Pointer[func()]
	o := quiet()
	o.step = func(now commitStep) {
		if f := at.Load(); now == stepPublish && f != nil {
			(*f)()
		}
	}
	s, o := mixed(t, o)
	var crashed []string
	checkpoint := func() {
		if err := s.db.Checkpoint(); err != nil {
			t.Error(err)
		}
		crashed = append(crashed, copyStore(t, s.dir))
	}
	at.Store(&checkpoint)
	mustClaim(t, s, claimOf("new"), dedup.New)
	untasked := claimOf("finished at once")
	untasked.Tasks = nil
	mustClaim(t, s, untasked, dedup.New)
	mustClaim(t, s, largeClaim("38", 300), dedup.New) // its dead letter is an older generation now
	at.Store(nil)
	if len(crashed) != 3 {
		t.Errorf("%d commits", len(crashed))
	}
	for i, dir := range crashed {
		again := open(t, dir, o)
		if diff := again.differs(); diff != "" || !again.summary.known {
			t.Errorf("commit %d: the summary was used: %t, %s", i, again.summary.known, diff)
		}
		shut(t, again)
	}
}

// TestASummaryIsOnlyUsedWithItsStore exchanges the summary: the start reads the whole store, and
// nothing is lost.
func TestASummaryIsOnlyUsedWithItsStore(t *testing.T) {
	t.Parallel()
	s, o := mixed(t, quiet())
	if err := s.db.Checkpoint(); err != nil {
		t.Fatal(err)
	}
	earlier := contents(t, s.dir)[kv.SummaryFile]
	change(t, s, 1)
	if err := errors.Join(s.db.Checkpoint(), s.db.Checkpoint()); err != nil {
		t.Fatal(err)
	}
	crashed := contents(t, copyStore(t, s.dir))
	change(t, s, 2)
	shut(t, s)
	closed := contents(t, s.dir)
	at, err1 := kv.ReadCheckpoint(s.dir)
	commit, content, _ := kv.ReadSummary(s.dir, at.Store)
	at.Store[0] ^= 1
	elsewhere := t.TempDir()
	if err := errors.Join(err1, kv.WriteSummary(elsewhere, at.Store, commit, content)); err != nil {
		t.Fatal(err)
	}
	foreign := contents(t, elsewhere)[kv.SummaryFile]
	damaged := []byte(closed[kv.SummaryFile])
	damaged[len(damaged)/2] ^= 1
	rewritten := maps.Clone(crashed)
	rewritten[manifestPath] = rewrite(t, crashed[manifestPath])
	for what, tc := range map[string]struct {
		files   map[string]string
		summary string
	}{
		"missing, crashed":                  {crashed, ""},
		"missing, closed":                   {closed, ""},
		"damaged":                           {closed, string(damaged)},
		"cut":                               {closed, closed[kv.SummaryFile][:20]},
		"of another store":                  {closed, foreign},
		"of an earlier checkpoint, crashed": {crashed, earlier},
		"of an earlier checkpoint, closed":  {closed, earlier},
		"of a later commit":                 {crashed, closed[kv.SummaryFile]},
		"of a MANIFEST that was rewritten":  {rewritten, crashed[kv.SummaryFile]},
	} {
		dir := copyDir(t, tc.files)
		if err := os.WriteFile(filepath.Join(dir, kv.SummaryFile), []byte(tc.summary), 0o600); err != nil {
			t.Fatal(err)
		}
		again := open(t, dir, o)
		if again.summary.known {
			t.Errorf("%s: the summary was used", what)
		}
		if diff := again.differs(); diff != "" {
			t.Errorf("%s: %s", what, diff)
		}
		shut(t, again)
		if next := open(t, dir, o); !next.summary.known || next.differs() != "" {
			t.Errorf("%s: the next start does not use its summary, or differs: %s", what, next.differs())
		}
	}
}

// rewrite returns a MANIFEST with the content of all records in one, as Badger rewrites it.
func rewrite(t *testing.T, text string) string {
	t.Helper()
	at, all := records(t, text), []byte(nil)
	for i, from := range at[:len(at)-1] {
		all = append(all, text[from+recordHead:at[i+1]]...)
	}
	b := binary.BigEndian.AppendUint32([]byte(text[:at[0]]), uint32(len(all)))
	b = binary.BigEndian.AppendUint32(b, crc32.Checksum(all, crc32.MakeTable(crc32.Castagnoli)))
	return string(append(b, all...))
}

// TestTheCheckInTheBackgroundComparesTheCensus changes the census of a store: starts compare it no
// more, as long as they have a summary.
func TestTheCheckInTheBackgroundComparesTheCensus(t *testing.T) {
	t.Parallel()
	s, _ := mixed(t, quiet())
	s.maintenance.checkQuietly(t.Context())
	if err := s.Health(t.Context()); err != nil {
		t.Fatal(err)
	}
	onCommitter(t, s, func(c *committer) { c.meta.Census.Entries++ })
	mustClaim(t, s, claimOf("commits it"), dedup.New)
	s.maintenance.checkQuietly(t.Context())
	if err := s.Health(t.Context()); err == nil {
		t.Error("the check has not compared the census")
	}
}

// TestAStoreWithDamageIsReadAtEveryStart checks that a start reports damage that is known.
func TestAStoreWithDamageIsReadAtEveryStart(t *testing.T) {
	t.Parallel()
	s, o := mixed(t, quiet())
	finished := claimOf("finished")
	finished.Tasks = nil
	mustClaim(t, s, finished, dedup.New)
	spoilState(t, s, record.HashOf(finished.Key).Key(record.FamilyEvent))
	_, err := s.Claim(t.Context(), finished)
	damagedIs(t, err, "Claim")
	for range 2 {
		shut(t, s)
		if s = open(t, s.dir, o); s.Degraded() == nil {
			t.Error("a start does not report the damage")
		}
	}
}
