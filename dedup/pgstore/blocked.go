package pgstore

import (
	"context"
	"slices"

	"github.com/jackc/pgx/v5"

	"github.com/eyelet-dev/eyelet/dedup"
)

// shortWait is how many milliseconds results that are stored together wait for a lock. Then those
// that are not blocked are stored without the others.
var shortWait = new("250")

// waitSQL bounds the wait for locks until the end of the transaction. NULL changes nothing.
const waitSQL = `SELECT set_config('lock_timeout', coalesce($1, current_setting('lock_timeout')), true)`

// blockedSQL returns the events which another transaction has locked, or tasks of which it has.
const blockedSQL = `WITH e AS MATERIALIZED (SELECT e.seq FROM {{schema}}.event e WHERE e.seq = ANY($1::int8[]) FOR UPDATE SKIP LOCKED),
t AS MATERIALIZED (SELECT t.seq, t.idx FROM {{schema}}.task t WHERE t.seq = ANY($1) FOR UPDATE SKIP LOCKED)
SELECT e.seq FROM {{schema}}.event e WHERE e.seq = ANY($1) AND e.seq NOT IN (SELECT seq FROM e)
UNION SELECT t.seq FROM {{schema}}.task t WHERE t.seq = ANY($1) AND (t.seq, t.idx) NOT IN (SELECT seq, idx FROM t)`

// blockedOf returns the events of results that are locked now.
func blockedOf(ctx context.Context, db *database, entries []*finishEntry) ([]int64, error) {
	all := make([]int64, len(entries))
	for i, e := range entries {
		all[i] = e.seq
	}
	b := &pgx.Batch{}
	b.Queue(waitSQL, shortWait) // alone: to prepare the next statement waits for locks of tables
	tx, done, err := db.begin(ctx, b)
	if err != nil {
		return nil, err
	}
	defer done()
	rows, err := tx.Query(ctx, db.sql(blockedSQL), all)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, pgx.RowTo[int64])
}

// fencedOf returns the events of results that have fences.
func fencedOf(entries []*finishEntry) (seqs []int64) {
	for _, e := range entries {
		if e.fenced {
			seqs = append(seqs, e.seq)
		}
	}
	return seqs
}

// setAside returns the results of calls that are left without those about blocked events. Of a
// call that does not wait, these get an error.
func setAside(ops []*finishOp, blocked []int64) (left []*finishEntry) {
	for _, op := range ops {
		for _, e := range op.entries {
			switch {
			case e.ended:
			case !slices.Contains(blocked, e.seq):
				left = append(left, e)
			case !op.waits:
				e.ended, e.err = true, &dedup.ErrUnavailable{Reason: reasonLocked, RetryAfter: soon}
			}
		}
	}
	return left
}
