package pgstore

import (
	"context"
	"fmt"
	"iter"
	"maps"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/eyelet-dev/eyelet/dedup"
)

// read returns the records that a condition selects, and the time. Some may be damaged. The
// expression for the body is empty if none is wanted.
func (s *Store) read(
	ctx context.Context, body, rest string, args ...any,
) (found []*row, now time.Time, err error) {
	sql := "SELECT "
	if body != "" {
		sql += body + ", "
	}
	sql += columns + " FROM {{schema}}.event e" + withTasks + " WHERE " + rest
	b := &pgx.Batch{}
	b.Queue(s.db.sql(sql), args...).Query(func(rows pgx.Rows) (err error) {
		found, err = s.db.collect(rows, body != "")
		return err
	})
	b.Queue(nowSQL, s.db.now()).QueryRow(func(r pgx.Row) error { return r.Scan(&now) })
	free, err := s.callers.enter(ctx)
	if err != nil {
		return nil, now, err
	}
	defer free()
	return found, now, fault(s.db.pool.SendBatch(ctx, b).Close())
}

// Get implements [dedup.Store].
func (s *Store) Get(ctx context.Context, event string) (dedup.Record, error) {
	end, err := s.begin(ctx)
	if err != nil {
		return dedup.Record{}, err
	}
	defer end()
	found, now, err := s.read(ctx, "e.body", "e.seq = $1 ORDER BY e.seq, t.idx", seqOf(event))
	switch {
	case err != nil:
		return dedup.Record{}, err
	case len(found) == 0 || found[0].rec.Event != event:
		return dedup.Record{}, fmt.Errorf("event %q: %w", event, dedup.ErrNotFound)
	case found[0].damage != nil:
		return dedup.Record{}, fault(found[0].damage)
	case found[0].rec.Disposable(now):
		return dedup.Record{}, fmt.Errorf("event %q: %w", event, dedup.ErrNotFound)
	}
	return found[0].rec, nil
}

// pageSize is how many records List reads at once, or a tenth of that with bodies of any size.
const pageSize = 100

// bodyOf is the expression for the bodies of a list.
func bodyOf(f *dedup.Filter) string {
	switch {
	case !f.Body:
		return ""
	case f.MaxBody > 0:
		return fmt.Sprintf("CASE WHEN octet_length(e.body) <= %d THEN e.body END", f.MaxBody)
	}
	return "e.body"
}

// List implements [dedup.Store]. It reads page after page, so a slow reader holds back neither the
// database nor Close. Events that cannot be read are left out and logged.
func (s *Store) List(ctx context.Context, f dedup.Filter) iter.Seq2[dedup.Record, error] {
	if f.Text != "" {
		return f.Search(func(f dedup.Filter) iter.Seq2[dedup.Record, error] { return s.List(ctx, f) })
	}
	return func(yield func(dedup.Record, error) bool) {
		before, size := int64(1)<<62, pageSize
		if f.Body && f.MaxBody <= 0 {
			size /= 10
		}
		if f.Limit > 0 {
			size = min(size, f.Limit)
		}
		if f.Before > 0 && f.Before < 1<<62 {
			before = int64(f.Before)
		}
		for n := 0; ; {
			page, now, err := s.page(ctx, &f, before, size)
			if err != nil {
				yield(dedup.Record{}, err)
				return
			}
			for _, w := range page {
				before = w.seq
				if w.damage != nil || w.rec.Disposable(now) || !f.Match(&w.rec, now) {
					continue
				}
				if err := ctx.Err(); err != nil {
					yield(dedup.Record{}, err)
					return
				}
				if n++; !yield(w.rec, nil) || n == f.Limit {
					return
				}
			}
			if len(page) < size {
				return
			}
		}
	}
}

