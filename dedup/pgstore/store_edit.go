package pgstore

import (
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/eyelet-dev/eyelet/dedup"
)

// edit changes records under their locks in one transaction, which begins with the statements of
// first. change changes the records of the view, and may queue further statements.
func (s *Store) edit(ctx context.Context, v *view, first *pgx.Batch, change func(*pgx.Batch) error) error {
	tx, done, err := s.db.begin(ctx, first)
	if err != nil {
		return err
	}
	defer done()
	v.q = tx
	b := &pgx.Batch{}
	if err := change(b); err != nil {
		return err
	}
	v.save(b)
	return commit(ctx, tx, b)
}

// Reopen implements [dedup.Store].
func (s *Store) Reopen(ctx context.Context, event string, tasks ...dedup.NewTask) (dedup.Record, error) {
	var names []string
	for _, t := range tasks {
		names = append(names, t.Handler)
	}
	return s.editEvent(ctx, event, names, func(r *dedup.Record, now time.Time) error { return r.Reopen(tasks, now) })
}

// Rerun implements [dedup.Store].
func (s *Store) Rerun(ctx context.Context, event string, again dedup.Rerun) (dedup.Record, error) {
	return s.editEvent(ctx, event, nil, func(r *dedup.Record, now time.Time) error { return r.Rerun(again, now) })
}

// RunNow implements [dedup.Store].
func (s *Store) RunNow(ctx context.Context, event string) (dedup.Record, error) {
	return s.editEvent(ctx, event, nil, (*dedup.Record).RunNow)
}

// editEvent changes the record of an event and returns it. It may get tasks of handlers.
func (s *Store) editEvent(
	ctx context.Context, event string, handlers []string, change func(*dedup.Record, time.Time) error,
) (out dedup.Record, err error) {
	err = s.withEvent(ctx, event, handlers, (*view).event, func(v *view, w *row, _ *pgx.Batch) error {
		if err := change(&w.rec, v.now); err != nil {
			return err
		}
		out = w.rec.Clone()
		sql := v.db.sql("SELECT e.body FROM {{schema}}.event e WHERE e.seq = $1")
		err := v.q.QueryRow(v.ctx, sql, w.seq).Scan(&out.Payload.Body)
		if err == nil && out.Payload.Body == nil { // the store that it was copied from had lost it
			return dedup.ErrNoPayload
		}
		return err
	})
	if err != nil {
		return dedup.Record{}, err
	}
	return out, nil
}

// withEvent runs a change of one event, which find returns.
func (s *Store) withEvent(
	ctx context.Context, event string, handlers []string, find func(*view, string) (*row, error),
	change func(*view, *row, *pgx.Batch) error,
) error {
	err := s.call(ctx, func(ctx context.Context) error {
		if err := s.handlers.note(ctx, s.db, handlers); err != nil {
			return err
		}
		v, first := newView(ctx, s.db, nil), &pgx.Batch{}
		v.queue(first, &wanted{seqs: []int64{seqOf(event)}})
		return s.edit(ctx, v, first, func(b *pgx.Batch) error {
			w, err := find(v, event)
			if err == nil && w == nil {
				err = dedup.ErrNotFound
			}
			if err != nil {
				return err
			}
			return change(v, w, b)
		})
	})
	if err != nil {
		return fmt.Errorf("event %q: %w", event, err)
	}
	s.stored(0)
	return nil
}

// call runs a step for a caller, on one of the connections that callers have.
func (s *Store) call(ctx context.Context, step func(context.Context) error) error {
	end, err := s.begin(ctx)
	if err != nil {
		return err
	}
	defer end()
	free, err := s.callers.enter(ctx)
	if err != nil {
		return err
	}
	defer free()
	ctx, cancel := context.WithTimeout(ctx, stepTimeout)
	defer cancel()
	return fault(retry(func() error { return step(ctx) }))
}

// Purge implements [dedup.Store]. An event that cannot be read is deleted, too.
func (s *Store) Purge(ctx context.Context, event string) error {
	return s.withEvent(ctx, event, nil, (*view).remnant, func(v *view, w *row, b *pgx.Batch) error {
		lapsed := w.damage != nil && w.rec.Hold && !w.rec.Held(v.now) // no delivery can free or finish it
		if w.rec.Open() && !lapsed {
			return dedup.ErrOpen
		}
		if w.current {
			t, err := v.traceAt(traceHash(w.hash[:16]))
			if err != nil {
				return err
			}
			t.Trace, t.changed = dedup.Trace{}, t.found
		}
		v.drop(b, w)
		return nil
	})
}

// ChangeNote implements [dedup.Store]. The note is locked while change runs.
func (s *Store) ChangeNote(ctx context.Context, k dedup.Key, change func(text string) (string, error)) error {
	var own error
	err := s.call(ctx, func(ctx context.Context) error {
		v, first := newView(ctx, s.db, nil), &pgx.Batch{}
		v.queueNow(first)
		v.queueNotes(first, k)
		return s.edit(ctx, v, first, func(*pgx.Batch) error {
			n := v.notes[k.Hash()]
			next, err := change(n.Text)
			if own = cmp.Or(err, dedup.CheckNote(next)); own == nil && next != n.Text {
				return v.SetNote(k, next)
			}
			return own
		})
	})
	if err == nil {
		s.commits.Add(1)
	}
	return cmp.Or(own, err)
}

