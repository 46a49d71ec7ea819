package pgstore

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/eyelet-dev/eyelet/dedup"
)

// Report is the result of [Check].
type Report struct {
	Schema  string `json:"schema"`
	Version int    `json:"version"` // of the tables
	Events  int64  `json:"events"`
	Older   int64  `json:"older"` // events that are older generations of their keys
	Pending int64  `json:"pending"`
	Running int64  `json:"running"`
	Done    int64  `json:"done"`
	Dead    int64  `json:"dead"`
	Aliases int64  `json:"aliases"`
	Traces  int64  `json:"traces"` // of keys that are remembered beyond their windows
	// Broken are the promises of the tables that do not hold.
	Broken []Broken `json:"broken,omitempty"`
}

// Sound reports whether nothing is wrong.
func (r *Report) Sound() bool { return len(r.Broken) == 0 }

// Broken is a promise of the tables that does not hold.
type Broken struct {
	What   string   `json:"what"`
	Count  int64    `json:"count"`
	Events []string `json:"events"` // some of the events, or their numbers if the event is missing
}

// maxExamples bounds the events of a Broken.
const maxExamples = 5

const (
	tasks  = "SELECT t.seq FROM {{schema}}.task t WHERE "
	events = "SELECT e.seq FROM {{schema}}.event e WHERE "
)

// invariants are what the tables promise: each query returns the numbers of events for which it
// does not hold. Receivers may not select from sequences.
var invariants = []struct{ what, sql string }{
	{"a task has no event", tasks + `NOT EXISTS (SELECT 1 FROM {{schema}}.event e WHERE e.seq = t.seq)`},
	{"an event has not the tasks that it counts",
		`SELECT e.seq FROM {{schema}}.event e LEFT JOIN {{schema}}.task t ON t.seq = e.seq GROUP BY e.seq
HAVING count(t.seq) <> e.tasks OR coalesce(max(t.idx) + 1, 0) <> e.tasks`},
	{"a task differs from its event", `SELECT t.seq FROM {{schema}}.task t JOIN {{schema}}.event e USING (seq)
WHERE t.size <> e.size OR t.win <> e.win OR t.hold <> e.hold OR t.drops <> e.drop_body`},
	{"two tasks of a lane run", `SELECT min(t.seq) FROM {{schema}}.task t WHERE t.state = 2 AND t.lane IS NOT NULL
GROUP BY t.lane HAVING count(*) > 1`},
	{"a task is not in its lane", tasks + `(t.lanename <> '' AND NOT t.hold) <> (t.lane IS NOT NULL)`},
	{"a task has no state that is known", tasks + `t.state NOT IN (1, 2, 3, 4)`},
	{"a waiting task is never due", tasks + `t.state = 1 AND NOT t.hold AND t.due IS NULL`},
	{"a running task has no lease", tasks + `t.state = 2 AND (t.token <= 0 OR t.until IS NULL OR t.started IS NULL)`},
	{"a task with an outcome has no end", tasks + `t.state IN (3, 4) AND t.ended IS NULL`},
	{"a finished event is never forgotten", events + `NOT e.newest
AND e.expires IS NULL AND (e.tasks > 0 OR e.quarantine IS NULL) AND NOT EXISTS
  (SELECT 1 FROM {{schema}}.task t WHERE t.seq = e.seq AND (t.state <> 3 OR t.expires IS NOT NULL))`},
	{"two events of a key have the same generation",
		`SELECT min(e.seq) FROM {{schema}}.event e GROUP BY e.hash, e.generation HAVING count(*) > 1`},
	{"two events decide for a key",
		`SELECT min(e.seq) FROM {{schema}}.event e WHERE e.current GROUP BY e.hash HAVING count(*) > 1`},
	{"an alias has no event",
		`SELECT a.seq FROM {{schema}}.alias a WHERE NOT EXISTS (SELECT 1 FROM {{schema}}.event e WHERE e.seq = a.seq)`},
	{"a body has not the size of its event", events + `e.body IS NOT NULL AND octet_length(e.body) <> e.size`},
	{"an open event has lost its body", events + `e.body IS NULL
AND EXISTS (SELECT 1 FROM {{schema}}.task t WHERE t.seq = e.seq AND t.state IN (1, 2))`},
	{"the handler of an open task was not noted", tasks + `t.state IN (1, 2)
AND NOT EXISTS (SELECT 1 FROM {{schema}}.handler h WHERE h.name = t.handler)`},
	{"an event has a number that will be used again",
		events + `e.seq > (SELECT coalesce(pg_sequence_last_value('{{schema}}.seq'), 0))`},
	{"a lease has a token that will be used again",
		tasks + `t.token > (SELECT coalesce(pg_sequence_last_value('{{schema}}.token'), 0))`},
	{"the days that are remembered are not one row",
		`SELECT 0::int8 FROM {{schema}}.remembered HAVING count(*) <> 1`},
}

