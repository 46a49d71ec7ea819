package pgstore

import (
	"bytes"
	"maps"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/eyelet-dev/eyelet/dedup"
)

const (
	updateEventSQL = `UPDATE {{schema}}.event SET current = $2, hold = $3, newest = $4, tasks = $5, expires = $6,
  extra = $7, response = $8, body = CASE WHEN $9 THEN NULL ELSE body END WHERE seq = $1`

	insertAliasSQL = `INSERT INTO {{schema}}.alias (hash, seq) SELECT * FROM unnest($1::bytea[], $2::int8[])`
	moveAliasSQL   = `UPDATE {{schema}}.alias a SET seq = v.seq FROM unnest($1::bytea[], $2::int8[]) AS v(hash, seq)
  WHERE a.hash = ANY($1) AND a.hash = v.hash`
	deleteAliasSQL = `DELETE FROM {{schema}}.alias WHERE hash = ANY($1::bytea[]) AND seq = $2`

	insertTraceSQL = `INSERT INTO {{schema}}.trace (hash, day, count) VALUES ($1, $2, $3)`
	updateTraceSQL = `UPDATE {{schema}}.trace SET day = $2, count = $3 WHERE hash = $1`
	deleteTraceSQL = `DELETE FROM {{schema}}.trace WHERE hash = $1`
)

// save queues the statements that store what a step changed. Statements that insert fail if
// another process inserted the same meanwhile.
func (v *view) save(b *pgx.Batch) {
	var fresh []*row
	var tasks taskColumns
	for _, w := range v.rows() {
		if w.deleted {
			continue
		}
		if w.fresh {
			fresh = append(fresh, w)
			continue
		}
		v.saveEvent(b, w)
		for i := range w.rec.Tasks {
			if i >= len(w.tasks) || changed(&w.tasks[i], &w.rec.Tasks[i]) || w.stored.hold != w.rec.Hold ||
				w.stored.sweeps != w.sweeps() || w.swept {
				tasks.add(w, i)
			}
		}
	}
	if len(tasks.seq) > 0 {
		b.Queue(v.db.sql(saveTasksSQL), tasks.args()...)
	}
	if len(fresh) > 0 {
		v.insert(b, fresh)
	}
	v.saveAliases(b)
	for hash, t := range v.traces {
		switch {
		case !t.changed:
		case t.Count == 0:
			b.Queue(v.db.sql(deleteTraceSQL), hash[:])
		case t.found:
			b.Queue(v.db.sql(updateTraceSQL), hash[:], int(t.Day), int(t.Count))
		default:
			b.Queue(v.db.sql(insertTraceSQL), hash[:], int(t.Day), int(t.Count))
		}
	}
}

func (v *view) saveEvent(b *pgx.Batch, w *row) {
	s := w.state()
	if s == w.stored && (!w.swept || s.tasks > 0) {
		return
	}
	b.Queue(v.db.sql(updateEventSQL), w.seq, s.current, s.hold, s.newest, s.tasks,
		moment(s.expires), bytesOf(s.extra), bytesOf(s.response), s.dropped)
	var gone [][]byte
	for _, name := range w.aliases {
		if h := name.Hash(); !slices.Contains(w.rec.Aliases, name) {
			gone = append(gone, h[:])
		}
	}
	if len(gone) > 0 {
		b.Queue(v.db.sql(deleteAliasSQL), gone, w.seq)
	}
}

// saveAliases moves aliases to their new records. Those of new records too: they may have been
// those of others.
func (v *view) saveAliases(b *pgx.Batch) {
	var add, move struct {
		hashes [][]byte
		seqs   []int64
	}
	byHash := func(a, b keyHash) int { return bytes.Compare(a[:], b[:]) }
	for _, hash := range slices.SortedFunc(maps.Keys(v.byAlias), byHash) { // in one order, against deadlocks
		w := v.byAlias[hash]
		if w == nil || w.seq == v.owners[hash] {
			continue
		}
		to := &move
		if v.owners[hash] == 0 {
			to = &add
		}
		to.hashes, to.seqs = append(to.hashes, slices.Clone(hash[:])), append(to.seqs, w.seq)
	}
	if len(add.hashes) > 0 {
		b.Queue(v.db.sql(insertAliasSQL), add.hashes, add.seqs)
	}
	if len(move.hashes) > 0 {
		b.Queue(v.db.sql(moveAliasSQL), move.hashes, move.seqs)
	}
}

