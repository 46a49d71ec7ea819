package pgstore

import (
	"context"
	"fmt"
	"math"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/eyelet-dev/eyelet/dedup"
)

// Copied counts what a copy has written.
type Copied struct {
	Events  int64 `json:"events"`
	Tasks   int64 `json:"tasks"`
	Aliases int64 `json:"aliases"`
	// Remembered counts keys beyond their windows.
	Remembered int64 `json:"remembered"`
	Notes      int64 `json:"notes"`
}

// Copy copies another store into the empty tables of a schema (see [Migrate]; the user must own
// them), so that every delivery is answered as before. Events keep their ids, sequence numbers,
// windows and attempts. Times are cut to microseconds. A window that did not count while the source
// was out of use becomes a longer one.
//
// It copies a few hundred events in each transaction. Until it returns nil, [Open] fails, and a
// store that was open before accepts and takes nothing. After an error or an interruption, call it
// again: it empties the tables and begins again. At the end it compares the numbers of rows. The
// error is [dedup.ErrInvalid] if the tables have rows that are not those of an unfinished copy.
//
// report, unless it is nil, is called after each transaction with the number of events that are
// copied.
func Copy(
	ctx context.Context, dsn, schema string, from *dedup.Source, report func(events int64),
) (out Copied, err error) {
	c := &copier{schema: schema, from: from, report: report}
	if c.report == nil {
		c.report = func(int64) {}
	}
	if err := c.connect(ctx, dsn); err != nil {
		return out, openError(err)
	}
	defer func() { _ = c.conn.Close(context.WithoutCancel(ctx)) }()
	for _, step := range []func(context.Context) error{c.begin, c.copy, c.finish} {
		if err := step(ctx); err != nil {
			return c.out, fmt.Errorf("copy into schema %s: %w", schemaName(schema), err)
		}
	}
	return c.out, nil
}

// copier copies a source.
type copier struct {
	conn   *pgx.Conn
	schema string
	from   *dedup.Source
	report func(int64)
	out    Copied
	id     string // of this call, in the table
}

// The size of a transaction.
const (
	copyItems = 384
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
		_, err = migrated(ctx, c.conn, c.schema)
	}
	if err != nil {
		_ = c.conn.Close(ctx)
	}
	return err
}

func (c *copier) sql(statement string) string { return inSchema(statement, c.schema) }

// inTx runs a transaction.
func (c *copier) inTx(ctx context.Context, run func(pgx.Tx) error) error {
	return fault(pgx.BeginFunc(ctx, c.conn, run))
}

const (
	anotherCopySQL = `DELETE FROM {{schema}}.copy`
	clearSQL       = `TRUNCATE {{schema}}.event, {{schema}}.task, {{schema}}.alias, {{schema}}.trace, {{schema}}.note`
	emptySQL       = `SELECT NOT EXISTS (SELECT FROM {{schema}}.event) AND NOT EXISTS (SELECT FROM {{schema}}.trace)
  AND NOT EXISTS (SELECT FROM {{schema}}.note)`
	beginCopySQL = `INSERT INTO {{schema}}.copy DEFAULT VALUES RETURNING id::text`
)

// number makes the sequences continue after numbers when the transaction is committed. Before, it
// waits for all transactions that took a number, and others wait for it.
func (c *copier) number(ctx context.Context, tx pgx.Tx, seq, token uint64) error {
	for _, s := range []struct {
		name string
		last uint64
	}{{"seq", seq}, {"token", token}} { // in the order of claims, against deadlocks
		sql := fmt.Sprintf("ALTER SEQUENCE {{schema}}.%s RESTART WITH %d", s.name, max(1, s.last))
		if _, err := tx.Exec(ctx, c.sql(sql)); err != nil {
			return err
		}
		if _, err := tx.Exec(ctx, c.sql("SELECT nextval('{{schema}}."+s.name+"')")); err != nil {
			return err
		}
	}
	return nil
}

// begin empties the tables of an unfinished copy, or requires that they are empty. From then on no
// store accepts or takes anything, for want of numbers.
func (c *copier) begin(ctx context.Context) error {
	return c.inTx(ctx, func(tx pgx.Tx) error {
		tag, err := tx.Exec(ctx, c.sql(anotherCopySQL))
		if err == nil && tag.RowsAffected() > 0 {
			_, err = tx.Exec(ctx, c.sql(clearSQL))
		}
		if err == nil {
			err = c.number(ctx, tx, math.MaxInt64, math.MaxInt64)
		}
		var empty bool
		if err == nil {
			err = tx.QueryRow(ctx, c.sql(emptySQL)).Scan(&empty)
		}
		switch {
		case err != nil:
			return err
		case !empty:
			return fmt.Errorf("%w target: it has events or notes, of its own or of a copy that is finished. "+
				"Name a schema with empty tables", dedup.ErrInvalid)
		}
		return tx.QueryRow(ctx, c.sql(beginCopySQL)).Scan(&c.id)
	})
}

