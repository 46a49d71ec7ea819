package pgstore

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/eyelet-dev/eyelet/dedup"
)

// dueSQL locks the tasks that are due, the longest due first: tasks outside of lanes ($2 at most),
// those whose leases ended, and the next of each lane. A lane has neither a lock nor a row of its
// own: its next task is locked, and an index refuses two that run. $3 is where
// the walk over the lanes begins, and $4 how many it sees.
const dueSQL = `WITH RECURSIVE n AS MATERIALIZED (SELECT coalesce($1::timestamptz, now()) AS now),
due AS MATERIALIZED (SELECT t.seq, t.idx, t.due AS at, t.size FROM {{schema}}.task t
  WHERE t.state = 1 AND t.lane IS NULL AND NOT t.hold AND t.due <= (SELECT now FROM n)
  ORDER BY t.due, t.seq, t.idx LIMIT $2 FOR UPDATE SKIP LOCKED),
lost AS MATERIALIZED (SELECT t.seq, t.idx, t.until AS at, t.size FROM {{schema}}.task t
  WHERE t.state = 2 AND t.lane IS NULL AND NOT t.hold AND t.until <= (SELECT now FROM n)
  ORDER BY t.until LIMIT $2 FOR UPDATE SKIP LOCKED),
walk AS ((SELECT t.lane FROM {{schema}}.task t WHERE t.state < 3 AND t.lane IS NOT NULL AND t.lane > $3::bytea ORDER BY t.lane LIMIT 1)
  UNION ALL SELECT (SELECT t.lane FROM {{schema}}.task t WHERE t.state < 3 AND t.lane IS NOT NULL AND t.lane > w.lane
    ORDER BY t.lane LIMIT 1) FROM walk w WHERE w.lane IS NOT NULL),
lanes AS MATERIALIZED (SELECT w.lane FROM walk w WHERE w.lane IS NOT NULL LIMIT $4),
heads AS MATERIALIZED (SELECT h.* FROM lanes l CROSS JOIN LATERAL (SELECT * FROM (
    (SELECT t.seq, t.idx, t.state, t.until AS at FROM {{schema}}.task t WHERE t.lane = l.lane AND t.state = 2 AND t.lane IS NOT NULL)
    UNION ALL (SELECT t.seq, t.idx, t.state, t.due FROM {{schema}}.task t
      WHERE l.lane >= '\x01' AND t.lane = l.lane AND t.state = 1 AND t.lane >= '\x01' ORDER BY t.due, t.seq, t.idx LIMIT 1)
    UNION ALL (SELECT t.seq, t.idx, t.state, t.due FROM {{schema}}.task t
      WHERE l.lane < '\x01' AND t.lane = l.lane AND t.state < 3 AND t.state = 1 AND t.lane IS NOT NULL ORDER BY t.seq, t.idx LIMIT 1)
  ) x ORDER BY x.state DESC LIMIT 1) h WHERE h.at <= (SELECT now FROM n) ORDER BY h.at LIMIT $2),
laned AS MATERIALIZED (SELECT t.seq, t.idx, h.at, t.size FROM heads h JOIN {{schema}}.task t ON t.seq = h.seq AND t.idx = h.idx
  WHERE t.state = h.state AND CASE t.state WHEN 1 THEN t.due ELSE t.until END <= (SELECT now FROM n) FOR UPDATE OF t SKIP LOCKED)
SELECT c.seq, c.idx, c.size, nextval('{{schema}}.token'), (SELECT count(*) FROM lanes), (SELECT lane FROM lanes ORDER BY lane DESC LIMIT 1), n.now
FROM n LEFT JOIN (SELECT * FROM (SELECT * FROM due UNION ALL SELECT * FROM lost UNION ALL SELECT * FROM laned) u
  ORDER BY u.at, u.seq, u.idx LIMIT $2) c ON true`

const workSQL = `SELECT ` + columns + `, ` + bodyColumn + `
FROM {{schema}}.event e JOIN {{schema}}.task t ON t.seq = e.seq WHERE e.seq = ANY($1::int8[]) ORDER BY e.seq, t.idx`

// take is what one call of Take asks for.
type take struct {
	db    *database
	n     int
	bytes int64
	lease time.Duration
	now   time.Time
	lanes *[]byte // the lanes after this one are next
}

// pick is a task that may be given out.
type pick struct {
	seq, token int64
	idx        int16
}

// try gives out tasks that are due, none if there are none. If ctx ends, it gives out none: what
// the database has is taken back while that is possible, and else returned.
func (t *take) try(ctx, steps context.Context) ([]dedup.Work, error) {
	steps, cancel := context.WithTimeout(steps, stepTimeout)
	defer cancel()
	var picks []pick
	b := &pgx.Batch{}
	b.Queue(t.db.sql(dueSQL), t.db.now(), t.n, *t.lanes, maxLanes).Query(func(rows pgx.Rows) (err error) {
		picks, err = t.picks(rows)
		return err
	})
	tx, done, err := t.db.begin(steps, b)
	if err != nil {
		return nil, err
	}
	defer done()
	if len(picks) == 0 || ctx.Err() != nil {
		return nil, ctx.Err()
	}
	var seqs []int64
	for _, p := range picks {
		seqs = append(seqs, p.seq)
	}
	rows, err := tx.Query(steps, t.db.sql(workSQL), seqs)
	if err != nil {
		return nil, err
	}
	found, err := collect(rows, true)
	if err != nil {
		return nil, err
	}
	work, tasks := t.start(picks, found)
	if ctx.Err() != nil || len(work) == 0 {
		return nil, ctx.Err()
	}
	b = &pgx.Batch{}
	b.Queue(t.db.sql(updateTasksSQL), tasks.args()...)
	return work, commit(steps, tx, b)
}

// maxLanes is how many lanes a Take looks at.
const maxLanes = 256

// picks reads what is due, and cuts it at the bytes.
func (t *take) picks(rows pgx.Rows) ([]pick, error) {
	var out []pick
	var seq *int64
	var idx *int16
	var size *int32
	var token int64
	var lanes int
	var last []byte
	left := t.bytes
	_, err := pgx.ForEachRow(rows, []any{&seq, &idx, &size, &token, &lanes, &last, &t.now}, func() error {
		if seq == nil {
			return nil
		}
		if left -= int64(*size); len(out) == 0 || left >= 0 {
			out = append(out, pick{*seq, token, *idx})
		}
		return nil
	})
	if t.now = t.now.UTC(); lanes < maxLanes {
		last = []byte{}
	}
	*t.lanes = last
	return out, err
}

// start starts the tasks.
func (t *take) start(picks []pick, found []*row) ([]dedup.Work, *taskColumns) {
	bySeq := map[int64]*row{}
	for _, w := range found {
		bySeq[w.seq] = w
	}
	var work []dedup.Work
	var tasks taskColumns
	for _, p := range picks {
		w := bySeq[p.seq]
		if w == nil || int(p.idx) >= len(w.rec.Tasks) {
			continue
		}
		w.rec.Recover(int(p.idx), t.now, 0) // still running only if its lease ended
		l := w.rec.Start(int(p.idx), uint64(p.token), t.now, t.lease)
		tasks.add(w, int(p.idx))
		work = append(work, dedup.Work{Record: w.rec.Clone(), Lease: l})
	}
	return work, &tasks
}
