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

	"github.com/eyelet-dev/eyelet/dedup"
)

// TestTablesStopGrowing accepts, handles and forgets events for EYELET_BLOAT, such as 10m, with a
// window of a tenth of that. After two fifths of
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
	begin := time.Now()
	for next := begin; time.Since(begin) < most; time.Sleep(most / 600) {
		st, err := s.count(t.Context())
		if err != nil {
			t.Fatal(err)
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
		t.Logf("%v: %d accepted, %d events at most, %d MiB at most",
			passed.Round(time.Second), l.accepted.Load(), events, bytes>>20)
		next = next.Add(most / 40)
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
	t.Logf("bytes for each event: %.0f to %.0f, then %.0f to %.0f; %.0f are live",
		slices.Min(each), slices.Max(each), slices.Min(later), slices.Max(later), live)
	if slices.Max(each) > live*5/2 || slices.Max(later) > slices.Min(later)*5/4 {
		t.Error("the tables grow")
	}
}

// events returns how many events the tables have.
func (s *Store) events(t *testing.T) (n int64) {
	t.Helper()
	scan(t, s, "SELECT count(*) FROM {{schema}}.event", nil, &n)
	return n
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
			works, err := l.store.Take(ctx, want)
			if err != nil {
				return
			}
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
