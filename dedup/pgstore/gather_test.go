package pgstore

import (
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// TestBatchesRunOneByOneUnlessOneTakesLong lets the first batch take a millisecond, and an hour.
// The operations that come meanwhile are gathered, but one that the other worker may have.
func TestBatchesRunOneByOneUnlessOneTakesLong(t *testing.T) {
	t.Parallel()
	for takes, want := range map[time.Duration]time.Duration{time.Millisecond: time.Millisecond, time.Hour: overlap} {
		synctest.Test(t, func(t *testing.T) {
			var wg sync.WaitGroup
			var mu sync.Mutex
			var lengths []int
			began, gathered := time.Now(), time.Duration(0)
			g := gatherer[time.Duration]{}
			g.start(&wg, 2, 100, func(time.Duration) int { return 1 }, func(batch []time.Duration) {
				time.Sleep(batch[0])
				mu.Lock()
				defer mu.Unlock()
				if lengths = append(lengths, len(batch)); len(batch) > 1 {
					gathered = time.Since(began)
				}
			})
			for i, takes := range []time.Duration{takes, 0, 0, 0, 0} {
				if err := g.put(t.Context(), takes); err != nil {
					t.Error(err)
				}
				if i == 0 {
					synctest.Wait() // the first batch has begun
				}
			}
			g.stop()
			wg.Wait()
			if slices.Max(lengths) < 3 || gathered != want {
				t.Errorf("batches of %v, the one of several after %v, want %v", lengths, gathered, want)
			}
		})
	}
}

// TestBatchesRest lets operations come one by one: those of the rest go together.
func TestBatchesRest(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var wg sync.WaitGroup
		var lengths []int
		g := gatherer[int]{rest: 9600 * time.Microsecond}
		g.start(&wg, 1, 100, func(int) int { return 1 }, func(batch []int) { lengths = append(lengths, len(batch)) })
		for range 31 {
			if err := g.put(t.Context(), 0); err != nil {
				t.Error(err)
			}
			time.Sleep(time.Millisecond)
		}
		g.stop()
		wg.Wait()
		if !slices.Equal(lengths, []int{1, 9, 10, 9, 2}) {
			t.Errorf("batches of %v", lengths)
		}
	})
}
