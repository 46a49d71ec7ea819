package memstore_test

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/eyelet-dev/eyelet/dedup/memstore"
	"github.com/eyelet-dev/eyelet/internal/history"
)

func TestConcurrentHistoriesOfMemoryAreLinearizable(t *testing.T) {
	t.Parallel()
	for round := range 20 {
		seed := rand.Uint64()
		store := memstore.New(memstore.Options{})
		start := time.Now()
		r := &history.Recorder{Store: store, Keys: 6, Now: func() int64 { return int64(time.Since(start)) }}
		ops, err := r.History(t.Context(), 6, 40, seed)
		if err != nil {
			t.Error(err)
		}
		if err := store.Close(); err != nil {
			t.Fatal(err)
		}
		if len(ops) < 60 {
			t.Errorf("round %d: only %d calls", round, len(ops))
		}
		if err := history.CheckLinearizable(ops); err != nil {
			t.Fatalf("round %d, seed %d: %v", round, seed, err)
		}
	}
}
