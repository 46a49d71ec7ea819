package pgstore

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/eyelet-dev/eyelet/dedup"
)

type (
	keyHash   = [32]byte
	traceHash = [16]byte
)

func traceOf(k dedup.Key) traceHash {
	h := k.Hash()
	return traceHash(h[:16])
}

// traceRow is a trace in a view.
type traceRow struct {
	dedup.Trace
	found, changed bool
}

// view is what a step knows of the tables: the records that it wanted, and that there are no
// others. In a transaction they are locked. Others are read as soon as they are needed.
type view struct {
	db    *database
	q     querier
	ctx   context.Context
	locks bool // it is in a transaction

	now     time.Time
	byKey   map[keyHash]*row // the record that decides; nil for none
	byAlias map[keyHash]*row
	owners  map[keyHash]int64 // of aliases as stored; 0 for none
	bySeq   map[int64]*row
	older   map[keyHash]int // the newest generation that does not decide
	traces  map[traceHash]*traceRow
	notes   map[keyHash]*noteRow
	since   dedup.Day
	evicted dedup.Day
}

func newView(ctx context.Context, db *database, q querier) *view {
	return &view{
		db: db, q: q, ctx: ctx, locks: q != db.pool,
		byKey: map[keyHash]*row{}, byAlias: map[keyHash]*row{}, owners: map[keyHash]int64{},
		bySeq: map[int64]*row{}, older: map[keyHash]int{}, traces: map[traceHash]*traceRow{},
		notes: map[keyHash]*noteRow{},
	}
}

// wanted are names whose records a view is to have.
type wanted struct {
	keys, aliases [][]byte
	seqs          []int64
	traces        [][]byte
}

func (w *wanted) key(k dedup.Key) {
	h := k.Hash()
	w.keys = append(w.keys, h[:])
}

func (w *wanted) alias(k dedup.Key) {
	h := k.Hash()
	w.aliases = append(w.aliases, h[:])
}

func (w *wanted) trace(k dedup.Key) {
	h := traceOf(k)
	w.traces = append(w.traces, h[:])
}

// selected compares with the events of all names. The array makes sure that each is looked up.
const selected = `= ANY(ARRAY(SELECT x.seq FROM {{schema}}.event x WHERE x.hash = ANY($1::bytea[]) AND x.current
 UNION ALL SELECT a.seq FROM {{schema}}.alias a WHERE a.hash = ANY($2::bytea[]) UNION ALL SELECT unnest($3::int8[])))`

const (
	lockEventsSQL = `SELECT e.seq FROM {{schema}}.event e WHERE e.seq ` + selected + ` ORDER BY e.seq FOR UPDATE`
	lockTasksSQL  = `SELECT t.seq FROM {{schema}}.task t WHERE t.seq ` + selected + `
ORDER BY t.seq, t.idx FOR UPDATE`
	aliasSQL = `SELECT hash, seq FROM {{schema}}.alias WHERE hash = ANY($1::bytea[]) ORDER BY hash`
	traceSQL = `SELECT hash, day, count FROM {{schema}}.trace WHERE hash = ANY($1::bytea[]) ORDER BY hash`
	olderSQL = `SELECT hash, max(generation) FROM {{schema}}.event
WHERE hash = ANY($1::bytea[]) AND NOT current GROUP BY hash`
	nowSQL       = `SELECT coalesce($1::timestamptz, now())`
	rememberSQL  = `SELECT since, evicted FROM {{schema}}.remembered`
	lockedSuffix = ` FOR UPDATE`
)

var readSQL = `SELECT ` + columns + ` FROM {{schema}}.event e` + withTasks + `
WHERE e.seq ` + selected + ` ORDER BY e.seq, t.idx`

// queueNow adds the statement that reads the time, once.
func (v *view) queueNow(b *pgx.Batch) {
	if v.now.IsZero() {
		b.Queue(nowSQL, v.db.now()).QueryRow(func(r pgx.Row) error {
			err := r.Scan(&v.now)
			v.now = v.now.UTC()
			return err
		})
	}
}

// queue adds the statements that read what is wanted.
func (v *view) queue(b *pgx.Batch, w *wanted) {
	sql := func(statement string) string { return v.db.sql(statement) }
	suffix := ""
	locked := map[int64]bool{}
	if v.locks {
		suffix = lockedSuffix
	}
	v.queueNow(b)
	if v.locks {
		b.Queue(sql(lockEventsSQL), w.keys, w.aliases, w.seqs).Query(func(rows pgx.Rows) error {
			seqs, err := pgx.CollectRows(rows, pgx.RowTo[int64])
			for _, seq := range seqs {
				locked[seq] = true
			}
			return err
		})
		b.Queue(sql(lockTasksSQL), w.keys, w.aliases, w.seqs)
	}
	// Each statement sees what was committed before it. A trace is read after the locks, which stop
	// those who forget a record with its trace, and before the records: a record that comes after
	// its trace was read is not taken for one that is forgotten.
	if len(w.traces) > 0 {
		v.queueTraces(b, w, suffix)
	}
	var read []*row
	b.Queue(sql(readSQL), w.keys, w.aliases, w.seqs).Query(func(rows pgx.Rows) (err error) {
		read, err = v.db.collect(rows, false)
		return err
	})
	owners := map[keyHash]int64{}
	b.Queue(sql(aliasSQL+suffix), w.aliases).Query(func(rows pgx.Rows) error {
		if err := pairs(rows, func(hash []byte, seq int64) { owners[keyHash(hash)] = seq }); err != nil {
			return err
		}
		return v.add(w, read, owners, locked)
	})
	if v.locks && len(w.keys) > 0 {
		b.Queue(sql(olderSQL), w.keys).Query(func(rows pgx.Rows) error {
			return pairs(rows, func(hash []byte, generation int) { v.older[keyHash(hash)] = generation })
		})
	}
}

