package pgstore

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/eyelet-dev/eyelet/dedup"
)

// Copied counts what a copy has written, and found to be as in the source.
type Copied struct {
	// Source is the state of the source.
	Source string `json:"source"`
	// Events counts all events, and Before those that earlier calls had copied.
	Events int64 `json:"events"`
	Before int64 `json:"before"`
	// Tasks, Aliases and Remembered (keys beyond their windows) count the rest. They are zero if an
	// earlier call had finished the copy.
	Tasks      int64 `json:"tasks"`
	Aliases    int64 `json:"aliases"`
	Remembered int64 `json:"remembered"`
}

// Copy copies another store into the empty tables of a schema (see [Migrate]; the user must own
// them), so that every delivery is answered as before. Events keep their ids, sequence numbers,
// windows and attempts. Times are cut to microseconds. A window that did not count while the source
// was out of use becomes a longer one.
//
// It copies a few hundred events in each transaction. After an error or an interruption, call it
// again with the same source: it continues after the last transaction. Until it returns nil, [Open]
// fails, and a store that was open before accepts and takes nothing. At the end it compares
// everything in the tables with the source; if they differ, it fails. The error is
// [dedup.ErrInvalid] if the tables have events that are not from this source, or the source has
// changed since the copy began.
//
// report, unless it is nil, is called after each transaction with the number of events that are
// copied or, at the end, compared.
func Copy(
	ctx context.Context, dsn, schema string, from *dedup.Source, report func(events int64, compared bool),
) (out Copied, err error) {
	c := &copier{schema: schema, from: from, report: report}
	if c.report == nil {
		c.report = func(int64, bool) {}
	}
	if err := c.connect(ctx, dsn); err != nil {
		return out, openError(err)
	}
	defer func() { _ = c.conn.Close(context.WithoutCancel(ctx)) }()
	if err := c.run(ctx); err != nil {
		return c.out, fmt.Errorf("copy into schema %s: %w", schemaName(schema), err)
	}
	return c.out, nil
}

// copier copies a source.
type copier struct {
	conn       *pgx.Conn
	schema     string
	from       *dedup.Source
	report     func(int64, bool)
	out        Copied
	at         time.Time // when the copy began
	place      string    // of the last item that was copied
	events     int64     // that were copied, or compared
	finished   bool
	seq, token uint64 // the largest ones
}

// The size of a transaction.
const (
	copyItems = 256
	copyBytes = 8 << 20
)

func (c *copier) connect(ctx context.Context, dsn string) error {
	config, err := poolConfig(dsn, nil)
	if err != nil {
		return err
	}
	one := config.ConnConfig
	one.DefaultQueryExecMode = pgx.QueryExecModeCacheDescribe // also behind a pooler
	if c.conn, err = pgx.ConnectConfig(ctx, one); err != nil {
		return err
	}
	if _, err = checkServer(ctx, c.conn); err == nil {
		err = migrated(ctx, c.conn, c.schema)
	}
	if err != nil {
		_ = c.conn.Close(ctx)
	}
	return err
}

func (c *copier) run(ctx context.Context) error {
	if err := c.begin(ctx); err != nil {
		return err
	}
	c.out.Source, c.out.Before = c.from.State, c.events
	if c.finished {
		c.out.Events = c.events
		return nil
	}
	if err := c.block(ctx); err != nil {
		return err
	}
	if err := c.each(ctx, c.place, c.write); err != nil {
		return err
	}
	c.events = 0
	if err := c.each(ctx, "", c.compare); err != nil {
		return err
	}
	if err := c.count(ctx); err != nil {
		return err
	}
	return c.finish(ctx)
}

func (c *copier) sql(statement string) string { return inSchema(statement, c.schema) }

// inTx runs a transaction.
func (c *copier) inTx(ctx context.Context, run func(pgx.Tx) error) error {
	return fault(pgx.BeginFunc(ctx, c.conn, run))
}

