package badgerstore

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/eyelet-dev/eyelet/dedup"
	"github.com/eyelet-dev/eyelet/dedup/badgerstore/internal/kv"
	"github.com/eyelet-dev/eyelet/dedup/badgerstore/internal/record"
	"github.com/eyelet-dev/eyelet/dedup/deduptest"
)

// outdated returns a store with several value files that hold mostly deleted values, and the claims
// of the other ones by event.
func outdated(t *testing.T, o Options) (s *Store, kept map[string]dedup.Claim) {
	t.Helper()
	clock := deduptest.NewClock()
	o.Clock, o.valueFile = clock, 256<<10
	s = open(t, t.TempDir(), o)
	kept = map[string]dedup.Claim{}
	for i := range 120 {
		c := largeClaim(fmt.Sprint(i), 10_000)
		if i == 60 {
			c = largeClaim(fmt.Sprint(i), record.InlineMost+10)
		}
		if i%10 != 0 {
			c.Tasks = nil
		}
		event := mustClaim(t, s, c, dedup.New).Record.Event
		if i%10 == 0 {
			kept[event] = c
		}
	}
	if err := s.db.Checkpoint(); err != nil { // the values are in files before they are deleted
		t.Fatal(err)
	}
	clock.Advance(26 * time.Hour)
	if err := s.maintenance.sweep(ownRhythm().slack); err != nil {
		t.Fatal(err)
	}
	return s, kept
}

// valueFiles returns the value files of a store.
func valueFiles(t *testing.T, dir string) []string {
	t.Helper()
	return logs(t, filepath.Join(dir, "values"), ".values")
}

func sameBodies(t *testing.T, s *Store, kept map[string]dedup.Claim) {
	t.Helper()
	for event, c := range kept {
		r, err := s.Get(context.Background(), event)
		if err != nil {
			t.Error(err)
		}
		sameBody(t, r.Payload.Body, c.Payload.Body)
	}
}

func TestValueFilesAreReclaimedUnderLoad(t *testing.T) {
	t.Parallel()
	s, kept := outdated(t, quiet())
	full := valueFiles(t, s.dir)
	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		for i := 0; ; i++ {
			select {
			case <-stop:
				return
			default:
				mustClaimInLoop(t, s, claimOf(fmt.Sprint("new ", i)))
				sameBodies(t, s, kept)
			}
		}
	}()
	// The values that a list returns stay readable until its end.
	listed := 0
	for _, err := range s.List(t.Context(), dedup.Filter{}) {
		if err != nil {
			t.Error(err)
		}
		if listed++; listed == 1 {
			if err := s.maintenance.reclaim(t.Context()); err != nil {
				t.Error(err)
			}
		}
	}
	close(stop)
	<-stopped
	// Once more: files that were being written are complete now.
	if err := s.maintenance.reclaim(t.Context()); err != nil {
		t.Error(err)
	}
	left := 0
	for _, file := range full {
		if _, err := os.Stat(file); !errors.Is(err, fs.ErrNotExist) {
			left++
		}
	}
	// That of the large body, the one that was being written, and one of whose few values half are
	// live.
	if left > 3 {
		t.Errorf("%d of %d value files are left", left, len(full))
	}
	sameBodies(t, s, kept)
	if n := s.Damaged(); n != 0 {
		t.Errorf("%d values were reported as damaged", n)
	}
	shut(t, s)
	o := quiet()
	o.Clock = s.clock
	sameBodies(t, open(t, s.dir, o), kept)
}

// TestReclaimingOverwritesNoChange takes tasks after their events were read, before the commit that
// writes what was read again, or in it.
func TestReclaimingOverwritesNoChange(t *testing.T) {
	t.Parallel()
	for _, together := range []bool{false, true} {
		s, kept := outdated(t, quiet())
		taken := 0
		do := func(ops ...op) error {
			if err := s.queue.push(ops...); err != nil {
				return err
			}
			for _, o := range ops {
				<-o.self().done
			}
			return nil
		}
		err := s.db.Reclaim(t.Context(), func(values []kv.Stored) error {
			move, take := &moveOp{ticket: newTicket(false), values: values}, takeOpOf(len(kept))
			if taken > 0 {
				return do(move)
			}
			var err error
			if together {
				err = do(take, move)
			} else {
				err = errors.Join(do(take), do(move))
			}
			taken = len(take.work)
			return errors.Join(err, take.err, move.err)
		}, func(key []byte, err error) { t.Errorf("key %x: %v", key, err) })
		if err != nil || taken != len(kept) {
			t.Fatalf("together %t: %d of %d tasks were taken, %v", together, taken, len(kept), err)
		}
		for event := range kept {
			if r, err := s.Get(t.Context(), event); err != nil || r.Tasks[0].State != dedup.Running {
				t.Errorf("together %t: event %s: %v, %v", together, event, r.Tasks, err)
			}
		}
		sameBodies(t, s, kept)
	}
}