// page returns the newest records before a sequence number that the filter may select.
func (s *Store) page(ctx context.Context, f *dedup.Filter, before int64, size int) ([]*row, time.Time, error) {
	end, err := s.begin(ctx)
	if err != nil {
		return nil, time.Time{}, err
	}
	defer end()
	where, args := conditions(f, s.db.now(), size)
	rest := fmt.Sprintf(`e.seq = ANY(ARRAY(SELECT e.seq FROM {{schema}}.event e WHERE e.seq < $1%s ORDER BY e.seq DESC LIMIT %d))
ORDER BY e.seq DESC, t.idx`, where, size)
	return s.read(ctx, bodyOf(f), rest, append([]any{before}, args...)...)
}

// conditions are what the database checks of a filter, for a page of a size. [dedup.Filter.Match]
// has the last word.
func conditions(f *dedup.Filter, now *time.Time, size int) (where string, args []any) {
	add := func(condition string, values ...any) {
		for i, value := range values {
			args = append(args, value)
			condition = strings.ReplaceAll(condition, fmt.Sprint("?", i+1), fmt.Sprintf("$%d", len(args)+1))
		}
		where += " AND " + condition
	}
	if f.Event != "" {
		add("e.seq = ?1", seqOf(f.Event))
	}
	if f.ID != "" {
		add("e.seq = ANY(ARRAY("+namedSQL+"))", text(f.ID))
	}
	if f.Ref != "" {
		low, high := numbersFrom(f.Ref)
		add("e.seq = ANY(ARRAY("+namedSQL+" UNION ALL "+numberedSQL+"))", text(f.Ref), low, high)
	}
	if f.Since > 0 {
		add(sinceSQL, now, f.Since.Microseconds()+1)
	}
	if !f.Until.IsZero() {
		add("e.accepted < ?1", f.Until.Add(time.Microsecond)) // the database has no nanoseconds
	}
	if f.Producer != "" {
		add("e.producer = ?1", text(f.Producer))
	}
	if f.Endpoint != "" {
		add("e.endpoint = ?1", text(f.Endpoint))
	}
	if prefix, ok := strings.CutSuffix(f.Type, "*"); f.Type != "" && !ok {
		add("e.type = ?1", text(f.Type))
	} else if ok && text(prefix) == prefix {
		add("(starts_with(e.type, ?1) OR starts_with(e.type, ?2))", prefix, escaped)
	}
	switch {
	case f.Handler != "" && f.Reason != "":
		add(someTask+"handler = ?1 AND x.reason = ?2)", text(f.Handler), text(f.Reason))
	case f.Handler != "":
		add(someTask+"handler = ?1)", text(f.Handler))
	case f.Reason != "":
		add("(e.quarantine = ?1 OR "+someTask+"reason = ?1))", text(f.Reason))
	}
	if f.Quarantined {
		where += " AND e.quarantine IS NOT NULL"
	}
	if open, dead := statesOf(f.States); (open || dead) && f.Event == "" && f.ID == "" {
		var from []string
		if open {
			for _, branch := range openTasks {
				from = append(from, "SELECT x.seq FROM {{schema}}.task x WHERE "+branch)
			}
		}
		if dead {
			from = append(from, fmt.Sprintf(deadSQL, where, size))
		}
		where += " AND e.seq = ANY(ARRAY(" + strings.Join(from, " UNION ALL ") + "))"
	}
	return where, args
}

