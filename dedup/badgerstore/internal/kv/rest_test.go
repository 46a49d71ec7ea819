package kv

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/eyelet-dev/eyelet/dedup/badgerstore/internal/redolog"
)

// TestTheApplierRests has transactions of 10 ms: commits have the processor three times as long,
// unless a reader or a commit waits for the changeset.
func TestTheApplierRests(t *testing.T) {
	t.Parallel()
	rests := func(change func(a *applier, n int)) (all []int64) {
		synctest.Test(t, func(*testing.T) {
			a := &applier{overlay: newOverlay(0, redolog.Position{}, 1, nil), ending: make(chan struct{})}
			rest := a.rest()
			for n := range 10 {
				change(a, n)
				begin := time.Now()
				rest(10 * time.Millisecond)
				all = append(all, time.Since(begin).Milliseconds())
			}
		})
		return all
	}
	for name, tc := range map[string]struct {
		change func(a *applier, n int)
		want   string
	}{
		"at most applyEvery": {func(*applier, int) {}, "[30 30 30 30 30 30 30 30 10 0]"},
		"a reader waits": {func(a *applier, n int) {
			if n == 2 {
				notify(a.overlay.hurry)
			}
		}, "[30 30 0 0 0 0 0 0 0 0]"},
		"the store is closed": {func(a *applier, n int) {
			if n == 1 {
				close(a.ending)
			}
		}, "[30 0 0 0 0 0 0 0 0 0]"},
		"commits wait for room": {func(a *applier, n int) {
			a.overlay.live.bytes = 0
			if n == 1 {
				a.overlay.live.bytes = changesetBytes
			}
		}, "[30 0 30 30 30 30 30 30 30 10]"},
	} {
		if got := fmt.Sprint(rests(tc.change)); got != tc.want {
			t.Errorf("%s: rests of %v ms, want %s", name, got, tc.want)
		}
	}
}

// TestAChangesetIsPutInPieces: after each transaction its keys can be read, those of the next
// cannot. The last commit of which something is at rest is known from the first one on, and from
// each table, whose keys therefore overlap those of lower levels.
func TestAChangesetIsPutInPieces(t *testing.T) {
	t.Parallel()
	o := create(t, tiny(t))
	g := newChangeset(0)
	g.last = 7
	for n := range 8*txnKeys + 10 {
		g.writes[string(keyOf('s', n))] = write{value: []byte("value"), content: make([]byte, 2*inlineMost)}
	}
	keys := slices.Sorted(maps.Keys(g.writes))
	found := func(n int) bool {
		value, content, err := o.index.get([]byte(keys[min(n, len(keys)-1)]), true)
		return err == nil && string(value) == "value" && len(content) == 2*inlineMost
	}
	o.applier.gate.Lock()
	put := 0
	err := o.index.put(o.applier.version+1, g, func(time.Duration) {
		put = min(put+txnKeys, len(keys))
		if reached, err := o.index.reached(); err != nil || reached != 7 {
			t.Errorf("after %d keys: commit %d, %v", put, reached, err)
		}
		if !found(0) || !found(put-1) || found(put) != (put == len(keys)) {
			t.Errorf("after %d keys: %v, %v, %v", put, found(0), found(put-1), found(put))
		}
	})
	o.applier.gate.Unlock()
	if err != nil || put != len(keys) {
		t.Errorf("%v, %d keys", err, put)
	}
	if _, _, err := o.checkpoint.pass(); err != nil {
		t.Fatal(err)
	}
	tables := o.Badger().Tables()
	for _, table := range tables {
		if bytes.Compare(table.Right, reachedKey) < 0 || len(tables) < 3 {
			t.Errorf("%d tables, one ends with %q", len(tables), table.Right)
		}
	}
	if err := o.Close(); err != nil {
		t.Fatal(err)
	}
}

// TestACheckpointReadsItsPositionFirst lets a memory table begin, and a changeset come to rest in
// it, while a checkpoint reads the position: it waits for that table.
func TestACheckpointReadsItsPositionFirst(t *testing.T) {
	t.Parallel()
	o := create(t, tiny(t))
	o.commit(t, Entry{Key: keyOf('e', 1), Value: []byte("value")})
	if err := o.Settle(); err != nil {
		t.Fatal(err)
	}
	o.applier.gate.Lock()
	o.overlay.mu.Lock()
	passed := make(chan error)
	go func() {
		_, _, err := o.checkpoint.pass()
		passed <- err
	}()
	time.Sleep(20 * time.Millisecond) // it is there, or is only slow
	before, _, err := o.checkpoint.memTables(0)
	newest := before
	for newest == before && err == nil {
		if err = o.index.fill(o.overlay.visible, fillerSize(o.Badger().Opts().MemTableSize), fillerKey); err == nil {
			newest, _, err = o.checkpoint.memTables(0)
		}
	}
	for gone := false; !gone && err == nil; _, gone, err = o.checkpoint.memTables(before) {
		time.Sleep(time.Millisecond)
	}
	o.overlay.mu.Unlock()
	o.applier.gate.Unlock()
	if err = errors.Join(err, <-passed); err != nil {
		t.Fatal(err)
	}
	if _, gone, err := o.checkpoint.memTables(newest); !gone {
		t.Errorf("memory table %d is there: %v", newest, err)
	}
	if err := o.Close(); err != nil {
		t.Fatal(err)
	}
}