// pairs reads rows of two columns.
func pairs[A, B any](rows pgx.Rows, each func(A, B)) error {
	var a A
	var b B
	_, err := pgx.ForEachRow(rows, []any{&a, &b}, func() error {
		each(a, b)
		return nil
	})
	return err
}

// add notes the records that were read, and which names have none. A record that appeared after
// the locks were taken makes the step start again.
func (v *view) add(w *wanted, read []*row, owners map[keyHash]int64, locked map[int64]bool) error {
	for _, r := range read {
		if v.locks && !locked[r.seq] {
			return errConflict
		}
		if v.bySeq[r.seq] == nil {
			v.bySeq[r.seq] = r
			if v.locks { // it may be changed
				r.stored = &row{rec: r.rec, current: r.current}
				r.stored.rec.Tasks = slices.Clone(r.rec.Tasks)
			}
		}
	}
	for _, h := range w.keys {
		if _, known := v.byKey[keyHash(h)]; !known {
			v.byKey[keyHash(h)] = nil
		}
	}
	for _, r := range v.bySeq {
		if r != nil && r.current && v.byKey[keyHash(r.hash)] == nil {
			v.byKey[keyHash(r.hash)] = r
		}
	}
	for _, h := range w.aliases {
		if _, known := v.byAlias[keyHash(h)]; known {
			continue
		}
		owner := owners[keyHash(h)]
		v.owners[keyHash(h)] = owner
		if v.byAlias[keyHash(h)] = v.bySeq[owner]; owner != 0 && v.bySeq[owner] == nil {
			return errConflict // its record was deleted, or it moved to a record that was not read
		}
	}
	for _, seq := range w.seqs {
		if _, known := v.bySeq[seq]; !known {
			v.bySeq[seq] = nil
		}
	}
	return nil
}

func (v *view) queueTraces(b *pgx.Batch, w *wanted, suffix string) {
	b.Queue(v.db.sql(traceSQL+suffix), w.traces).Query(func(rows pgx.Rows) error {
		var hash []byte
		var day, count int
		_, err := pgx.ForEachRow(rows, []any{&hash, &day, &count}, func() error {
			trace := dedup.Trace{Day: dedup.Day(day), Count: uint8(count)}
			v.traces[traceHash(hash)] = &traceRow{Trace: trace, found: true}
			return nil
		})
		for _, h := range w.traces {
			if v.traces[traceHash(h)] == nil {
				v.traces[traceHash(h)] = &traceRow{}
			}
		}
		return err
	})
	b.Queue(v.db.sql(rememberSQL)).QueryRow(func(r pgx.Row) error { return r.Scan(&v.since, &v.evicted) })
}

// load reads what is wanted.
func (v *view) load(w *wanted) error {
	b := &pgx.Batch{}
	v.queue(b, w)
	return v.q.SendBatch(v.ctx, b).Close()
}

// key returns the record that decides for a key, nil if there is none.
func (v *view) key(k dedup.Key) (*row, error) { return v.find(v.byKey, k, (*wanted).key) }

// alias returns the record that has an alias, nil if there is none.
func (v *view) alias(k dedup.Key) (*row, error) { return v.find(v.byAlias, k, (*wanted).alias) }

// find returns the record of a name, which it reads if the view does not know it.
func (v *view) find(known map[keyHash]*row, k dedup.Key, want func(*wanted, dedup.Key)) (*row, error) {
	h := k.Hash()
	if _, ok := known[h]; !ok {
		w := &wanted{}
		want(w, k)
		if err := v.load(w); err != nil {
			return nil, err
		}
	}
	if r := known[h]; r == nil || r.damage == nil {
		return r, nil
	}
	return nil, known[h].damage
}

// event returns the record of an event, nil if there is none or it may be forgotten.
func (v *view) event(event string) (*row, error) {
	r, err := v.remnant(event)
	if r != nil && r.damage != nil {
		return nil, r.damage
	}
	return r, err
}

// remnant returns the record of an event. Of a damaged one it has what can be read.
func (v *view) remnant(event string) (*row, error) {
	seq := seqOf(event)
	if seq == 0 {
		return nil, nil
	}
	if _, known := v.bySeq[seq]; !known {
		if err := v.load(&wanted{seqs: []int64{seq}}); err != nil {
			return nil, err
		}
	}
	r := v.bySeq[seq]
	if r == nil || r.rec.Event != event || r.deleted || r.damage == nil && r.rec.Disposable(v.now) {
		return nil, nil
	}
	return r, nil
}

// trace returns the trace of a key.
func (v *view) trace(k dedup.Key) (*traceRow, error) { return v.traceAt(traceOf(k)) }

func (v *view) traceAt(h traceHash) (*traceRow, error) {
	if v.traces[h] == nil {
		if err := v.load(&wanted{traces: [][]byte{h[:]}}); err != nil {
			return nil, err
		}
	}
	return v.traces[h], nil
}

// rows returns the records in the order of acceptance.
func (v *view) rows() []*row {
	var out []*row
	for _, r := range v.bySeq {
		if r != nil {
			out = append(out, r)
		}
	}
	slices.SortFunc(out, func(a, b *row) int { return int(a.seq - b.seq) })
	return out
}

// errWrites means that a claim changes records, or depends on a trace, and needs a view with locks.
var errWrites = errors.New("the claim is not decided by reading alone")