const (
	sinceSQL = `e.accepted >= coalesce(?1::timestamptz, now()) - ?2::int8 * interval '1 microsecond'`

	// someTask is the beginning of a condition that one of the event's tasks meets.
	someTask = `EXISTS (SELECT 1 FROM {{schema}}.task x WHERE x.seq = e.seq AND x.`

	// namedSQL selects the events with an identifier.
	namedSQL = `SELECT x.seq FROM {{schema}}.event x WHERE hashtextextended(x.key, 0) = hashtextextended(?1::text, 0) AND x.key = ?1::text
UNION ALL SELECT x.seq FROM {{schema}}.event x WHERE hashtextextended(x.vendor, 0) = hashtextextended(?1::text, 0) AND x.vendor = ?1::text`

	// numberedSQL selects the events whose id begins in a way.
	numberedSQL = `SELECT x.seq FROM unnest(?2::int8[], ?3::int8[]) r(low, high)
JOIN {{schema}}.event x ON x.seq BETWEEN r.low AND r.high`

	// deadSQL selects the newest dead letters that meet conditions. It goes from one to the next,
	// so that it reads no more of them.
	deadSQL = `(WITH RECURSIVE d AS (SELECT $1::int8 AS seq UNION ALL SELECT greatest(
  (SELECT x.seq FROM {{schema}}.task x WHERE x.state = 4 AND x.seq < d.seq ORDER BY x.seq DESC LIMIT 1),
  (SELECT x.seq FROM {{schema}}.event x WHERE x.quarantine IS NOT NULL AND x.seq < d.seq ORDER BY x.seq DESC LIMIT 1))
  FROM d WHERE d.seq IS NOT NULL)
SELECT e.seq FROM d CROSS JOIN LATERAL (SELECT * FROM {{schema}}.event x WHERE x.seq = d.seq OFFSET 0) e WHERE e.seq < $1%s LIMIT %d)`
)

// statesOf reports whether only events with open tasks or only dead ones can have the states.
// Neither means that any event can.
func statesOf(states []dedup.State) (open, dead bool) {
	for _, state := range states {
		switch state {
		case dedup.Pending, dedup.Running:
			open = true
		case dedup.Dead:
			dead = true
		default:
			return false, false
		}
	}
	return open, dead
}

// maxCounted is how many records are counted. Of more, the number is the estimate of the database.
const maxCounted = 50_000

// openTasks are the conditions of the indexes that together have the open tasks.
var openTasks = [...]string{
	"state = 1 AND lane IS NULL AND NOT hold AND reason <> 'interrupted'",
	"state = 1 AND lane IS NULL AND NOT hold AND reason = 'interrupted'",
	"state = 2 AND lane IS NULL AND NOT hold",
	"state < 3 AND lane IS NOT NULL",
	"state < 3 AND hold",
}

var statsSQL = `WITH open AS MATERIALIZED (SELECT seq, state, hold, size FROM {{schema}}.task WHERE ` +
	strings.Join(openTasks[:], ` UNION ALL SELECT seq, state, hold, size FROM {{schema}}.task WHERE `) + `)
SELECT (SELECT CASE WHEN c.reltuples > $1 THEN c.reltuples::int8 ELSE (SELECT count(*) FROM (SELECT FROM {{schema}}.event ORDER BY seq LIMIT $1::int8) x) END
    FROM pg_class c WHERE c.oid = ($2::text || '.event')::regclass),
  count(*) FILTER (WHERE state = 1), count(*) FILTER (WHERE state = 2),
  (SELECT count(*) FROM {{schema}}.task WHERE state = 4),
  (SELECT coalesce(sum(size), 0)::int8 FROM (SELECT DISTINCT seq, size FROM open) x),
  (SELECT sum(pg_total_relation_size(r))::int8 FROM unnest(ARRAY['event', 'task', 'alias', 'trace']) AS name,
    LATERAL (SELECT ($2::text || '.' || name)::regclass AS r) x),
  (SELECT accepted FROM {{schema}}.event WHERE seq = (SELECT min(seq) FROM open WHERE NOT hold))
FROM open`

// quarantinedSQL counts the quarantined deliveries that were not reopened.
const quarantinedSQL = `SELECT e.endpoint, e.quarantine, count(*) FROM {{schema}}.event e WHERE e.quarantine IS NOT NULL
AND NOT EXISTS (SELECT 1 FROM {{schema}}.task t WHERE t.seq = e.seq AND (t.state <> 4 OR t.reason <> e.quarantine)) GROUP BY 1, 2`

