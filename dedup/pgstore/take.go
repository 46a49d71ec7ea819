package pgstore

import (
	"context"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/eyelet-dev/eyelet/dedup"
)

// dueSQL locks the tasks that are due, the longest due first: $2 tasks outside of lanes, one task
// that was interrupted, and the next of each lane. A lane has neither a lock nor a row of its own:
// its next task is locked, and an index refuses two that run. $3 is where the walk over the lanes
// begins, and $4 how many it sees. $5 are the handlers of the caller, NULL for all, $6 those of its
// process, and $7 for how long a handler is missing until anyone gets its tasks. $8 to $10 are the
// interrupted task that runs in this process, and $11 when it no longer keeps others waiting. $12
// and $13 are where the tasks of each handler, and the leases that ended, begin (see horizon). $14
// and $15 are the first and the last sighting of this process without a gap (see sightings): after
// a gap no handler is missing, because other processes could not report theirs either. $16 are the
// handlers of which the caller wants none at the moment.
//
// The walk does not say that lanes are not NULL: PostgreSQL would multiply the odds, expect a
// single row, and sort all lanes in each step.
const dueSQL = `WITH RECURSIVE n AS MATERIALIZED (SELECT coalesce($1::timestamptz, now()) AS now),
orphans AS MATERIALIZED (SELECT h.name FROM {{schema}}.handler h, n WHERE h.name <> ALL($6::text[])
  AND greatest(h.noted, h.seen, $14) + $7::int8 * interval '1 microsecond' <= n.now
  AND (h.seen IS NULL OR greatest(h.seen, $14::timestamptz) + interval '15 seconds' <= n.now)
  AND now() BETWEEN $15::timestamptz - interval '15 seconds' AND $15::timestamptz + interval '15 seconds'),
free AS MATERIALIZED (SELECT $11::timestamptz <= n.now OR NOT EXISTS (SELECT 1 FROM {{schema}}.task t
  WHERE t.seq = $8 AND t.idx = $9 AND t.token = $10 AND t.state = 2 AND t.until > n.now) AS free FROM n),
names AS MATERIALIZED (SELECT x.handler, coalesce(x.since, '-infinity') AS since FROM unnest($5::text[], $12::timestamptz[]) AS x(handler, since)
  WHERE x.handler <> ALL($16::text[])
  UNION ALL SELECT name, '-infinity' FROM orphans WHERE $5 IS NOT NULL
  UNION ALL SELECT name, '-infinity' FROM {{schema}}.handler WHERE $5 IS NULL),
due AS MATERIALIZED (SELECT d.*, false AS suspect, x.handler, true AS timed FROM names x CROSS JOIN LATERAL (
  SELECT t.seq, t.idx, t.due AS at, t.size, t.token = 0 AS fresh FROM {{schema}}.task t
  WHERE ` + ordinary + ` AND t.handler = x.handler AND t.due >= x.since AND t.due <= (SELECT now FROM n)
  ORDER BY t.due, t.seq, t.idx LIMIT $2 FOR UPDATE SKIP LOCKED) d),
again AS MATERIALIZED (SELECT x.seq, x.idx, x.due AS at, x.size, false, true, x.handler, false FROM {{schema}}.task x
  WHERE x.state = 1 AND x.lane IS NULL AND NOT x.hold AND x.reason = 'interrupted' AND x.due <= (SELECT now FROM n) AND ` + allowed + `
  AND (SELECT free FROM free) ORDER BY x.due, x.seq, x.idx LIMIT 1 FOR UPDATE SKIP LOCKED),
lost AS MATERIALIZED (SELECT x.seq, x.idx, x.until AS at, x.size, false, true, x.handler, false FROM {{schema}}.task x
  WHERE x.state = 2 AND x.lane IS NULL AND NOT x.hold AND x.until >= coalesce($13::timestamptz, '-infinity') AND x.until <= (SELECT now FROM n) AND ` + allowed + `
  AND (SELECT free FROM free) ORDER BY x.until LIMIT 1 FOR UPDATE SKIP LOCKED),
walk AS ((SELECT t.lane FROM {{schema}}.task t WHERE t.state < 3 AND t.lane > $3::bytea ORDER BY t.lane LIMIT 1)
  UNION ALL SELECT (SELECT t.lane FROM {{schema}}.task t WHERE t.state < 3 AND t.lane > w.lane
    ORDER BY t.lane LIMIT 1) FROM walk w WHERE w.lane IS NOT NULL),
lanes AS MATERIALIZED (SELECT w.lane FROM walk w WHERE w.lane IS NOT NULL LIMIT $4),
heads AS MATERIALIZED (SELECT x.*, x.state = 2 OR x.reason = 'interrupted' AS suspect FROM lanes l CROSS JOIN LATERAL (SELECT * FROM (
    (SELECT t.seq, t.idx, t.state, t.reason, t.handler, t.until AS at FROM {{schema}}.task t
      WHERE t.lane = l.lane AND t.state = 2 AND t.lane IS NOT NULL)
    UNION ALL (SELECT t.seq, t.idx, t.state, t.reason, t.handler, t.due FROM {{schema}}.task t
      WHERE l.lane >= '\x01' AND t.lane = l.lane AND t.state = 1 AND t.lane >= '\x01' ORDER BY t.due, t.seq, t.idx LIMIT 1)
    UNION ALL (SELECT t.seq, t.idx, t.state, t.reason, t.handler, t.due FROM {{schema}}.task t
      WHERE l.lane < '\x01' AND t.lane = l.lane AND t.state < 3 AND t.state = 1 AND t.lane IS NOT NULL ORDER BY t.seq, t.idx LIMIT 1)
  ) h ORDER BY h.state DESC LIMIT 1) x WHERE x.at <= (SELECT now FROM n) AND ` + allowed + `),
chosen AS MATERIALIZED ((SELECT * FROM heads WHERE NOT suspect ORDER BY at LIMIT $2)
  UNION ALL (SELECT * FROM heads WHERE suspect AND (SELECT free FROM free) ORDER BY at LIMIT 1)),
laned AS MATERIALIZED (SELECT t.seq, t.idx, h.at, t.size, false, h.suspect, t.handler, false FROM chosen h JOIN {{schema}}.task t ON t.seq = h.seq AND t.idx = h.idx
  WHERE t.state = h.state AND CASE t.state WHEN 1 THEN t.due ELSE t.until END <= (SELECT now FROM n) FOR UPDATE OF t SKIP LOCKED)
SELECT c.seq, c.idx, c.size, c.suspect, c.fresh, nextval('{{schema}}.token'), (SELECT count(*) FROM lanes),
  (SELECT lane FROM lanes ORDER BY lane DESC LIMIT 1), n.now, c.at, c.handler, c.timed,
  (SELECT free FROM free) AND NOT EXISTS (SELECT 1 FROM lost)
FROM n LEFT JOIN (SELECT * FROM due UNION ALL SELECT * FROM again UNION ALL SELECT * FROM lost UNION ALL SELECT * FROM laned) c ON true
ORDER BY c.at, c.seq, c.idx`

