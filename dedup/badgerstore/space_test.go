package badgerstore

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/eyelet-dev/eyelet/dedup"
	"github.com/eyelet-dev/eyelet/dedup/badgerstore/internal/kv"
	"github.com/eyelet-dev/eyelet/dedup/badgerstore/internal/record"
	"github.com/eyelet-dev/eyelet/dedup/deduptest"
	"github.com/eyelet-dev/eyelet/internal/faultdisk"
)

// liveBytes returns the size of what can be read in a store.
func liveBytes(t *testing.T, s *Store) (n int64) {
	t.Helper()
	err := s.view(func(in *kv.View) error {
		for item := range in.Items(nil) {
			value, content, err := item.Read()
			if err != nil {
				return err
			}
			n += int64(len(item.Key()) + len(value) + len(content))
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// TestSpaceIsReclaimedOverDailyRestarts runs three days of eight hours, ten with EYELET_LONG, each
// in a process of its own: eight value files of events per day. One event in sixteen is a dead
// letter that stays; the others are forgotten after a day.
func TestSpaceIsReclaimedOverDailyRestarts(t *testing.T) {
	t.Parallel()
	const valueFile = 1 << 20
	dir, clock, random := t.TempDir(), deduptest.NewClock(), rand.New(rand.NewPCG(1, 2))
	o := quiet()
	o.Clock, o.valueFile, o.memTable = clock, valueFile, 256<<10
	o.rhythm = ownRhythm()
	o.rhythm.look = time.Hour // due work is started by hand
	id := 0
	for day := range faultdisk.Count(3, 10) {
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
			if err := s.maintenance.reclaimWhenDue(t.Context(), false); err != nil {
				t.Fatal(err)
			}
		}
		used, err := measure(dir)
		if err != nil {
			t.Fatal(err)
		}
		log, err := measure(filepath.Join(dir, "redo")) // has a constant size
		if err != nil {
			t.Fatal(err)
		}
		used.all -= log.all
		live := liveBytes(t, s)
		t.Logf("day %d: %d KiB of which %d KiB are live: %.2f times", day, used.all>>10, live>>10,
			float64(used.all)/float64(live))
		if most := live*5/2 + 3*valueFile; used.all > most {
			t.Errorf("day %d: %d KiB, want at most %d KiB", day, used.all>>10, most>>10)
		}
		shut(t, s)
		clock.Advance(16 * time.Hour)
	}
}

// TestALowDiskReclaimsAValueFile has a value file that is mostly deleted, half an hour after the
// last reclaim. The store gives it back as soon as the disk is low.
func TestALowDiskReclaimsAValueFile(t *testing.T) {
	t.Parallel()
	s, kept := outdated(t, quiet())
	s.removed.Store(0) // as if another process had deleted it
	s.reclaimed.Store(s.now().Add(-30 * time.Minute).UnixNano())
	before := valueFiles(t, s.dir)
	for _, low := range []bool{false, true} {
		if err := s.maintenance.reclaimWhenDue(t.Context(), low); err != nil {
			t.Fatal(err)
		}
		left := func() bool {
			now := valueFiles(t, s.dir)
			return !slices.ContainsFunc(before, func(f string) bool { return !slices.Contains(now, f) })
		}
		for end := time.Now().Add(time.Minute); low && left() && time.Now().Before(end); {
			time.Sleep(time.Millisecond) // a file is kept until its last reader ends, and its values may be in use
			s.reclaimed.Store(s.now().Add(-30 * time.Minute).UnixNano())
			if err := s.maintenance.reclaimWhenDue(t.Context(), low); err != nil {
				t.Fatal(err)
			}
		}
		if left() == low {
			t.Errorf("the disk is low: %v; every value file is left: %v", low, left())
		}
	}
	sameBodies(t, s, kept)
}

func TestALowDiskReclaimsSpaceWhileItCan(t *testing.T) {
	t.Parallel()
	fs, o := diskOf(10 << 30)
	s := open(t, t.TempDir(), o)
	mustClaim(t, s, claimOf("a"), dedup.New)
	for _, tc := range []struct {
		free, tables int64
		left         int64 // bytes removed after it
	}{
		{100 << 20, 0, 1},
		{140 << 20, 0, 0},
		{140 << 20, 100 << 20, 1},
		{200 << 20, 1 << 40, 1}, // they are not rewritten all at once
		{400 << 20, 1 << 40, 0},
	} {
		s.removed.Store(1)
		s.meter.mu.Lock()
		s.meter.last, s.meter.at = usage{tables: tc.tables}, time.Now()
		s.meter.mu.Unlock()
		fs.leave(s, tc.free)
		if !s.disk.state().low() || s.disk.state().frozen() {
			t.Fatal("the disk is not low, or too full")
		}
		if err := s.maintenance.reclaim(t.Context()); (err == nil) != (tc.left == 0) || s.removed.Load() != tc.left {
			t.Errorf("%s are free: %v; %d bytes can still be reclaimed", mib(tc.free), err, s.removed.Load())
		}
	}
}

// TestASweepOfManyRecordsGoesOnBehindEachStep ends more windows than one step of the sweep finds.
func TestASweepOfManyRecordsGoesOnBehindEachStep(t *testing.T) {
	t.Parallel()
	clock, o := deduptest.NewClock(), quiet()
	o.Clock = clock
	s := open(t, t.TempDir(), o)
	const many = 2*sweepStep + 1
	for from := 0; from < many; from += fillStep {
		if err := s.submit(&fillOp{newTicket(true), from, min(from+fillStep, many)}); err != nil {
			t.Fatal(err)
		}
	}
	clock.Advance(26 * time.Hour)
	mustClaim(t, s, claimOf("new"), dedup.New)
	for _, want := range []int64{many + 1, 1} {
		if st, err := s.Stats(t.Context()); err != nil || st.Records != want {
			t.Errorf("%d records, want %d, %v", st.Records, want, err)
		}
		if err := s.maintenance.sweep(ownRhythm().slack); err != nil {
			t.Fatal(err)
		}
	}
	shut(t, s)
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
	const gone = 5000 + keyBytes
	if s.removed.Load() != gone || s.reclaimed.Load() != made {
		t.Errorf("%d bytes are removed since %d, want %d since %d", s.removed.Load(), s.reclaimed.Load(), gone, made)
	}
	if err := s.maintenance.reclaimWhenDue(t.Context(), false); err != nil { // a day has passed
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
	o := quiet()
	o.segment = 4 << 20 // for all three bodies: none is renamed while the files are measured
	s := open(t, t.TempDir(), o)
	for i := range 3 {
		mustClaim(t, s, largeClaim(fmt.Sprint(i), 1<<20), dedup.New)
	}
	if err := s.db.Checkpoint(); err != nil { // their space is allocated then
		t.Fatal(err)
	}
	var st dedup.Stats
	var log usage
	for before := int64(-1); before != log.all; { // the log's segments are prepared in the background
		before = log.all
		s.meter.forget()
		var err error
		if st, err = s.Stats(t.Context()); err != nil {
			t.Fatal(err)
		}
		if log, err = measure(filepath.Join(s.dir, "redo")); err != nil {
			t.Fatal(err)
		}
	}
	if st.Bytes < log.all+3<<20 || st.Bytes > log.all+5<<20 {
		t.Errorf("%d bytes, of three bodies of 1 MiB and a log of %d", st.Bytes, log.all)
	}
	if st.Events < 3<<20 || st.Events > st.Bytes-log.all {
		t.Errorf("%d bytes of events, of three bodies of 1 MiB", st.Events)
	}
	if tables := s.meter.usage().tables; tables == 0 || tables > st.Bytes-log.all-3<<20 {
		t.Errorf("%d bytes are in tables", tables)
	}
	// Beyond the size of the store only the option or the default is required.
	if got := s.disk.size(); got != st.Bytes {
		t.Errorf("the free space is compared with %d bytes, the store has %d", got, st.Bytes)
	}
}

func TestTheLogIsSmallOnASmallFileSystem(t *testing.T) {
	t.Parallel()
	for total, want := range map[int64]int{100 << 30: 16, 2 << 30: 8, 64 << 20: 4} {
		fs, o := diskOf(total)
		fs.total.Store(total)
		s := open(t, t.TempDir(), o)
		files, err := filepath.Glob(filepath.Join(s.dir, "redo", "*.log"))
		if err != nil || len(files) != want {
			t.Errorf("%d segments on a file system of %s, want %d: %v", len(files), mib(total), want, err)
		}
	}
}

// TestSpaceWithoutEventsIsGivenBack accepts events, and then none. One of them never ends, the
// windows of the others end, and their keys are forgotten. A few days later the tables and value
// files are about empty, also when a process ends or something is read in between.
func TestSpaceWithoutEventsIsGivenBack(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name       string
		events     int
		size       int // of a body
		remembered bool
	}{
		{"with bodies in the tables", 2000, 60, false},
		{"with bodies in value files", 2000, 1000, false},
		{"with bodies in chunks", 12, 2*record.InlineMost + 1, false},
		{"that are remembered for two days", 2000, 60, true},
	} {
		for _, during := range []string{"", "a restart", "a view"} {
			t.Run(tc.name+" "+during, func(t *testing.T) {
				t.Parallel()
				clock, o := deduptest.NewClock(), quiet()
				o.Clock, o.memTable, o.rhythm, o.Remember.For = clock, 256<<10, ownRhythm(), 48*time.Hour
				o.rhythm.look = time.Hour // due work is started by hand
				s := open(t, t.TempDir(), o)
				kept, random := map[string]dedup.Claim{}, rand.New(rand.NewPCG(1, 2))
				for i := range tc.events {
					c := rememberedClaim(fmt.Sprint(i))
					c.Payload.Body = randomBody(random, tc.size)
					if !tc.remembered {
						c.Remember = nil
					}
					if i == 0 {
						c.Tasks = claimOf("").Tasks
					}
					if event := mustClaim(t, s, c, dedup.New).Record.Event; i == 0 {
						kept[event] = c
					}
				}
				pass := func(hours int) {
					for range hours {
						clock.Advance(time.Hour)
						m := s.maintenance
						err := errors.Join(m.noteTime(), m.sweep(o.rhythm.slack))
						if err := errors.Join(err, m.reclaimWhenDue(t.Context(), false), m.prune()); err != nil {
							t.Fatal(err)
						}
					}
				}
				switch during {
				case "a restart":
					pass(60)
					shut(t, s)
					s = open(t, s.dir, o)
				case "a view":
					err := s.view(func(*kv.View) error { pass(100); return nil })
					if err != nil {
						t.Fatal(err)
					}
				}
				pass(144)
				used, err := measure(filepath.Join(s.dir, "index"))
				values := dirSize(filepath.Join(s.dir, "values"))
				if most := 3*int64(tc.size) + 32<<10; err != nil || used.tables+values > most {
					t.Errorf("%d bytes of tables and %d of values are left, %v", used.tables, values, err)
				}
				sameBodies(t, s, kept)
			})
		}
	}
}
