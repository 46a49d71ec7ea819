package pgstore

import (
	"fmt"
	"testing"

	"github.com/eyelet-dev/eyelet/dedup"
	"github.com/eyelet-dev/eyelet/internal/pgtest"
)

// TestResultsBehindALockDelayNoOther lets another program keep the lock of one task, then of one
// event, while results of five are recorded in one call, and in calls of their own.
func TestResultsBehindALockDelayNoOther(t *testing.T) {
	t.Parallel()
	pgtest.Direct(t)
	name := fmt.Sprint("blocked-", schemas.Add(1))
	s, dsn := newStore(t, " application_name="+name, Options{})
	exec := admin(t, s, dsn)
	results := []dedup.Result{done, {Kind: dedup.ResultRetry, After: 1 << 40}, {Kind: dedup.ResultDead}, done, done}
	for blocked, table := range []string{"task", "event"} {
		var all []dedup.LeaseResult
		for i, r := range results {
			claim(t, s, event(fmt.Sprint(table, i), "ship"), dedup.New)
			all = append(all, dedup.LeaseResult{Lease: takeOne(t, s).Lease, Result: r})
		}
		locked := seqOf(all[blocked].Lease.Event)
		exec(fmt.Sprintf("BEGIN; SELECT FROM {{schema}}.%s WHERE seq = %d FOR UPDATE", table, locked))
		for i, err := range s.FinishMany(t.Context(), all[:4]...) {
			if i == blocked {
				wantUnavailable(t, table, err)
			} else if err != nil {
				t.Errorf("%s: result %d: %v", table, i, err)
			}
		}
		waits := &finishOp{entries: []*finishEntry{newFinish(all[blocked].Lease, all[blocked].Result)}, waits: true}
		other := &finishOp{entries: []*finishEntry{newFinish(all[4].Lease, done)}, waits: true}
		waits.done, other.done = make(chan struct{}), make(chan struct{})
		s.writeFinishes([]*finishOp{waits, other})
		if !isClosed(other.done) || other.entries[0].err != nil || isClosed(waits.done) {
			t.Errorf("%s: %+v beside %+v", table, other.entries[0], waits.entries[0])
		}
		awaitLock(t, s, name)
		lives(t, s)
		if isClosed(waits.done) {
			t.Errorf("%s: it did not wait: %v", table, waits.entries[0].err)
		}
		exec("ROLLBACK")
		if <-waits.done; waits.entries[0].err != nil {
			t.Errorf("%s: %v", table, waits.entries[0].err)
		}
	}
}
