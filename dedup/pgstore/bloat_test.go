//go:build unix

package pgstore

import (
	"context"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/eyelet-dev/eyelet/dedup"
)

// TestTablesStopGrowing accepts, handles and forgets events for EYELET_BLOAT, such as 10m, with a
// window of a tenth of that. From half of the time on, tables and indexes do not grow by more than
// a quarter.
func TestTablesStopGrowing(t *testing.T) {
	t.Parallel()
	most, err := time.ParseDuration(os.Getenv("EYELET_BLOAT"))
	if err != nil {
		t.Skip("set EYELET_BLOAT to a duration, such as 10m")
	}
	s, dsn := newStore(t, "", Options{})
	exec := admin(t, s, dsn)
	exec("ALTER SYSTEM SET autovacuum_naptime = '5s'")
	exec("SELECT pg_reload_conf()")
	ctx, cancel := context.WithTimeout(t.Context(), most)
	defer cancel()
	var accepted, finished atomic.Int64
	var wg sync.WaitGroup
	for range 16 {
		wg.Go(func() {
			for ctx.Err() == nil {
				if accepted.Load()-finished.Load() > 10_000 {
					time.Sleep(time.Millisecond)
					continue
				}
				c := benchClaim()
				c.Window = most / 10
				if _, err := s.Claim(context.WithoutCancel(ctx), c); err != nil {
					t.Error(err)
				}
				accepted.Add(1)
			}
		})
	}
	for range 4 {
		wg.Go(func() {
			for {
				works, err := s.Take(ctx, dedup.Want{Tasks: 64, Bytes: 1 << 20, Lease: time.Minute})
				if err != nil {
					return
				}
				results := make([]dedup.LeaseResult, len(works))
				for i, w := range works {
					results[i] = dedup.LeaseResult{Lease: w.Lease, Result: done}
				}
				for _, err := range s.FinishMany(context.WithoutCancel(ctx), results...) {
					if err != nil {
						t.Error(err)
					}
				}
				finished.Add(int64(len(works)))
			}
		})
	}
	var half, highest int64
	for begin := time.Now(); ctx.Err() == nil; {
		select {
		case <-ctx.Done():
		case <-time.After(most / 40):
		}
		st, err := s.count(context.WithoutCancel(ctx))
		if err != nil {
			t.Fatal(err)
		}
		if elapsed := time.Since(begin); elapsed < most/2 {
			half = max(half, st.Bytes)
		} else {
			highest = max(highest, st.Bytes)
		}
		t.Logf("%v: %d accepted, %d records, %d pending, %d MiB", time.Since(begin).Round(time.Second),
			accepted.Load(), st.Records, st.Pending, st.Bytes>>20)
	}
	wg.Wait()
	if highest > half+half/4 {
		t.Errorf("%d bytes in the first half, then %d", half, highest)
	}
}