const (
	ordinary = `t.state = 1 AND t.lane IS NULL AND NOT t.hold AND t.reason <> 'interrupted'`
	allowed  = `($5::text[] IS NULL OR x.handler = ANY($5::text[]) OR x.handler IN (SELECT name FROM orphans))
  AND x.handler <> ALL($16::text[])`
)

var workSQL = `SELECT e.body, ` + columns + `
FROM {{schema}}.event e` + withTasks + ` WHERE e.seq = ANY($1::int8[]) ORDER BY e.seq, t.idx`

// startSQL starts tasks for the first time: the other columns stay.
const startSQL = `UPDATE {{schema}}.task t SET state = 2, attempt = 1, token = v.token, started = $4, until = $5
FROM unnest($1::int8[], $2::int2[], $3::int8[]) AS v(seq, idx, token) WHERE t.seq = ANY($1) AND t.seq = v.seq AND t.idx = v.idx`

// abandonSQL makes the tasks of a damaged event dead letters, so that the others go on.
const abandonSQL = `UPDATE {{schema}}.task SET state = 4, reason = 'damaged', err = $3, ended = $1, until = NULL, expires = NULL
WHERE seq = $2 AND state < 3`

// take is the Take that looks for work. One of a process does at a time.
type take struct {
	db    *database
	kept  *kept
	lanes []byte // the lanes after this one are next
	now   time.Time
	next  time.Time // when the next look may begin

	// suspect is the interrupted task that was given out last, and free when it no longer keeps
	// others waiting.
	suspect pick
	free    time.Time
	// named are the handlers of this process, and seen when it reported them.
	named []string
	seen  *sightings

	horizon horizon
}

// pick is a task that may be given out.
type pick struct {
	seq, token int64
	idx        int16
	suspect    bool
	fresh      bool // never started
	due        time.Time
}

