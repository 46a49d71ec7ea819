package badgerstore

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/dgraph-io/badger/v4"

	"github.com/eyelet-dev/eyelet/dedup"
	"github.com/eyelet-dev/eyelet/dedup/deduptest"
)

// liveBytes returns the size of the readable keys and values of a store.
func liveBytes(t *testing.T, s *Store) (n int64) {
	t.Helper()
	err := s.view(func(txn *badger.Txn) error {
		options := badger.DefaultIteratorOptions
		options.PrefetchValues = false
		it := txn.NewIterator(options)
		defer it.Close()
		for it.Rewind(); it.Valid(); it.Next() {
			n += it.Item().EstimatedSize()
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// TestSpaceIsReclaimedOverDailyRestarts runs ten days of eight hours, each in a process of its
// own: eight value logs of events per day. One event in sixteen is a dead letter that stays;
// the others are forgotten after a day.
func TestSpaceIsReclaimedOverDailyRestarts(t *testing.T) {
	t.Parallel()
	const logFile = 1 << 20
	dir, clock, random := t.TempDir(), deduptest.NewClock(), rand.New(rand.NewPCG(1, 2))
	o := quiet()
	o.Clock, o.logFile, o.memTable = clock, logFile, 256<<10
	o.rhythm = ownRhythm()
	o.rhythm.look = time.Hour // due work is started by hand
	id := 0
	for day := range 10 {
		s := open(t, dir, o)
		for range 4 {
			for range 16 {
				var claims []dedup.Claim
				for range 16 {
					c := claimOf(fmt.Sprint(id))
					if c.Payload.Body = randomBody(random, 8000); id%16 != 0 {
						c.Tasks = nil
					}
					claims, id = append(claims, c), id+1
				}
				if _, err := s.Claim(context.Background(), claims...); err != nil {
					t.Fatal(err)
				}
			}
			clock.Advance(2 * time.Hour)
			if err := s.maintenance.sweep(o.rhythm.slack); err != nil {
				t.Fatal(err)
			}
			if err := s.maintenance.reclaimWhenDue(false); err != nil {
				t.Fatal(err)
			}
		}
		used, err := measure(dir)
		if err != nil {
			t.Fatal(err)
		}
		live := liveBytes(t, s)
		t.Logf("day %d: %d KiB of which %d KiB are live: %.2f times", day, used.all>>10, live>>10,
			float64(used.all)/float64(live))
		if most := live*5/2 + 3*logFile; used.all > most {
			t.Errorf("day %d: %d KiB, want at most %d KiB", day, used.all>>10, most>>10)
		}
		shut(t, s)
		clock.Advance(16 * time.Hour)
	}
}

// TestAnOlderValueLogIsCollectedAlthoughTheNewestHasMoreDeleted has a mostly deleted file
// behind the one being written, of which even more is deleted. Badger considers only the
// latter. The store rewrites the former as soon as the disk is low.
func TestAnOlderValueLogIsCollectedAlthoughTheNewestHasMoreDeleted(t *testing.T) {
	t.Parallel()
	clock, o := deduptest.NewClock(), quiet()
	o.Clock, o.logFile, o.memTable = clock, 1<<20, 256<<10
	s := open(t, t.TempDir(), o)
	random := rand.New(rand.NewPCG(1, 2))
	var kept []dedup.Claim
	claim := func(id string, stays bool) {
		c := claimOf(id)
		if c.Payload.Body = randomBody(random, 16<<10); !stays {
			c.Tasks = nil
		}
		if mustClaim(t, s, c, dedup.New); stays {
			kept = append(kept, c)
		}
	}
	i := 0
	for ; len(logs(t, s.dir, ".vlog")) == 1; i++ {
		claim(fmt.Sprint("first ", i), i%16 < 5)
	}
	for range i * 15 / 16 {
		i++
		claim(fmt.Sprint("second ", i), false)
	}
	clock.Advance(26 * time.Hour)
	if err := s.maintenance.sweep(ownRhythm().slack); err != nil {
		t.Fatal(err)
	}
	if files := logs(t, s.dir, ".vlog"); len(files) != 2 {
		t.Fatalf("%v, want two value logs", files)
	}
	// As if another process had deleted it, half an hour after the last reclaim.
	s.removed.Store(0)
	s.reclaimed.Store(clock.Now().Add(-30 * time.Minute).UnixNano())
	for _, low := range []bool{false, true} {
		if err := s.maintenance.reclaimWhenDue(low); err != nil {
			t.Fatal(err)
		}
		if left := slices.Contains(logs(t, s.dir, ".vlog"), filepath.Join(s.dir, "000001.vlog")); left == low {
			t.Errorf("the disk is low: %v; the first value log is left: %v", low, left)
		}
	}
	for _, c := range kept {
		d := mustClaim(t, s, c, dedup.Known)
		if rec, err := s.Get(context.Background(), d.Record.Event); err != nil ||
			!bytes.Equal(rec.Payload.Body, c.Payload.Body) {
			t.Errorf("%s: %v, or another body", c.Key.ID, err)
		}
	}
}

// TestWhatWasDeletedIsRememberedOverARestart runs processes that each live less than a day.
func TestWhatWasDeletedIsRememberedOverARestart(t *testing.T) {
	t.Parallel()
	clock, o := deduptest.NewClock(), quiet()
	o.Clock, o.memTable = clock, 256<<10
	dir := t.TempDir()
	s := open(t, dir, o)
	made := s.reclaimed.Load()
	c := largeClaim("a", 5000)
	c.Tasks = nil
	mustClaim(t, s, c, dedup.New)
	clock.Advance(26 * time.Hour)
	if err := s.maintenance.sweep(ownRhythm().slack); err != nil {
		t.Fatal(err)
	}
	shut(t, s)
	s = open(t, dir, o)
	if s.removed.Load() != 5000 || s.reclaimed.Load() != made {
		t.Errorf("%d bytes are removed since %d, want 5000 since %d", s.removed.Load(), s.reclaimed.Load(), made)
	}
	if err := s.maintenance.reclaimWhenDue(false); err != nil { // a day has passed
		t.Fatal(err)
	}
	if s.removed.Load() != 0 || s.reclaimed.Load() <= made {
		t.Errorf("%d bytes are removed since %d, although space was reclaimed", s.removed.Load(), s.reclaimed.Load())
	}
	shut(t, s)
	s = open(t, dir, o)
	if s.removed.Load() != 0 || s.reclaimed.Load() != clock.Now().UnixNano() {
		t.Errorf("%d bytes are removed since %d, although space was reclaimed before the restart",
			s.removed.Load(), s.reclaimed.Load())
	}
}

func TestTheSizeOfAStoreIsThatOfItsFiles(t *testing.T) {
	t.Parallel()
	s := filled(t, 3, func(i int) dedup.Claim { return largeClaim(fmt.Sprint(i), 1<<20) })
	s.meter.forget()
	st, err := s.Stats(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	if st.Bytes < 3<<20 || st.Bytes > 5<<20 {
		t.Errorf("%d bytes, of three bodies of 1 MiB", st.Bytes)
	}
	// Beyond the size of the store only the option or the default is required.
	if got := s.disk.size(); got != st.Bytes {
		t.Errorf("the free space is compared with %d bytes, the store has %d", got, st.Bytes)
	}
}

func TestBadgerStillCountsDeletedBytes(t *testing.T) {
	t.Parallel()
	s := filled(t, 1, mediumClaim)
	count := discards(s.db)
	if count == nil {
		t.Fatal("badger.DB has no field vlog.discardStats that can be updated: no space is reclaimed")
	}
	live, err := s.maintenance.liveIn(false)
	if err != nil || len(live) != 1 || live[1] < 2000 || live[1] > 3000 {
		t.Errorf("%v bytes are live, %v; badger.Item may have no value pointers any more", live, err)
	}
}
