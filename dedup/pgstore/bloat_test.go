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
// window of a tenth of that. No event with an open task is older than a second. After two fifths of
// the time tables and indexes have at most 2.5 times the size that as many events have in tables
// that were just rewritten. From half of the time on they do not grow by more than a quarter for
// each event. That is of the most events so far: the rate depends on what else the machine does,
// and PostgreSQL gives no space back.
func TestTablesStopGrowing(t *testing.T) {
	t.Parallel()
	most := bloat(t)
	s, dsn := newStore(t, "", Options{})
	exec := admin(t, s, dsn)
	exec("TRUNCATE {{schema}}.event, {{schema}}.task, {{schema}}.alias") // an earlier test left their files
	exec("ALTER SYSTEM SET autovacuum_naptime = '5s'")
	exec("SELECT pg_reload_conf()")
	l := loaded{store: s, window: most / 10}
	l.run(t)
	var events, bytes int64   // the most so far
	var each, later []float64 // bytes for each event, from two fifths and from half of the time on
	var late, latest time.Duration
	begin := time.Now()
	for next := begin; time.Since(begin) < most; time.Sleep(most / 600) {
		st, err := s.count(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if st.Pending+st.Running > 0 {
			late = max(late, time.Since(st.Oldest))
		}
		passed := time.Since(begin)
		if begin.Add(passed).Before(next) {
			continue
		}
		events, bytes = max(events, s.events(t)), max(bytes, st.Bytes)
		if passed > most*2/5 {
			each = append(each, float64(bytes)/float64(events))
		}
		if passed > most/2 {
			later = append(later, float64(bytes)/float64(events))
		}
		t.Logf("%v: %d accepted, %d events at most, %d MiB at most, an open task was %v old at most",
			passed.Round(time.Second), l.accepted.Load(), events, bytes>>20, late.Round(time.Millisecond))
		latest, late, next = max(late, latest), 0, next.Add(most/40)
	}
	l.stop()
	left := s.events(t)
	for _, table := range []string{"event", "task", "alias"} {
		exec("VACUUM (FULL, ANALYZE) {{schema}}." + table)
	}
	st, err := s.count(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	live := float64(st.Bytes) / float64(left)
	t.Logf("bytes for each event: %.0f to %.0f, then %.0f to %.0f; %.0f are live; no open task was older than %v",
		slices.Min(each), slices.Max(each), slices.Min(later), slices.Max(later), live, latest)
	if slices.Max(each) > live*5/2 || slices.Max(later) > slices.Min(later)*5/4 {
		t.Error("the tables grow")
	}
	if latest > time.Second {
		t.Error("a task was late")
	}
}

// events returns how many events the tables have.
func (s *Store) events(t *testing.T) (n int64) {
	t.Helper()
	if err := s.db.pool.QueryRow(t.Context(), s.db.sql("SELECT count(*) FROM {{schema}}.event")).Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}

// TestASnapshotThatIsHeldOpenSlowsNoTake accepts and handles events for EYELET_BLOAT, of which a
// snapshot is open in the last four fifths. It runs alone: nothing in the database is vacuumed
// meanwhile. What the snapshot costs grows, so a Take that was slow once, and then is not, had a
// busy machine: the better of the last two fifths counts.
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
	var fifths []time.Duration
	for i := range 4 {
		time.Sleep(most / 5)
		fifths = append(fifths, l.median())
		t.Logf("fifth %d: %d accepted, a Take takes %v, before %v", i+2, l.accepted.Load(), fifths[i], before)
	}
	l.stop()
	if min(fifths[2], fifths[3]) > 3*before {
		t.Error("that is more than three times as long")
	}
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