// insert queues the statement that stores new records, all of them or none.
func (v *view) insert(b *pgx.Batch, fresh []*row) {
	var in insertion
	for _, w := range fresh {
		in.add(&w.rec, w.hash, w.seq)
	}
	b.Queue(v.db.sql(insertAllSQL), in.args(&v.now)...)
}

func bytesOf(s string) []byte {
	if s == "" {
		return nil
	}
	return []byte(s)
}

// changed reports whether a task differs from what is stored.
func changed(a, b *dedup.Task) bool {
	return a.State != b.State || a.Attempt != b.Attempt || a.Postponed != b.Postponed || a.Token != b.Token ||
		!a.Due.Equal(b.Due) || !a.Until.Equal(b.Until) || !a.Ended.Equal(b.Ended) || !a.Started.Equal(b.Started) ||
		a.Reason != b.Reason || a.Err != b.Err || len(a.History) != len(b.History)
}

// taskColumns are the tasks of a statement, one array a column.
type taskColumns struct {
	seq, token, win                     []int64
	idx, state                          []int16
	hold, drops                         []bool
	attempt, postponed, size            []int32
	due, started, ended, until, expires []*time.Time
	handler, lanename, reason, err      []string
	lane, history                       [][]byte
}

const (
	taskValues = `SELECT * FROM unnest($1::int8[], $2::int2[], $3::int2[], $4::bool[], $5::bool[], $6::int4[], $7::int4[],
  $8::int4[], $9::int8[], $10::int8[], $11::timestamptz[], $12::timestamptz[], $13::timestamptz[], $14::timestamptz[],
  $15::timestamptz[], $16::text[], $17::text[], $18::bytea[], $19::text[], $20::text[], $21::bytea[])`
	taskNames = `seq, idx, state, hold, drops, attempt, postponed, size, token, win, due, started, ended, until, expires,
  handler, lanename, lane, reason, err, history`

	// saveTasksSQL changes tasks, and adds those that a reopened event did not have.
	saveTasksSQL = `WITH v AS (` + taskValues + ` AS v(` + taskNames + `)),
u AS (UPDATE {{schema}}.task t SET state = v.state, hold = v.hold, attempt = v.attempt, postponed = v.postponed, token = v.token,
  due = v.due, started = v.started, ended = v.ended, until = v.until, expires = v.expires, lane = v.lane, reason = v.reason,
  err = v.err, history = v.history FROM v WHERE t.seq = ANY($1) AND t.seq = v.seq AND t.idx = v.idx RETURNING t.seq, t.idx)
INSERT INTO {{schema}}.task (` + taskNames + `) SELECT * FROM v
WHERE NOT EXISTS (SELECT 1 FROM u WHERE u.seq = v.seq AND u.idx = v.idx)`
)

func (c *taskColumns) add(w *row, i int) {
	r, t := &w.rec, &w.rec.Tasks[i]
	push(&c.seq, w.seq)
	push(&c.idx, int16(i))
	push(&c.state, int16(t.State))
	push(&c.hold, r.Hold)
	push(&c.drops, r.DropBody)
	push(&c.attempt, int32(t.Attempt))
	push(&c.postponed, int32(t.Postponed))
	push(&c.size, int32(w.size))
	push(&c.token, int64(t.Token))
	push(&c.win, r.Window.Microseconds())
	push(&c.due, moment(t.Due))
	push(&c.started, moment(t.Started))
	push(&c.ended, moment(t.Ended))
	push(&c.until, moment(t.Until))
	push(&c.expires, moment(w.sweepAt()))
	push(&c.handler, text(t.Handler))
	push(&c.lanename, text(t.Lane))
	push(&c.lane, laneOf(r, i))
	push(&c.reason, text(t.Reason))
	push(&c.err, text(t.Err))
	push(&c.history, packHistory(t.History))
}

func (c *taskColumns) args() []any {
	return []any{
		c.seq, c.idx, c.state, c.hold, c.drops, c.attempt, c.postponed, c.size, c.token, c.win, c.due, c.started,
		c.ended, c.until, c.expires, c.handler, c.lanename, c.lane, c.reason, c.err, c.history,
	}
}

// drop queues the statements that delete a record.
func (v *view) drop(b *pgx.Batch, w *row) {
	w.deleted = true
	for _, table := range []string{"task", "alias", "event"} {
		b.Queue(v.db.sql("DELETE FROM {{schema}}."+table+" WHERE seq = $1"), w.seq)
	}
}
