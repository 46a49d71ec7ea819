package once

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/eyelet-dev/eyelet/receiver"
)

// Defaults of [Marks].
const (
	DefaultTable = "eyelet_done"
	DefaultKeep  = 30 * 24 * time.Hour
)

const (
	// pruneBatch is how many marks one transaction removes.
	pruneBatch = 1000
	// pruneEvery is how often handlers look for marks to remove.
	pruneEvery = time.Hour
	// lookTime is how long to look for a mark, or to remove old ones.
	lookTime = 5 * time.Second
)

// Marks is a table with a row for each effect: the event's id, when it was accepted, and the
// handler's name. [SQL] and package oncepgx make one. Set its fields before its first use. The
// handlers of all receivers may share a table, also for several stores.
//
// A handler needs the rights to SELECT, INSERT and DELETE rows.
type Marks[Tx any] struct {
	// Table is the name of the table, as it is written in the database, with its schema before a
	// dot if it is not on the search path. The names are quoted. Defaults to [DefaultTable].
	Table string
	// Keep is how long a mark is kept; negative means without an end. It must be longer than
	// an event can come back: than a receiver may be down between an effect and its outcome, and
	// than the age of a backup of the events that is restored. Defaults to 30 days.
	Keep time.Duration
	// Logger reports old marks that cannot be removed. Defaults to slog.Default().
	Logger *slog.Logger

	db    Database[Tx]
	prune atomic.Int64 // when a handler looks for old marks next
}

// New returns the marks in a database.
func New[Tx any](db Database[Tx]) *Marks[Tx] { return &Marks[Tx]{db: db} }

// Schema returns the statement that creates the table. Running it again does nothing.
func (m *Marks[Tx]) Schema() string {
	return m.named("CREATE TABLE IF NOT EXISTS {{table}} (accepted timestamptz NOT NULL, event text NOT NULL, " +
		"handler text NOT NULL, done timestamptz NOT NULL DEFAULT now(), PRIMARY KEY (accepted, event, handler))")
}

// named puts the name of the table into a statement.
func (m *Marks[Tx]) named(statement string) string {
	parts := strings.Split(cmp.Or(m.Table, DefaultTable), ".")
	for i, part := range parts {
		parts[i] = `"` + strings.ReplaceAll(part, `"`, `""`) + `"`
	}
	return strings.ReplaceAll(statement, "{{table}}", strings.Join(parts, "."))
}

// insertSQL also bounds the transaction, by the server: how long it waits for another attempt, and
// how long it is idle.
const insertSQL = `INSERT INTO {{table}} (accepted, event, handler) SELECT $1::timestamptz, $2::text, $3::text
WHERE set_config('lock_timeout', $4::text, true) IS NOT NULL
AND set_config('idle_in_transaction_session_timeout', $4::text, true) IS NOT NULL
ON CONFLICT DO NOTHING`

// insert inserts the mark of an event and reports whether there was none.
func (m *Marks[Tx]) insert(ctx context.Context, t *transaction[Tx], ev *receiver.Event[any]) (bool, error) {
	accepted := ev.Accepted.UTC().Truncate(time.Microsecond)
	ms := strconv.FormatInt(t.lasts.Milliseconds(), 10)
	n, err := t.db.Exec(ctx, t.tx, m.named(insertSQL), accepted, ev.EventID, ev.Handler, ms)
	switch {
	case err == nil:
		return n == 1, nil
	case codeOf(err) == "42P01":
		return false, fmt.Errorf("there is no table of marks: %w; create it with this statement: %s", err, m.Schema())
	}
	return false, fmt.Errorf("the mark of the event is not inserted, another attempt may hold it: %w", err)
}

// exists reports whether an event is marked, after every transaction that is not over.
func (m *Marks[Tx]) exists(ctx context.Context, ev *receiver.Event[any]) (bool, error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), lookTime)
	defer cancel()
	t, err := begin(ctx, m.db)
	if err != nil {
		return false, err
	}
	defer t.release()
	first, err := m.insert(ctx, t, ev)
	return !first && err == nil, err
}

// Marks that are as old as their events are first. Those of events that were reopened are younger.
const pruneSQL = `DELETE FROM {{table}} WHERE ctid = ANY(ARRAY(SELECT ctid FROM {{table}}
WHERE accepted < now() - $1::int8 * interval '1 microsecond' AND done < now() - $1::int8 * interval '1 microsecond'
ORDER BY accepted, event, handler LIMIT $2))`

// Prune removes the marks that are older than Keep, a thousand in a transaction. Handlers remove
// old marks every hour, after an effect, so calling Prune is not necessary.
func (m *Marks[Tx]) Prune(ctx context.Context) error {
	for {
		if n, err := m.pruneSome(ctx); n < pruneBatch || err != nil {
			return err
		}
	}
}

// pruneSome removes some old marks and returns their number.
func (m *Marks[Tx]) pruneSome(ctx context.Context) (int64, error) {
	if m.Keep < 0 {
		return 0, nil
	}
	t, err := begin(ctx, m.db)
	if err != nil {
		return 0, err
	}
	defer t.release()
	keep := cmp.Or(m.Keep, DefaultKeep)
	n, err := t.db.Exec(ctx, t.tx, m.named(pruneSQL), keep.Microseconds(), pruneBatch)
	if err != nil {
		return 0, err
	}
	return n, t.commit()
}

// pruneNow removes some old marks if the last look is long enough ago, or left some.
func (m *Marks[Tx]) pruneNow(ctx context.Context) {
	now := time.Now()
	next := m.prune.Load()
	if now.UnixNano() < next || !m.prune.CompareAndSwap(next, now.Add(pruneEvery).UnixNano()) {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, lookTime)
	defer cancel()
	n, err := m.pruneSome(ctx)
	if n == pruneBatch {
		m.prune.Store(0)
	}
	if err != nil {
		logger := cmp.Or(m.Logger, slog.Default())
		logger.Warn("old marks of events are not removed", "table", cmp.Or(m.Table, DefaultTable), "error", err)
	}
}