// copy writes all items, some at a time.
func (c *copier) copy(ctx context.Context) error {
	var items []dedup.Item
	size := 0
	for item, err := range c.from.Items(ctx) {
		if err != nil {
			return err
		}
		items = append(items, item)
		if size += len(item.Record.Payload.Body); len(items) < copyItems && size < copyBytes {
			continue
		}
		if err := c.write(ctx, items); err != nil {
			return err
		}
		items, size = nil, 0
	}
	return c.write(ctx, items)
}

const (
	sameCopySQL   = `SELECT FROM {{schema}}.copy WHERE id = $1 FOR SHARE`
	finishCopySQL = `DELETE FROM {{schema}}.copy WHERE id = $1`
)

// own runs a statement that finds the row of this call.
func (c *copier) own(ctx context.Context, tx pgx.Tx, statement string) error {
	tag, err := tx.Exec(ctx, c.sql(statement), c.id)
	if err == nil && tag.RowsAffected() != 1 {
		err = fmt.Errorf("%w call: another copy into these tables began", dedup.ErrInvalid)
	}
	return err
}

// copied are rows of tables, by their names.
type copied map[string][][]any

func (c copied) add(table string, values ...any) { c[table] = append(c[table], values) }

// write stores items.
func (c *copier) write(ctx context.Context, items []dedup.Item) error {
	rows := copied{}
	var handlers []string
	for i := range items {
		item := &items[i]
		if n := item.Note; n.Text != "" {
			h := n.Key.Hash()
			rows.add("note", text(n.Key.Space), h[:], packKey(n.Key), text(n.Text), n.At.Truncate(time.Microsecond))
			continue
		}
		if item.Record.Event == "" {
			rows.add("trace", item.Hash[:], int(item.Trace.Day), int(item.Trace.Count))
			continue
		}
		w := rowOf(item)
		rows.add("event", w.event()...)
		for i, t := range w.rec.Tasks {
			rows.add("task", w.task(w.taskRow(i))...)
			handlers = append(handlers, t.Handler)
		}
		for _, name := range item.Names {
			h := name.Hash()
			rows.add("alias", h[:], w.seq)
		}
	}
	if err := c.inTx(ctx, func(tx pgx.Tx) error { return c.writeRows(ctx, tx, rows, handlers) }); err != nil {
		return err
	}
	c.out.Events += int64(len(rows["event"]))
	c.out.Tasks += int64(len(rows["task"]))
	c.out.Aliases += int64(len(rows["alias"]))
	c.out.Remembered += int64(len(rows["trace"]))
	c.out.Notes += int64(len(rows["note"]))
	c.report(c.out.Events)
	return nil
}

func (c *copier) writeRows(ctx context.Context, tx pgx.Tx, rows copied, handlers []string) error {
	if err := c.own(ctx, tx, sameCopySQL); err != nil {
		return err
	}
	if _, err := tx.Exec(ctx, c.sql(noteSQL), nil, texts(handlers)); err != nil {
		return err
	}
	columns := map[string][]string{
		"event": eventColumns, "task": taskColumns, "alias": {"hash", "seq"}, "trace": {"hash", "day", "count"},
		"note": {"space", "hash", "key", "note", "at"},
	}
	for table, values := range rows {
		name := pgx.Identifier{schemaName(c.schema), table}
		if _, err := tx.CopyFrom(ctx, name, columns[table], pgx.CopyFromRows(values)); err != nil {
			return err
		}
	}
	return nil
}

const (
	countSQL = `SELECT (SELECT count(*) FROM {{schema}}.event), (SELECT count(*) FROM {{schema}}.task),
  (SELECT count(*) FROM {{schema}}.alias), (SELECT count(*) FROM {{schema}}.trace),
  (SELECT count(*) FROM {{schema}}.note)`
	rememberedSQL = `UPDATE {{schema}}.remembered SET since = $1, evicted = $2`
)

// finish compares the numbers of rows, and opens the tables.
func (c *copier) finish(ctx context.Context) error {
	if c.out.Events != c.from.Events {
		return fmt.Errorf("the source has %d events, and %d were copied", c.from.Events, c.out.Events)
	}
	return c.inTx(ctx, func(tx pgx.Tx) error {
		if err := c.own(ctx, tx, finishCopySQL); err != nil {
			return err
		}
		var have Copied
		row := tx.QueryRow(ctx, c.sql(countSQL))
		if err := row.Scan(&have.Events, &have.Tasks, &have.Aliases, &have.Remembered, &have.Notes); err != nil {
			return err
		}
		if have != c.out {
			return fmt.Errorf("%w target: it has %+v, and %+v was copied", dedup.ErrInvalid, have, c.out)
		}
		if c.from.Since != 0 {
			if _, err := tx.Exec(ctx, c.sql(rememberedSQL), int(c.from.Since), int(c.from.Evicted)); err != nil {
				return err
			}
		}
		return c.number(ctx, tx, c.from.Seq, c.from.Token)
	})
}

// unfinished returns an error if a copy into the tables is not finished.
func unfinished(ctx context.Context, q rowQuerier, schema string) error {
	var found bool
	err := q.QueryRow(ctx, inSchema("SELECT EXISTS (SELECT 1 FROM {{schema}}.copy)", schema)).Scan(&found)
	if err == nil && found {
		err = fmt.Errorf("a copy into schema %s is not finished: run `eyelet store copy` again", schemaName(schema))
	}
	return err
}
