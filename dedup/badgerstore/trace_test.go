package badgerstore

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/eyelet-dev/eyelet/dedup"
	"github.com/eyelet-dev/eyelet/dedup/badgerstore/internal/record"
	"github.com/eyelet-dev/eyelet/dedup/deduptest"
)

// rememberedClaim returns a claim without tasks and with a window of an hour that asks to be
// remembered.
func rememberedClaim(id string) dedup.Claim {
	c := claimOf(id)
	c.Tasks, c.Window, c.Remember = nil, time.Hour, &dedup.Remember{}
	return c
}

// pruned prunes, as the maintenance does.
func pruned(t *testing.T, s *Store) {
	t.Helper()
	if err := s.maintenance.prune(); err != nil {
		t.Fatal(err)
	}
}

func TestTheKeysOfTheOldestDaysAreForgottenFirst(t *testing.T) {
	t.Parallel()
	var log bytes.Buffer
	clock, o := deduptest.NewClock(), quiet()
	o.Clock, o.Remember = clock, dedup.Retention{Max: 10}
	o.Logger = slog.New(slog.NewTextHandler(&log, nil))
	s := open(t, t.TempDir(), o)
	deduptest.ForgetsTheOldestDays(t, s, clock, func() {
		pruned(t, s)
		pruned(t, s) // deletes what the first one has found
	})
	if n := stored(t, s, record.FamilyTrace); n != 10 {
		t.Errorf("%d keys are stored, want 10", n)
	}
	shut(t, s)
	if n := strings.Count(log.String(), "the oldest days are forgotten"); n != 1 {
		t.Errorf("it was logged %d times:\n%s", n, log.String())
	}
	s = open(t, s.dir, o)
	old := rememberedClaim("z")
	old.Remember.Time = clock.Now().Add(-100 * 24 * time.Hour)
	mustClaim(t, s, old, dedup.TooOld)
}

func TestNothingIsRememberedWhenThatIsOff(t *testing.T) {
	t.Parallel()
	clock, o := deduptest.NewClock(), quiet()
	o.Clock, o.AcceptClock = clock, true
	s := open(t, t.TempDir(), o)
	mustClaim(t, s, rememberedClaim("kept"), dedup.New)
	shut(t, s)
	o.Remember.For = -1
	s = open(t, s.dir, o)
	clock.Advance(time.Hour)
	mustClaim(t, s, rememberedClaim("kept"), dedup.New)
	deduptest.RemembersNothing(t, s, clock)
	pruned(t, s)
	if n := stored(t, s, record.FamilyTrace); n != 0 {
		t.Errorf("%d keys are remembered", n)
	}
	shut(t, s)
	o.Remember.For = 0
	s = open(t, s.dir, o)
	old := rememberedClaim("old") // the memory starts again and has forgotten nothing
	old.Remember.Time = clock.Now().Add(-500 * 24 * time.Hour)
	mustClaim(t, s, old, dedup.New)
}

func TestExpiredDaysAreDeleted(t *testing.T) {
	t.Parallel()
	clock, o := deduptest.NewClock(), quiet()
	o.Clock = clock
	s := open(t, t.TempDir(), o)
	for i := range 5 {
		mustClaim(t, s, rememberedClaim(fmt.Sprint(i)), dedup.New)
		clock.Advance(24 * time.Hour)
	}
	clock.Advance(88 * 24 * time.Hour) // the first two are more than 90 days old, the third is not
	pruned(t, s)
	if n := stored(t, s, record.FamilyTrace); n != 3 && n != 2 {
		t.Errorf("%d keys are stored", n)
	}
	clock.Advance(10 * 24 * time.Hour)
	pruned(t, s)
	if n := stored(t, s, record.FamilyTrace); n != 0 {
		t.Errorf("%d keys are stored", n)
	}
}

func TestADamagedMemoryOfAKeyKeepsItKnown(t *testing.T) {
	t.Parallel()
	clock, o := deduptest.NewClock(), quiet()
	o.Clock = clock
	s := open(t, t.TempDir(), o)
	c := rememberedClaim("a")
	mustClaim(t, s, c, dedup.New)
	clock.Advance(time.Hour)
	spoil(t, s, record.HashOf(c.Key).TraceID().Key())
	mustClaim(t, s, c, dedup.Seen)
	done, report, err := s.Repair(context.Background())
	if err != nil || len(done) != 1 || done[0].Done != repairedTrace || !report.Sound() || report.Remembered != 1 {
		t.Fatalf("%+v, %+v, %v", done, report, err)
	}
	mustClaim(t, s, c, dedup.Seen)
}

func TestABackupHoldsWhatIsRemembered(t *testing.T) {
	t.Parallel()
	clock, o := deduptest.NewClock(), quiet()
	o.Clock = clock
	s := open(t, t.TempDir(), o)
	mustClaim(t, s, rememberedClaim("a"), dedup.New)
	var file bytes.Buffer
	if err := s.Backup(context.Background(), &file); err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(t.TempDir(), "restored")
	if err := Restore(context.Background(), dir, o, &file); err != nil {
		t.Fatal(err)
	}
	clock.Advance(2 * time.Hour)
	again := open(t, dir, o)
	mustClaim(t, again, rememberedClaim("a"), dedup.Seen)
	mustClaim(t, again, rememberedClaim("b"), dedup.New)
}

func TestAYoungMemoryLogsItsStart(t *testing.T) {
	t.Parallel()
	var log bytes.Buffer
	clock, o := deduptest.NewClock(), quiet()
	o.Clock, o.AcceptClock, o.Logger = clock, true, slog.New(slog.NewTextHandler(&log, nil))
	since := "since=" + clock.Now().UTC().Format(time.DateOnly)
	dir := t.TempDir()
	for _, after := range []time.Duration{0, 80 * 24 * time.Hour, 11 * 24 * time.Hour} {
		clock.Advance(after)
		shut(t, open(t, dir, o))
	}
	if n := strings.Count(log.String(), since); n != 2 {
		t.Errorf("it is logged %d times, want at the two starts within 90 days:\n%s", n, log.String())
	}
}

func TestAGapForgetsNothingThatIsRemembered(t *testing.T) {
	t.Parallel()
	clock, o := deduptest.NewClock(), quiet()
	o.Clock = clock
	s := open(t, t.TempDir(), o)
	mustClaim(t, s, rememberedClaim("a"), dedup.New)
	shut(t, s)
	clock.Advance(200 * 24 * time.Hour) // the machine was off, or its clock is wrong
	s = open(t, s.dir, o)
	pruned(t, s)
	if n := stored(t, s, record.FamilyTrace); n != 1 {
		t.Errorf("%d keys are stored", n)
	}
	mustClaim(t, s, rememberedClaim("a"), dedup.Known) // its window did not end meanwhile
	clock.Advance(2 * time.Hour)
	mustClaim(t, s, rememberedClaim("a"), dedup.Seen)
}