const (
	lockEventSQL = `LOCK TABLE {{schema}}.event IN SHARE ROW EXCLUSIVE MODE`
	readCopySQL  = `SELECT source, at, place, events, finished IS NOT NULL FROM {{schema}}.copy`
	emptySQL     = `SELECT NOT EXISTS (SELECT 1 FROM {{schema}}.event) AND NOT EXISTS (SELECT 1 FROM {{schema}}.trace)`
	beginCopySQL = `INSERT INTO {{schema}}.copy (source, at, place, events) VALUES ($1, $2, '', 0)`
	unmarkSQL    = `DELETE FROM {{schema}}.copy`

	// blockSQL leaves no numbers for events and leases.
	blockSQL = `SELECT setval('{{schema}}.seq', 9223372036854775807), setval('{{schema}}.token', 9223372036854775807)`
)

// begin finds out where the copy continues, or begins it if the tables are empty.
func (c *copier) begin(ctx context.Context) error {
	return c.inTx(ctx, func(tx pgx.Tx) error {
		var source string
		err := tx.QueryRow(ctx, c.sql(readCopySQL)).Scan(&source, &c.at, &c.place, &c.events, &c.finished)
		if err == nil && source != c.from.State {
			return fmt.Errorf("%w target: it has the copy of another source, or of this one before it was changed. "+
				"Begin again in an empty schema", dedup.ErrInvalid)
		}
		if !errors.Is(err, pgx.ErrNoRows) {
			return err
		}
		if err := c.empty(ctx, tx); err != nil {
			return err
		}
		c.at = c.from.Now.Truncate(time.Microsecond)
		_, err = tx.Exec(ctx, c.sql(beginCopySQL), c.from.State, c.at)
		return err
	})
}

// empty returns an error if the tables have events.
func (c *copier) empty(ctx context.Context, tx pgx.Tx) error {
	var empty bool
	if err := tx.QueryRow(ctx, c.sql(emptySQL)).Scan(&empty); err != nil || empty {
		return err
	}
	return fmt.Errorf("%w target: it has events of its own. Name a schema with empty tables", dedup.ErrInvalid)
}

// block makes stores that are open accept and take nothing. It changes the sequences even if its
// transaction is undone, so Open fails before. The lock waits for claims in progress; if one of
// them was stored, the copy did not begin.
func (c *copier) block(ctx context.Context) error {
	var used error
	err := c.inTx(ctx, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, c.sql(lockEventSQL)); err != nil {
			return err
		}
		if c.place == "" {
			used = c.empty(ctx, tx)
		}
		sql := blockSQL
		if used != nil {
			sql = unmarkSQL
		}
		_, err := tx.Exec(ctx, c.sql(sql))
		return err
	})
	return cmp.Or(err, used)
}

// each calls do with the items after a place, some at a time.
func (c *copier) each(ctx context.Context, after string, do func(context.Context, []dedup.Item) error) error {
	var items []dedup.Item
	size := 0
	for item, err := range c.from.Items(ctx, c.at, after) {
		if err != nil {
			return err
		}
		items = append(items, item)
		if size += len(item.Record.Payload.Body); len(items) < copyItems && size < copyBytes {
			continue
		}
		if err := do(ctx, items); err != nil {
			return err
		}
		items, size = nil, 0
	}
	if len(items) == 0 {
		return nil
	}
	return do(ctx, items)
}

// copied are the rows of some items.
type copied struct {
	rows     []*row
	tasks    taskColumns
	handlers map[string]bool
	aliases  map[string]int64 // the sequence numbers of their events
	traces   map[string]dedup.Trace
}

func newCopied(items []dedup.Item) *copied {
	rows := &copied{
		handlers: map[string]bool{}, aliases: map[string]int64{}, traces: map[string]dedup.Trace{},
	}
	for i := range items {
		item := &items[i]
		if item.Record.Event == "" {
			rows.traces[string(item.Hash[:])] = item.Trace
			continue
		}
		w := rowOf(item)
		rows.rows = append(rows.rows, w)
		for i, t := range w.rec.Tasks {
			rows.tasks.add(w, i)
			rows.handlers[t.Handler] = true
		}
		for _, name := range item.Names {
			h := name.Hash()
			rows.aliases[string(h[:])] = w.seq
		}
	}
	return rows
}

const (
	insertTracesSQL = `INSERT INTO {{schema}}.trace (hash, day, count)
SELECT * FROM unnest($1::bytea[], $2::int4[], $3::int2[])`
	markCopySQL = `UPDATE {{schema}}.copy SET place = $3, events = events + $4 WHERE source = $1 AND place = $2`
)

