package dedup_test

import (
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/eyelet-dev/eyelet/dedup"
	"github.com/eyelet-dev/eyelet/dedup/deduptest"
)

// linearizable compares a history, key by key, with a store that does one call after another.
func linearizable(history []deduptest.Operation) (key string, result porcupine.CheckResult) {
	model := (&porcupine.NondeterministicModel{
		Init: func() []any { return []any{deduptest.KeyState{}} },
		Step: func(state, input, output any) []any {
			var out []any
			for _, s := range state.(deduptest.KeyState).Steps(input.(deduptest.Call), output.(deduptest.Effect)) {
				out = append(out, s)
			}
			return out
		},
	}).ToModel()
	for key, ops := range deduptest.ByKey(history) {
		var found []porcupine.Operation
		for _, o := range ops {
			found = append(found, porcupine.Operation{ClientId: o.Client, Input: o.Call, Output: o.Effect, Call: o.Began, Return: o.Ended})
		}
		if got := porcupine.CheckOperationsTimeout(model, found, 20*time.Second); got != porcupine.Ok {
			return key, got
		}
	}
	return "", porcupine.Ok
}

func TestConcurrentHistoriesOfMemoryAreLinearizable(t *testing.T) {
	t.Parallel()
	for round := range 20 {
		seed := rand.Uint64()
		store := dedup.NewMemory(dedup.MemoryOptions{})
		var mu sync.Mutex
		var history []deduptest.Operation
		start := time.Now()
		r := &deduptest.Recorder{
			Store: store, Keys: 6, Now: func() int64 { return int64(time.Since(start)) },
			Note: func(o deduptest.Operation) {
				mu.Lock()
				defer mu.Unlock()
				if o.Ended != 0 && !o.Void {
					history = append(history, o)
				}
			},
		}
		var wg sync.WaitGroup
		for client := range 6 {
			wg.Go(func() {
				if err := r.Run(t.Context(), client, 40, rand.New(rand.NewPCG(seed, uint64(client)))); err != nil {
					t.Errorf("client %d: %v", client, err)
				}
			})
		}
		wg.Wait()
		if err := store.Close(); err != nil {
			t.Fatal(err)
		}
		if len(history) < 60 {
			t.Errorf("round %d: only %d calls", round, len(history))
		}
		if key, got := linearizable(history); got != porcupine.Ok {
			t.Fatalf("round %d, seed %d, key %s: %d calls are %s", round, seed, key, len(history), got)
		}
	}
}
