package pgstore

import (
	"errors"
	"fmt"
	"slices"
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
	// What is stored: the columns that change, the tasks, and the aliases.
	stored  state
	tasks   []dedup.Task
	aliases []dedup.Key
}

// state are the columns of an event that change.
type state struct {
	current, hold, newest, dropped bool
	sweeps                         bool // its tasks say when to sweep
	tasks                          int
	expires                        time.Time
	extra, response                string
}

func (w *row) state() state {
	r := &w.rec
	s := state{
		current: w.current, sweeps: w.sweeps(), hold: r.Hold, newest: r.Newest, dropped: r.Dropped(),
		tasks: len(r.Tasks), extra: string(packExtra(r)), response: string(packResponse(&r.Response)),
	}
	if len(r.Tasks) == 0 {
		s.expires = w.sweepAt()
	}
	return s
}

// sweepAt returns when the record may be forgotten, zero for not in its present state: what
// changes that state computes it again. The event has it if it has no tasks, else every task. Of
// tasks that end at once in two statements, neither of which sees the other, each has its own.
func (w *row) sweepAt() time.Time {
	r := &w.rec
	if !w.sweeps() || r.State() == dedup.Dead {
		return time.Time{}
	}
	return r.Ends()
}

func (w *row) sweeps() bool { return !w.rec.Newest }

// columns are those of an event and one of its tasks, in the order of scan.
const columns = `e.seq, e.hash, e.current, e.generation, e.fingerprint, e.accepted, e.win, e.hold, e.drop_body, e.newest,
 e.quarantine, e.producer, e.endpoint, e.type, e.key, e.vendor, e.about, e.extra, e.response, e.size,
 t.idx, t.state, t.attempt, t.postponed, t.token, t.due, t.started, t.ended, t.until, t.handler, t.lanename,
 t.reason, t.err, t.history`

// withTasks joins the tasks of e. OFFSET 0 makes the plan look them up for each event: one that was
// made while the table was small would read all of it, and serve until there are statistics of a
// larger one.
const withTasks = `
LEFT JOIN LATERAL (SELECT * FROM {{schema}}.task x WHERE x.seq = e.seq OFFSET 0) t ON true`

// scanned is one row of columns.
type scanned struct {
	row
	win                                 int64
	fingerprint, about, extra, response []byte
	quarantine, vendor                  *string
	idx, state                          *int16
	attempt, postponed                  *int32
	token                               *int64
	due, started, ended, until          *time.Time
	handler, lane, reason, err          *string
	history, body                       []byte
}

func (s *scanned) targets(body bool) []any {
	r := &s.rec
	targets := []any{
		&s.seq, &s.hash, &s.current, &r.Generation, &s.fingerprint, &r.Accepted, &s.win, &r.Hold, &r.DropBody,
		&r.Newest, &s.quarantine,
		&r.Payload.Producer, &r.Payload.Endpoint, &r.Payload.Type, &r.Key.ID, &s.vendor,
		&s.about, &s.extra, &s.response, &s.size,
		&s.idx, &s.state, &s.attempt, &s.postponed, &s.token, &s.due, &s.started, &s.ended, &s.until,
		&s.handler, &s.lane, &s.reason, &s.err, &s.history,
	}
	if body {
		targets = append(targets, &s.body)
	}
	return targets
}

// record fills the parts of the record that are not scanned as they are.
func (s *scanned) record() error {
	r := &s.rec
	p := &r.Payload
	r.Seq, r.Event = uint64(s.seq), eventID(s.seq, s.hash)
	copy(r.Fingerprint[:], s.fingerprint)
	r.Accepted, r.Window = r.Accepted.UTC(), time.Duration(s.win)*time.Microsecond
	p.Producer, p.Endpoint, p.Type, r.Key.ID = untext(p.Producer), untext(p.Endpoint), untext(p.Type), untext(r.Key.ID)
	p.VendorID, r.QuarantineReason, p.Body = unoptional(s.vendor), unoptional(s.quarantine), s.body
	return unpackRecord(s.about, s.extra, s.response, r)
}

func (s *scanned) task() (dedup.Task, error) {
	t := dedup.Task{
		Handler: unoptional(s.handler), Lane: unoptional(s.lane), State: dedup.State(*s.state),
		Attempt: int(*s.attempt), Postponed: int(*s.postponed), Token: uint64(*s.token),
		Due: unmoment(s.due), Started: unmoment(s.started), Ended: unmoment(s.ended), Until: unmoment(s.until),
		Reason: unoptional(s.reason), Err: unoptional(s.err),
	}
	return t, unpack(s.history, &t.History, codeHistory)
}

// spoil notes that a part of the row cannot be read.
func (w *row) spoil(err error) {
	if err != nil {
		w.damage = fmt.Errorf("event %s: %w", eventID(w.seq, w.hash), err)
	}
}

// damageOf returns why records cannot be read, nil for none.
func damageOf(damaged []*row) (err error) {
	for _, w := range damaged {
		err = errors.Join(err, w.damage)
	}
	return err
}

// collectSound reads rows of columns that are ordered by event and task. It returns the events with
// a damaged row apart.
func collectSound(rows pgx.Rows, body bool) (out, damaged []*row, err error) {
	defer rows.Close()
	for rows.Next() {
		var s scanned
		if err := rows.Scan(s.targets(body)...); err != nil {
			return nil, nil, err
		}
		if len(out) == 0 || out[len(out)-1].seq != s.seq {
			s.spoil(s.record())
			out = append(out, &s.row)
		}
		if s.idx == nil {
			continue
		}
		w := out[len(out)-1]
		t, err := s.task()
		w.spoil(err)
		w.rec.Tasks = append(w.rec.Tasks, t)
	}
	out = slices.DeleteFunc(out, func(w *row) bool {
		if w.damage != nil {
			damaged = append(damaged, w)
		}
		return w.damage != nil
	})
	for _, w := range out {
		w.settle()
	}
	return out, damaged, rows.Err()
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
	w.stored, w.tasks, w.aliases = w.state(), slices.Clone(r.Tasks), r.Aliases
}
