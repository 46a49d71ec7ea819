package badgerstore

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/dgraph-io/badger/v4"

	"github.com/eyelet-dev/eyelet/dedup"
	"github.com/eyelet-dev/eyelet/dedup/badgerstore/internal/record"
	"github.com/eyelet-dev/eyelet/dedup/deduptest"
)

// lines calls itself with every log line of Badger's.
type lines func(text string)

func (lines) Enabled(context.Context, slog.Level) bool { return true }
func (l lines) WithAttrs([]slog.Attr) slog.Handler     { return l }
func (l lines) WithGroup(string) slog.Handler          { return l }
func (l lines) Handle(_ context.Context, r slog.Record) error {
	r.Attrs(func(a slog.Attr) bool {
		l(a.Value.String())
		return true
	})
	return nil
}

// outdated returns a store with several value log files, the first of which holds only deleted
// values, except for the bodies of kept, by event.
func outdated(t *testing.T, o Options) (s *Store, kept map[string]dedup.Claim) {
	t.Helper()
	clock := deduptest.NewClock()
	o.Clock, o.logFile = clock, 8<<20
	s = open(t, t.TempDir(), o)
	kept = map[string]dedup.Claim{}
	for i := range 40 {
		c := largeClaim(fmt.Sprint(i), record.ChunkSize)
		if i%10 != 0 {
			c.Tasks = nil
		}
		event := mustClaim(t, s, c, dedup.New).Record.Event
		if i%10 == 0 {
			kept[event] = c
		}
	}
	clock.Advance(26 * time.Hour)
	if err := s.maintenance.sweep(ownRhythm().slack); err != nil {
		t.Fatal(err)
	}
	return s, kept
}

// TestACollectionStartsBetweenCommitsAndThenDelaysNone uses Badger's log lines: one before the
// unlocked read with which a collection begins, and one at its end, when the old file is deleted.
func TestACollectionStartsBetweenCommitsAndThenDelaysNone(t *testing.T) {
	t.Parallel()
	var committing atomic.Bool
	var began, ended atomic.Int32
	ending, claimed := make(chan struct{}, 1), make(chan struct{})
	o := quiet()
	o.Logger = slog.New(lines(func(text string) {
		switch {
		case strings.HasPrefix(text, "Rewriting fid"):
			began.Add(1)
			for range 100 { // long enough for a commit if one could begin
				if committing.Load() {
					t.Error("a collection starts during a commit")
					return
				}
				time.Sleep(time.Millisecond)
			}
		case strings.HasPrefix(text, "Removing fid"):
			if ended.Add(1) == 1 {
				ending <- struct{}{}
				select {
				case <-claimed:
				case <-time.After(time.Minute):
					t.Error("no claim passes during a collection")
				}
			}
		}
	}))
	o.commit = func(txn *badger.Txn) error {
		committing.Store(true)
		defer committing.Store(false)
		return txn.Commit()
	}
	s, _ := outdated(t, o)
	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		for i := 0; ; i++ {
			select {
			case <-ending:
				mustClaimInLoop(t, s, claimOf("while it is under way"))
				close(claimed)
			case <-stop:
				return
			default:
				mustClaimInLoop(t, s, claimOf(fmt.Sprint("new ", i)))
			}
		}
	}()
	if err := s.maintenance.reclaim(); err != nil {
		t.Error(err)
	}
	close(stop)
	<-stopped
	if began.Load() == 0 || ended.Load() == 0 {
		t.Errorf("%d collections began, %d ended", began.Load(), ended.Load())
	}
}

func TestBadgerStillFlagsACollection(t *testing.T) {
	t.Parallel()
	s := open(t, t.TempDir(), quiet())
	if mark := collecting(s.db); mark == nil || mark.Load() {
		t.Error("badger.DB has no field gcActive, or it reports a running collection: commits wait for " +
			"whole collections")
	}
	for _, line := range []string{"vlog.db.gcDiscardTs.Store(vlog.db.MaxVersion())\n\tvlog.db.gcActive.Store(true)"} {
		if !strings.Contains(badgerSource(t, "value.go"), line) {
			t.Errorf("value.go no longer has %q, which collecting relies on", line)
		}
	}
}

func TestALowDiskReclaimsSpaceWhileItCan(t *testing.T) {
	t.Parallel()
	fs, o := diskOf(10 << 30)
	s := open(t, t.TempDir(), o)
	mustClaim(t, s, claimOf("a"), dedup.New)
	for _, tc := range []struct {
		free int64
		left int64 // bytes removed after it
	}{
		{100 << 20, 1},
		{400 << 20, 0},
	} {
		s.removed.Store(1)
		fs.leave(s, tc.free)
		if !s.disk.state().low() || s.disk.state().frozen() {
			t.Fatal("the disk is not low, or too full")
		}
		if err := s.maintenance.reclaim(); (err == nil) != (tc.left == 0) || s.removed.Load() != tc.left {
			t.Errorf("%s are free: %v; %d bytes can still be reclaimed", mib(tc.free), err, s.removed.Load())
		}
	}
}
