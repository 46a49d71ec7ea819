package pgstore

import (
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/eyelet-dev/eyelet/dedup"
)

// row is the record of one event, with what the tables have beside it. The body is loaded only
// where it is asked for.
type row struct {
	rec     dedup.Record
	seq     int64
	hash    []byte
	current bool
	size    int
	fresh   bool  // not inserted yet
	deleted bool  // to be deleted
	swept   bool  // when to sweep its tasks is computed again
	damage  error // why it cannot be read; then only what is a column of its own is known
	// The columns that are packed or computed.
	fingerprint, about, extra, response []byte
	count                               int // of tasks
	expires                             time.Time

	stored *row // what the tables have, if it may change
}

// sweepAt returns when the record may be forgotten, zero for not in its present state: what
// changes that state computes it again. The event has it if it has no tasks, else every task. Of
// tasks that end at once in two statements, neither of which sees the other, each has its own.
func (w *row) sweepAt() time.Time {
	r := &w.rec
	if r.Newest || r.State() == dedup.Dead {
		return time.Time{}
	}
	return r.Ends()
}

// withTasks joins the tasks of e. OFFSET 0 makes the plan look them up for each event: one that was
// made while the table was small would read all of it, and serve until there are statistics of a
// larger one.
const withTasks = `
LEFT JOIN LATERAL (SELECT * FROM {{schema}}.task x WHERE x.seq = e.seq OFFSET 0) t ON true`

// eventColumns are the columns of an event, in the order of [row.event]. The first one is read
// where it is asked for.
var eventColumns = strings.Fields(`body seq hash current generation fingerprint accepted win expires tasks hold
 drop_body newest quarantine producer endpoint type key vendor about extra response size`)

// taskColumns are the columns of a task, and taskTypes their types, in the order of [row.task]. The
// last ones are known from the event and not read.
var (
	taskColumns = strings.Fields(`idx state attempt postponed token due started ended until
 handler lanename reason err history version unfenced seq hold drops size win expires lane`)
	taskTypes = strings.Fields(`int2 int2 int4 int4 int8 timestamptz timestamptz timestamptz timestamptz
 text text text text bytea text bool int8 bool bool int4 int8 timestamptz bytea`)
)

// tasksRead is how many columns of a task are read.
const tasksRead = 16

// columns are those of an event and one of its tasks, without the body. An event without tasks
// has no idx.
var columns = func() string {
	list := "e." + strings.Join(eventColumns[1:], ", e.")
	for i, column := range taskColumns[:tasksRead] {
		switch column = "t." + column; {
		case i > 0 && strings.HasPrefix(taskTypes[i], "int"):
			column = "coalesce(" + column + ", 0)"
		case taskTypes[i] == "bool":
			column = "coalesce(" + column + ", false)"
		}
		list += ", " + column
	}
	return list
}()

// event returns where the columns of the event are, to read and to write them.
func (w *row) event() []any {
	r, p := &w.rec, &w.rec.Payload
	return []any{
		&p.Body, &w.seq, &w.hash, &w.current, &r.Generation, &w.fingerprint, (*instant)(&r.Accepted),
		(*microseconds)(&r.Window), (*instant)(&w.expires), &w.count, &r.Hold,
		&r.DropBody, &r.Newest, (*optionalText)(&r.QuarantineReason), (*escapedText)(&p.Producer),
		(*escapedText)(&p.Endpoint), (*escapedText)(&p.Type), (*escapedText)(&r.Key.ID), (*optionalText)(&p.VendorID),
		&w.about, &w.extra, &w.response, &w.size,
	}
}

// taskRow is a task as the table has it.
type taskRow struct {
	dedup.Task
	idx           *int16
	expires       time.Time
	lane, history []byte
}

func (w *row) taskRow(i int) *taskRow {
	t := &w.rec.Tasks[i]
	return &taskRow{*t, new(int16(i)), w.sweepAt(), laneOf(&w.rec, i), packHistory(t.History)}
}

// task returns where the columns of a task are, to read and to write them.
func (w *row) task(t *taskRow) []any {
	return []any{
		&t.idx, &t.State, &t.Attempt, &t.Postponed, &t.Token,
		(*instant)(&t.Due), (*instant)(&t.Started), (*instant)(&t.Ended), (*instant)(&t.Until),
		(*escapedText)(&t.Handler), (*escapedText)(&t.Lane), (*escapedText)(&t.Reason), (*escapedText)(&t.Err),
		&t.history, (*optionalText)(&t.Version), &t.Unfenced,
		&w.seq, &w.rec.Hold, &w.rec.DropBody, &w.size, (*microseconds)(&w.rec.Window), (*instant)(&t.expires), &t.lane,
	}
}

// pack computes the columns that are packed or computed and that change.
func (w *row) pack() {
	r := &w.rec
	w.extra, w.response, w.count, w.expires = packExtra(r), packResponse(&r.Response), len(r.Tasks), time.Time{}
	if len(r.Tasks) == 0 {
		w.expires = w.sweepAt()
	}
}

// unpack decodes the columns that are packed.
func (w *row) unpack() {
	r := &w.rec
	r.Seq, r.Event = uint64(w.seq), eventID(w.seq, w.hash)
	copy(r.Fingerprint[:], w.fingerprint)
	w.spoil(unpackRecord(w.about, w.extra, w.response, r))
}

// spoil notes that a part of the row cannot be read.
func (w *row) spoil(err error) {
	if err != nil {
		w.damage = fmt.Errorf("event %s: %w", w.rec.Event, err)
	}
}

// collect reads rows of columns that are ordered by event and task. The caller looks for damage.
func (d *database) collect(rows pgx.Rows, body bool) (out []*row, err error) {
	defer rows.Close()
	for rows.Next() {
		w, t := &row{}, &taskRow{}
		targets := w.event()
		if !body {
			targets = targets[1:]
		}
		if err := rows.Scan(append(targets, w.task(t)[:tasksRead]...)...); err != nil {
			return nil, err
		}
		if len(out) == 0 || out[len(out)-1].seq != w.seq {
			w.unpack()
			out = append(out, w)
		}
		if t.idx != nil {
			w = out[len(out)-1]
			w.spoil(unpack(t.history, &t.History, codeHistory))
			w.rec.Tasks = append(w.rec.Tasks, t.Task)
		}
	}
	for _, w := range out {
		if w.damage != nil {
			d.report(w)
			continue
		}
		w.settle()
	}
	return out, rows.Err()
}

// settle computes what follows from the tasks and is therefore no column: when the last one
// ended, and whether the body counts as dropped.
func (w *row) settle() {
	r := &w.rec
	freed := r.Hold && len(r.Tasks) == 1 && r.Tasks[0].State == dedup.Pending
	if !r.Open() || freed {
		r.Finished = r.Accepted
		for _, t := range r.Tasks {
			if t.Ended.After(r.Finished) {
				r.Finished = t.Ended
			}
		}
		r.Expires = r.Finished.Add(r.Window)
	}
	if r.Dropped() {
		r.Payload.Body = nil
	}
}