// try gives out tasks that are due, none if there are none. If ctx ends, it gives out none: what
// the database has is taken back while that is possible, and else returned.
func (t *take) try(ctx, steps context.Context, want *dedup.Want) ([]dedup.Work, error) {
	steps, cancel := context.WithTimeout(steps, stepTimeout)
	defer cancel()
	look := t.horizon.look(texts(want.Handlers), min(want.Tasks, maxTake))
	look.limit(want.Most)
	first, last := t.seen.unbroken()
	var picks []pick
	b := &pgx.Batch{}
	b.Queue(t.db.sql(dueSQL), t.db.now(), look.each, t.lanes, maxLanes, look.names, t.named,
		want.OrphanAfter.Microseconds(), t.suspect.seq, t.suspect.idx, t.suspect.token, t.free,
		look.since, moment(look.lost), moment(first), moment(last), look.exhausted).Query(
		func(rows pgx.Rows) (err error) {
			picks, err = t.picks(rows, want, look)
			return err
		})
	tx, done, err := t.db.begin(steps, b)
	if err != nil {
		return nil, err
	}
	defer done()
	if look.took = time.Since(look.began); len(picks) == 0 {
		t.horizon.looked(look, t.now)
	}
	if len(picks) == 0 || ctx.Err() != nil {
		return nil, ctx.Err()
	}
	found, err := t.records(steps, tx, picks)
	if err != nil {
		return nil, err
	}
	b = &pgx.Batch{}
	work := t.start(b, picks, found, micros(want.Lease))
	if ctx.Err() != nil || b.Len() == 0 {
		return nil, ctx.Err()
	}
	if err := commit(steps, tx, b); err != nil {
		return nil, err
	}
	t.horizon.looked(look, t.now)
	for _, p := range picks {
		if p.suspect {
			t.suspect, t.free = p, t.now.Add(dedup.SuspectTime)
		}
	}
	return work, nil
}

// records returns the records of tasks by their numbers.
func (t *take) records(ctx context.Context, q querier, picks []pick) (map[int64]*row, error) {
	found := make(map[int64]*row, len(picks))
	var seqs []int64
	for _, p := range picks {
		if w := t.kept.take(&p); w != nil {
			found[p.seq] = w
		} else {
			seqs = append(seqs, p.seq)
		}
	}
	if len(seqs) == 0 {
		return found, nil
	}
	rows, err := q.Query(ctx, t.db.sql(workSQL), seqs)
	if err != nil {
		return nil, err
	}
	read, err := t.db.collect(rows, true)
	for _, w := range read {
		found[w.seq] = w
	}
	return found, err
}

// texts are handlers as the tables have them, each once, nil for nil.
func texts(names []string) []string {
	out := slices.Clone(names)
	for i := range out {
		out[i] = text(out[i])
	}
	slices.Sort(out)
	return slices.Compact(out)
}

const (
	maxTake  = 1024 // tasks that one Take gives at most
	maxLanes = 256  // lanes that one Take sees
)

// picks reads what is due, and cuts it where the caller wants.
func (t *take) picks(rows pgx.Rows, want *dedup.Want, look *look) ([]pick, error) {
	var out []pick
	var seq *int64
	var idx *int16
	var size *int32
	var suspect, fresh, timed *bool
	var token int64
	var lanes int
	var last []byte
	var at *time.Time
	var handler *string
	left, full, suspects := want.Bytes, false, 0
	columns := []any{
		&seq, &idx, &size, &suspect, &fresh, &token, &lanes, &last, &t.now, &at, &handler, &timed, &look.none,
	}
	_, err := pgx.ForEachRow(rows, columns, func() error {
		if seq == nil || *suspect && suspects > 0 {
			return nil
		}
		most, limited := look.most[*handler]
		passed := limited && most == 0
		if !full && !passed {
			left -= int64(*size)
			full = len(out) > 0 && left < 0 || len(out) == want.Tasks
		}
		if *timed {
			look.found(*handler, *at, full || passed)
		}
		if full || passed {
			return nil
		}
		if limited {
			look.most[*handler]--
		}
		if *suspect {
			suspects++
		}
		out = append(out, pick{*seq, token, *idx, *suspect, *fresh, at.UTC()})
		return nil
	})
	if t.now = t.now.UTC(); lanes < maxLanes {
		last = []byte{}
	}
	t.lanes = last
	return out, err
}

// start starts the tasks. b gets the statements.
func (t *take) start(
	b *pgx.Batch, picks []pick, found map[int64]*row, lease time.Duration,
) (work []dedup.Work) {
	var seqs, tokens []int64 // of those that start for the first time
	var indexes []int16
	var others taskArrays
	for _, p := range picks {
		w, i := found[p.seq], int(p.idx)
		switch {
		case w == nil:
			continue
		case w.damage != nil:
			b.Queue(t.db.sql(abandonSQL), t.now, w.seq, text(w.damage.Error()))
			continue
		case i >= len(w.rec.Tasks):
			continue
		}
		first := w.rec.Tasks[i].State == dedup.Pending && w.rec.Tasks[i].Attempt == 0
		w.rec.Recover(i, t.now, 0) // still running only if its lease ended
		l := w.rec.Start(i, uint64(p.token), t.now, lease)
		if first {
			seqs, indexes, tokens = append(seqs, p.seq), append(indexes, p.idx), append(tokens, p.token)
		} else {
			others.add(w, i)
		}
		rec := w.rec
		if len(rec.Tasks) > 1 { // another one may start too
			rec = rec.Clone()
		}
		work = append(work, dedup.Work{Record: rec, Lease: l})
	}
	if len(seqs) > 0 {
		b.Queue(t.db.sql(startSQL), seqs, indexes, tokens, t.now, t.now.Add(lease))
	}
	t.db.saveTasks(b, others)
	return work
}