// Stats implements [dedup.Store]. The counts may be a second old, and Records is an estimate above
// 50,000. Commits, Accepted and Flush are those of this process.
func (s *Store) Stats(ctx context.Context) (dedup.Stats, error) {
	end, err := s.begin(ctx)
	if err != nil {
		return dedup.Stats{}, err
	}
	defer end()
	st, err := s.stats.get(s.options.fresh, func() (dedup.Stats, error) { return s.count(ctx) })
	st.Commits, st.Accepted, st.Flush = s.commits.Load(), s.accepted.Load(), time.Duration(s.flush.Load())
	st.Quarantined = maps.Clone(st.Quarantined)
	return st, err
}

func (s *Store) count(ctx context.Context) (dedup.Stats, error) {
	st := dedup.Stats{Free: -1, Quarantined: map[dedup.QuarantineGroup]int64{}}
	b := &pgx.Batch{}
	b.Queue(s.db.sql(statsSQL), maxCounted, inSchema("{{schema}}", s.db.schema)).QueryRow(func(r pgx.Row) error {
		return r.Scan(&st.Records, &st.Pending, &st.Running, &st.Dead, &st.Backlog, &st.Bytes, (*instant)(&st.Oldest))
	})
	b.Queue(s.db.sql(quarantinedSQL)).Query(func(rows pgx.Rows) error {
		var endpoint, reason string
		var n int64
		_, err := pgx.ForEachRow(rows, []any{&endpoint, &reason, &n}, func() error {
			st.Quarantined[dedup.QuarantineGroup{Endpoint: untext(endpoint), Reason: untext(reason)}] = n
			return nil
		})
		return err
	})
	return st, fault(s.db.pool.SendBatch(ctx, b).Close())
}

const (
	readNotesSQL = `SELECT n.key, n.note, n.at, coalesce($1::timestamptz, now()) FROM {{schema}}.note n
WHERE n.space = $2 AND `
	readNoteSQL  = readNotesSQL + `n.hash = $3`
	pageNotesSQL = readNotesSQL + `n.hash > $3 ORDER BY n.hash LIMIT $4`
)

// readNotes returns notes, also those that have expired, and the time.
func (s *Store) readNotes(ctx context.Context, sql string, args ...any) (found []dedup.Note, now time.Time, err error) {
	err = s.call(ctx, func(ctx context.Context) error {
		rows, err := s.db.pool.Query(ctx, s.db.sql(sql), append([]any{s.db.now()}, args...)...)
		if err != nil {
			return err
		}
		var key []byte
		var text escapedText
		var at instant
		_, err = pgx.ForEachRow(rows, []any{&key, &text, &at, &now}, func() error {
			n := dedup.Note{Text: string(text), At: time.Time(at)}
			err := unpack(key, &n.Key, codeKey)
			found = append(found, n)
			return err
		})
		return err
	})
	return found, now, err
}

// Note implements [dedup.Store].
func (s *Store) Note(ctx context.Context, k dedup.Key) (dedup.Note, error) {
	h := k.Hash()
	found, now, err := s.readNotes(ctx, readNoteSQL, text(k.Space), h[:])
	if err != nil || len(found) == 0 || found[0].Expired(now) {
		return dedup.Note{Key: k}, err
	}
	return found[0], nil
}

// Notes implements [dedup.Store]. It reads page after page.
func (s *Store) Notes(ctx context.Context, space string) iter.Seq2[dedup.Note, error] {
	return func(yield func(dedup.Note, error) bool) {
		const size = 1000
		var after keyHash
		for more := true; more; {
			page, now, err := s.readNotes(ctx, pageNotesSQL, text(space), after[:], size)
			if err != nil {
				yield(dedup.Note{}, err)
				return
			}
			more = len(page) == size
			for _, n := range page {
				after = n.Key.Hash()
				if !n.Expired(now) && !yield(n, nil) {
					return
				}
			}
		}
	}
}