// eventNames are the columns of an event, in the order of values.
var eventNames = []string{
	"seq", "hash", "current", "generation", "fingerprint", "accepted", "win", "expires", "tasks", "hold", "drop_body",
	"newest", "keeper", "quarantine", "producer", "endpoint", "type", "key", "vendor", "about", "extra", "response",
	"size", "body",
}

func (w *row) values() []any {
	r, p, s := &w.rec, &w.rec.Payload, w.state()
	body := p.Body
	if w.keeper != 0 {
		body = nil
	}
	return []any{
		w.seq, w.hash, s.current, r.Generation, fingerprintOf(r), r.Accepted, r.Window.Microseconds(),
		moment(s.expires), s.tasks, s.hold, r.DropBody, s.newest, nonzero(s.keeper), optional(r.QuarantineReason),
		text(p.Producer), text(p.Endpoint), text(p.Type), text(r.Key.ID), optional(p.VendorID), packAbout(r),
		bytesOf(s.extra), bytesOf(s.response), w.size, body,
	}
}

// write stores items, and how far the copy is.
func (c *copier) write(ctx context.Context, items []dedup.Item) error {
	rows := newCopied(items)
	place := items[len(items)-1].Place
	b := &pgx.Batch{}
	if len(rows.tasks.seq) > 0 {
		names := texts(slices.Sorted(maps.Keys(rows.handlers)))
		b.Queue(c.sql(noteSQL), nil, names)
		b.Queue(c.sql(upsertTasksSQL), rows.tasks.args()...)
	}
	if len(rows.aliases) > 0 {
		hashes := hashesOf(rows.aliases)
		var seqs []int64
		for _, h := range hashes {
			seqs = append(seqs, rows.aliases[string(h)])
		}
		b.Queue(c.sql(insertAliasSQL), hashes, seqs)
	}
	if len(rows.traces) > 0 {
		hashes := hashesOf(rows.traces)
		var days []int32
		var counts []int16
		for _, h := range hashes {
			t := rows.traces[string(h)]
			days, counts = append(days, int32(t.Day)), append(counts, int16(t.Count))
		}
		b.Queue(c.sql(insertTracesSQL), hashes, days, counts)
	}
	err := c.inTx(ctx, func(tx pgx.Tx) error {
		tag, err := tx.Exec(ctx, c.sql(markCopySQL), c.from.State, c.place, place, len(rows.rows))
		if err != nil {
			return err
		}
		if tag.RowsAffected() != 1 {
			return fmt.Errorf("%w call: another one copies the same source", dedup.ErrInvalid)
		}
		table := pgx.Identifier{schemaName(c.schema), "event"}
		_, err = tx.CopyFrom(ctx, table, eventNames, pgx.CopyFromSlice(len(rows.rows), func(i int) ([]any, error) {
			return rows.rows[i].values(), nil
		}))
		if err != nil {
			return err
		}
		return tx.SendBatch(ctx, b).Close()
	})
	if err != nil {
		return err
	}
	c.place = place
	c.events += int64(len(rows.rows))
	c.report(c.events, false)
	return nil
}

// hashesOf returns the keys of a map in their order.
func hashesOf[V any](m map[string]V) [][]byte {
	var out [][]byte
	for _, h := range slices.Sorted(maps.Keys(m)) {
		out = append(out, []byte(h))
	}
	return out
}

const readCopiedSQL = `SELECT ` + columns + `, ` + bodyColumn + `
FROM {{schema}}.event e` + withTasks + ` WHERE e.seq = ANY($1::int8[]) ORDER BY e.seq, t.idx`