// sweepAlways forgets events whose windows ended, and keys beyond the retention, until the store
// is closed. Every receiver does, and none waits for another.
func (s *Store) sweepAlways() {
	const pruneEvery = 5 * time.Minute
	pruned := time.Time{}
	for {
		select {
		case <-s.done:
			return
		case <-time.After(2*s.options.poll + rand.N(4*s.options.poll)):
		}
		for range 20 {
			n, err := s.sweep(s.ctx)
			if err != nil || n < sweepBatch || isClosed(s.done) {
				break // the next sweep tries again
			}
		}
		if time.Since(pruned) > pruneEvery && s.prune(s.ctx) == nil {
			pruned = time.Now()
		}
	}
}

func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

const sweepBatch = 500

// sweepSQL locks the events whose windows may be over. A task that is done while others of its
// event are open does not count any more: the last of them will.
const sweepSQL = `WITH n AS MATERIALIZED (SELECT coalesce($1::timestamptz, now()) AS now),
d AS MATERIALIZED (SELECT t.seq, t.idx FROM {{schema}}.task t WHERE t.expires IS NOT NULL AND t.expires <= (SELECT now FROM n)
  ORDER BY t.expires LIMIT $2),
o AS MATERIALIZED (SELECT t.seq FROM {{schema}}.task t WHERE t.seq = ANY(ARRAY(SELECT seq FROM d)) AND t.state < 3 AND NOT t.hold),
u AS (UPDATE {{schema}}.task t SET expires = NULL FROM d WHERE t.seq = d.seq AND t.idx = d.idx AND t.state = 3
  AND d.seq IN (SELECT seq FROM o))
SELECT e.seq FROM {{schema}}.event e WHERE e.seq = ANY(ARRAY(SELECT seq FROM d UNION (
  SELECT x.seq FROM {{schema}}.event x WHERE x.expires IS NOT NULL AND x.expires <= (SELECT now FROM n) ORDER BY x.expires LIMIT $2
))) AND e.seq NOT IN (SELECT seq FROM o) FOR UPDATE SKIP LOCKED`

// sweepLaterSQL lets events that cannot be read wait for a day, so that the others are swept.
const sweepLaterSQL = `WITH t AS (UPDATE {{schema}}.task SET expires = $2::timestamptz + interval '1 day'
  WHERE seq = ANY($1::int8[]) AND expires <= $2)
UPDATE {{schema}}.event SET expires = $2 + interval '1 day' WHERE seq = ANY($1) AND expires <= $2`

// sweep forgets a batch of events and returns how many it looked at.
func (s *Store) sweep(ctx context.Context) (looked int, err error) {
	ctx, cancel := context.WithTimeout(ctx, stepTimeout)
	defer cancel()
	var seqs []int64
	first := &pgx.Batch{}
	first.Queue(s.db.sql(sweepSQL), s.db.now(), sweepBatch).Query(func(rows pgx.Rows) (err error) {
		seqs, err = pgx.CollectRows(rows, pgx.RowTo[int64])
		return err
	})
	v := newView(ctx, s.db, nil)
	err = s.edit(ctx, v, first, func(b *pgx.Batch) error {
		if len(seqs) == 0 {
			return nil
		}
		if err := v.load(&wanted{seqs: seqs}); err != nil {
			return err
		}
		var later []int64
		for _, seq := range seqs {
			w := v.bySeq[seq]
			switch {
			case w == nil || w.deleted:
			case w.damage != nil:
				later = append(later, seq)
			case w.rec.Disposable(v.now):
				if err := v.forget(b, w); err != nil {
					return err
				}
			default:
				w.swept = true
			}
		}
		if len(later) > 0 {
			b.Queue(s.db.sql(sweepLaterSQL), later, v.now)
		}
		return nil
	})
	return len(seqs), err
}

// forget deletes a record whose window ended. A held claim without an outcome was never accepted.
func (v *view) forget(b *pgx.Batch, w *row) error {
	if w.current && w.rec.Unaccepted() {
		t, err := v.trace(w.rec.Key)
		if err != nil {
			return err
		}
		t.Trace, t.changed = t.Without(), t.found
	}
	v.drop(b, w)
	return nil
}

// forgetFencesSQL compares the time again once it has the lock of a row. It spares fences that
// moved at the same time as the oldest that stays.
const forgetFencesSQL = `DELETE FROM {{schema}}.note WHERE space = 'fence' AND at < greatest($1::timestamptz,
  (SELECT n.at FROM {{schema}}.note n WHERE n.space = 'fence' ORDER BY n.at DESC OFFSET $2 LIMIT 1))`

// prune forgets the keys of the days beyond the retention, and fences that are old or too many.
func (s *Store) prune(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, stepTimeout)
	defer cancel()
	v := newView(ctx, s.db, s.db.pool)
	w := &wanted{traces: [][]byte{make([]byte, 16)}} // reads the clock and the first day
	if err := v.load(w); err != nil {
		return err
	}
	rows, err := s.db.pool.Query(ctx, s.db.sql("SELECT day, count(*) FROM {{schema}}.trace GROUP BY day"))
	if err != nil {
		return err
	}
	counts := map[dedup.Day]int64{}
	if err := pairs(rows, func(day int, n int64) { counts[dedup.Day(day)] = n }); err != nil {
		return err
	}
	retention := s.db.remember
	evicted := max(v.evicted, retention.Evict(counts, dedup.DayOf(v.now)))
	first := retention.First(v.since, evicted, v.now)
	b := &pgx.Batch{}
	b.Queue(s.db.sql("UPDATE {{schema}}.remembered SET evicted = greatest(evicted, $1)"), int(evicted))
	b.Queue(s.db.sql("DELETE FROM {{schema}}.trace WHERE day < $1"), int(first))
	b.Queue(s.db.sql(forgetFencesSQL), v.now.Add(-dedup.FenceFor), dedup.FenceMax-1)
	return s.db.pool.SendBatch(ctx, b).Close()
}
