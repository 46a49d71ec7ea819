//go:build unix

package pgstore

import (
	"context"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/eyelet-dev/eyelet/dedup"
)

// TestTablesStopGrowing accepts, handles and forgets events for EYELET_BLOAT, such as 10m, with a
// window of a tenth of that. From half of the time on, tables and indexes do not grow by more than
// a quarter for each event that they had at most: the rate depends on what else the machine does.
func TestTablesStopGrowing(t *testing.T) {
	t.Parallel()
	most := bloat(t)
	s, dsn := newStore(t, "", Options{})
	exec := admin(t, s, dsn)
	exec("ALTER SYSTEM SET autovacuum_naptime = '5s'")
	exec("SELECT pg_reload_conf()")
	l := loaded{store: s, window: most / 10}
	l.run(t)
	var records, bytes int64 // the most so far
	var half, whole float64  // bytes for each record
	for begin := time.Now(); time.Since(begin) < most; {
		time.Sleep(most / 40)
		st, err := s.count(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		records, bytes = max(records, st.Records), max(bytes, st.Bytes)
		if whole = float64(bytes) / float64(records); time.Since(begin) < most/2 {
			half = whole
		}
		t.Logf("%v: %d accepted, %d records, %d pending, the longest due since %v, %d MiB",
			time.Since(begin).Round(time.Second), l.accepted.Load(), st.Records, st.Pending,
			time.Since(st.Oldest).Round(time.Millisecond), st.Bytes>>20)
	}
	l.stop()
	if t.Logf("%.0f bytes for an event after half of the time, %.0f in the end", half, whole); whole > half*5/4 {
		t.Error("the tables grow")
	}
}

// TestASnapshotThatIsHeldOpenSlowsNoTake accepts and handles events for EYELET_BLOAT, of which a
// snapshot is open in the last four fifths. It runs alone: nothing in the database is vacuumed
// meanwhile.
func TestASnapshotThatIsHeldOpenSlowsNoTake(t *testing.T) {
	most := bloat(t)
	s, dsn := newStore(t, "", Options{})
	l := loaded{store: s, window: time.Hour}
	l.run(t)
	time.Sleep(most / 5)
	before := l.median()
	c, err := pgx.Connect(t.Context(), dsn)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close(context.Background())
	if _, err := c.Exec(t.Context(), "BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT 1 FROM pg_class",
		pgx.QueryExecModeSimpleProtocol); err != nil {
		t.Fatal(err)
	}
	for i := range 4 {
		time.Sleep(most / 5)
		now := l.median()
		t.Logf("fifth %d: %d accepted, a Take takes %v, before %v", i+2, l.accepted.Load(), now, before)
		if now > 3*before {
			t.Error("that is more than three times as long")
		}
	}
	l.stop()
}

// bloat returns how long a test runs.
func bloat(t *testing.T) time.Duration {
	t.Helper()
	most, err := time.ParseDuration(os.Getenv("EYELET_BLOAT"))
	if err != nil {
		t.Skip("set EYELET_BLOAT to a duration, such as 10m")
	}
	return most
}

// loaded is a store that accepts and handles as many events as it can.
type loaded struct {
	store    *Store
	window   time.Duration
	accepted atomic.Int64
	stop     func()

	mu    sync.Mutex
	takes []time.Duration // since the last median
}

// run starts the load.
func (l *loaded) run(t *testing.T) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	var finished atomic.Int64
	var wg sync.WaitGroup
	l.stop = func() { cancel(); wg.Wait() }
	for range 16 {
		wg.Go(func() {
			for ctx.Err() == nil {
				if l.accepted.Load()-finished.Load() > 100 {
					time.Sleep(time.Millisecond)
					continue
				}
				c := benchClaim()
				c.Window = l.window
				if _, err := l.store.Claim(context.WithoutCancel(ctx), c); err != nil {
					t.Error(err)
				}
				l.accepted.Add(1)
			}
		})
	}
	wg.Go(func() {
		want := dedup.Want{Tasks: 64, Bytes: 1 << 20, Lease: time.Minute, Handlers: []string{"ship"}}
		for {
			began := time.Now()
			works, err := l.store.Take(ctx, want)
			if err != nil {
				return
			}
			l.mu.Lock()
			l.takes = append(l.takes, time.Since(began))
			l.mu.Unlock()
			results := make([]dedup.LeaseResult, len(works))
			for i, w := range works {
				results[i] = dedup.LeaseResult{Lease: w.Lease, Result: done}
			}
			for _, err := range l.store.FinishMany(context.WithoutCancel(ctx), results...) {
				if err != nil {
					t.Error(err)
				}
			}
			finished.Add(int64(len(works)))
		}
	})
}

// median returns how long half of the takes took at most, of those since it was called last.
func (l *loaded) median() time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	takes := l.takes
	l.takes = nil
	if len(takes) == 0 {
		return 0
	}
	slices.Sort(takes)
	return takes[len(takes)/2]
}