// compare compares items with what is stored.
func (c *copier) compare(ctx context.Context, items []dedup.Item) error {
	want := newCopied(items)
	var seqs []int64
	for _, w := range want.rows {
		seqs = append(seqs, w.seq)
	}
	have := copied{aliases: map[string]int64{}, traces: map[string]dedup.Trace{}}
	b := &pgx.Batch{}
	b.Queue(c.sql(readCopiedSQL), seqs).Query(func(rows pgx.Rows) (err error) {
		have.rows, err = collect(rows, true)
		return err
	})
	b.Queue(c.sql(aliasSQL), hashesOf(want.aliases)).Query(func(rows pgx.Rows) error {
		var hash []byte
		var seq int64
		_, err := pgx.ForEachRow(rows, []any{&hash, &seq}, func() error {
			have.aliases[string(hash)] = seq
			return nil
		})
		return err
	})
	b.Queue(c.sql(traceSQL), hashesOf(want.traces)).Query(func(rows pgx.Rows) error {
		var hash []byte
		var day, count int
		_, err := pgx.ForEachRow(rows, []any{&hash, &day, &count}, func() error {
			have.traces[string(hash)] = dedup.Trace{Day: dedup.Day(day), Count: uint8(count)}
			return nil
		})
		return err
	})
	if err := fault(c.conn.SendBatch(ctx, b).Close()); err != nil {
		return err
	}
	bySeq := map[int64]*row{}
	for _, w := range have.rows {
		bySeq[w.seq] = w
	}
	for _, w := range want.rows {
		if !same(w, bySeq[w.seq]) {
			return fmt.Errorf("event %s is not as in the source", w.rec.Event)
		}
		c.seq = max(c.seq, w.rec.Seq)
		for _, t := range w.rec.Tasks {
			c.token = max(c.token, t.Token)
		}
	}
	if !maps.Equal(want.aliases, have.aliases) || !maps.Equal(want.traces, have.traces) {
		return fmt.Errorf("aliases or remembered keys are not as in the source, before %s", items[len(items)-1].Place)
	}
	c.events += int64(len(want.rows))
	c.out.Events = c.events
	c.out.Tasks += int64(len(want.tasks.seq))
	c.out.Aliases += int64(len(want.aliases))
	c.out.Remembered += int64(len(want.traces))
	c.report(c.events, true)
	return nil
}

const countSQL = `SELECT (SELECT count(*) FROM {{schema}}.event), (SELECT count(*) FROM {{schema}}.task),
  (SELECT count(*) FROM {{schema}}.alias), (SELECT count(*) FROM {{schema}}.trace)`

// count compares the numbers of rows with those that were compared.
func (c *copier) count(ctx context.Context) error {
	have := c.out
	row := c.conn.QueryRow(ctx, c.sql(countSQL))
	if err := row.Scan(&have.Events, &have.Tasks, &have.Aliases, &have.Remembered); err != nil {
		return fault(err)
	}
	if have != c.out {
		return fmt.Errorf("the tables have more than the source: %+v, not %+v", have, c.out)
	}
	if c.out.Events != c.from.Events {
		return fmt.Errorf("the source has %d events, and %d were copied", c.from.Events, c.out.Events)
	}
	return nil
}

const (
	numberSQL = `SELECT setval('{{schema}}.seq', greatest($1::int8, 1), $1::int8 > 0),
  setval('{{schema}}.token', greatest($2::int8, 1), $2::int8 > 0)`
	rememberedSQL = `UPDATE {{schema}}.remembered SET since = $1, evicted = $2`
	finishCopySQL = `UPDATE {{schema}}.copy SET finished = now()`
)

// finish opens the tables.
func (c *copier) finish(ctx context.Context) error {
	return c.inTx(ctx, func(tx pgx.Tx) error {
		b := &pgx.Batch{}
		if c.from.Since != 0 {
			b.Queue(c.sql(rememberedSQL), int(c.from.Since), int(c.from.Evicted))
		}
		b.Queue(c.sql(finishCopySQL))
		b.Queue(c.sql(numberSQL), int64(max(c.seq, c.from.Seq)), int64(max(c.token, c.from.Token)))
		return tx.SendBatch(ctx, b).Close()
	})
}

// unfinished returns an error if a copy into the tables is not finished.
func unfinished(ctx context.Context, q rowQuerier, schema string) error {
	var source string
	err := q.QueryRow(ctx, inSchema("SELECT source FROM {{schema}}.copy WHERE finished IS NULL", schema)).Scan(&source)
	if err == nil {
		return fmt.Errorf("the copy of store %s into schema %s is not finished: run `eyelet store copy` again",
			source, schemaName(schema))
	}
	if errors.Is(err, pgx.ErrNoRows) {
		return nil
	}
	return err
}