// brokenSQL counts the events of an invariant's query and returns some of them.
const brokenSQL = `SELECT count(*) OVER (), x.seq, e.hash FROM (SELECT DISTINCT seq FROM (%s) y(seq)) x
LEFT JOIN {{schema}}.event e ON e.seq = x.seq ORDER BY x.seq LIMIT %d`

const countsSQL = `SELECT count(*) FILTER (WHERE state = 1), count(*) FILTER (WHERE state = 2),
count(*) FILTER (WHERE state = 3), count(*) FILTER (WHERE state = 4),
(SELECT count(*) FROM {{schema}}.event), (SELECT count(*) FROM {{schema}}.event WHERE NOT current),
(SELECT count(*) FROM {{schema}}.alias), (SELECT count(*) FROM {{schema}}.trace) FROM {{schema}}.task`

// unreadable is what the tables break by an event that no Take can read.
const unreadable = "an event cannot be read"

// packedSQL returns what is packed in the columns of events and their tasks.
const packedSQL = `SELECT e.seq, e.hash, e.about, e.extra, e.response,
ARRAY(SELECT t.history FROM {{schema}}.task t WHERE t.seq = e.seq AND t.history IS NOT NULL) FROM {{schema}}.event e ORDER BY e.seq`

// Check looks for what is wrong in the tables of a store: events that cannot be read, tasks without
// events, two running tasks of a lane, and whatever else they promise. It changes nothing and may
// run while receivers do, also on a standby. It reads all rows, but not the bodies, as they were at
// one moment; until it ends, the server cannot reuse the space of rows that were changed since. dsn
// and schema are those of [Open], whose errors for tables and servers it returns.
func Check(ctx context.Context, dsn, schema string) (r Report, err error) {
	config, err := poolConfig(dsn, nil)
	if err != nil {
		return r, err
	}
	config.ConnConfig.DefaultQueryExecMode = pgx.QueryExecModeExec // also before a pooler
	c, err := pgx.ConnectConfig(ctx, config.ConnConfig)
	if err != nil {
		return r, openError(err)
	}
	defer func() { _ = c.Close(context.WithoutCancel(ctx)) }()
	_, err = checkServer(ctx, c)
	if unavailable := (*dedup.ErrUnavailable)(nil); err == nil || errors.As(err, &unavailable) { // a standby will do
		err = pgx.BeginTxFunc(ctx, c, pgx.TxOptions{IsoLevel: pgx.RepeatableRead, AccessMode: pgx.ReadOnly},
			func(tx pgx.Tx) error { return r.read(ctx, tx, schema) })
	}
	if err != nil {
		err = openError(err)
	}
	return r, err
}

// read reads the tables.
func (r *Report) read(ctx context.Context, tx pgx.Tx, schema string) (err error) {
	r.Schema = schemaName(schema)
	if r.Version, err = migrated(ctx, tx, schema); err != nil {
		return err
	}
	row := tx.QueryRow(ctx, inSchema(countsSQL, schema))
	err = row.Scan(&r.Pending, &r.Running, &r.Done, &r.Dead, &r.Events, &r.Older, &r.Aliases, &r.Traces)
	if err != nil {
		return err
	}
	for _, i := range invariants {
		b := Broken{What: i.what}
		var seq int64
		var hash []byte
		sql := inSchema(fmt.Sprintf(brokenSQL, i.sql, maxExamples), schema)
		err := r.find(ctx, tx, &b, sql, []any{&b.Count, &seq, &hash}, func() {
			event := fmt.Sprint("number ", seq)
			if hash != nil {
				event = eventID(seq, hash)
			}
			b.Events = append(b.Events, event)
		})
		if err != nil {
			return err
		}
	}
	return r.decode(ctx, tx, schema)
}

// find calls each for the rows of a query, and adds b to the report if anything was counted then.
func (r *Report) find(
	ctx context.Context, tx pgx.Tx, b *Broken, sql string, columns []any, each func(),
) error {
	rows, err := tx.Query(ctx, sql)
	if err != nil {
		return err
	}
	_, err = pgx.ForEachRow(rows, columns, func() error {
		each()
		return nil
	})
	if b.Count > 0 {
		r.Broken = append(r.Broken, *b)
	}
	return err
}

// decode decodes what a Take decodes.
func (r *Report) decode(ctx context.Context, tx pgx.Tx, schema string) error {
	b := Broken{What: unreadable}
	var seq int64
	var hash, about, extra, response []byte
	var histories [][]byte
	columns := []any{&seq, &hash, &about, &extra, &response, &histories}
	return r.find(ctx, tx, &b, inSchema(packedSQL, schema), columns, func() {
		err := unpackRecord(about, extra, response, &dedup.Record{})
		for _, history := range histories {
			err = errors.Join(err, unpack(history, new([]dedup.Attempt), codeHistory))
		}
		if err == nil {
			return
		}
		if b.Count++; b.Count <= maxExamples {
			b.Events = append(b.Events, eventID(seq, hash))
		}
	})
}
