package pgstore

import (
	"bytes"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"
)

const (
	updateEventSQL = `UPDATE {{schema}}.event SET current = $1, hold = $2, newest = $3, tasks = $4, expires = $5,
  extra = $6, response = $7, body = CASE WHEN $8 THEN NULL ELSE body END WHERE seq = $9`

	insertAliasSQL = `INSERT INTO {{schema}}.alias (hash, seq) SELECT * FROM unnest($1::bytea[], $2::int8[])`
	moveAliasSQL   = `UPDATE {{schema}}.alias a SET seq = v.seq FROM unnest($1::bytea[], $2::int8[]) AS v(hash, seq)
  WHERE a.hash = ANY($1) AND a.hash = v.hash`
	deleteAliasSQL = `DELETE FROM {{schema}}.alias WHERE hash = ANY($1::bytea[]) AND seq = $2`

	insertTraceSQL = `INSERT INTO {{schema}}.trace (hash, day, count) VALUES ($1, $2, $3)`
	updateTraceSQL = `UPDATE {{schema}}.trace SET day = $2, count = $3 WHERE hash = $1`
	deleteTraceSQL = `DELETE FROM {{schema}}.trace WHERE hash = $1`
)

// save queues the statements that store what a step changed. Statements that insert fail if
// another process inserted the same meanwhile.
func (v *view) save(b *pgx.Batch) {
	var fresh []*row
	var tasks taskArrays
	for _, w := range v.rows() {
		switch {
		case w.deleted || w.damage != nil:
			continue
		case w.fresh:
			fresh = append(fresh, w)
			continue
		}
		v.saveEvent(b, w)
		was := &w.stored.rec
		all := w.swept || was.Hold != w.rec.Hold || was.Newest != w.rec.Newest
		for i, t := range w.rec.Tasks {
			if all || i >= len(was.Tasks) || !reflect.DeepEqual(was.Tasks[i], t) {
				tasks.add(w, i)
			}
		}
	}
	v.db.saveTasks(b, tasks)
	if len(fresh) > 0 {
		v.insert(b, fresh)
	}
	v.saveAliases(b)
	v.saveNotes(b)
	for hash, t := range v.traces {
		switch {
		case !t.changed:
		case t.Count == 0:
			b.Queue(v.db.sql(deleteTraceSQL), hash[:])
		case t.found:
			b.Queue(v.db.sql(updateTraceSQL), hash[:], int(t.Day), int(t.Count))
		default:
			b.Queue(v.db.sql(insertTraceSQL), hash[:], int(t.Day), int(t.Count))
		}
	}
}

// changes returns the columns of an event that change, as updateEventSQL has them.
func (w *row) changes() []any {
	w.pack()
	r := &w.rec
	return []any{w.current, r.Hold, r.Newest, w.count, moment(w.expires), w.extra, w.response, r.Dropped()}
}

func (v *view) saveEvent(b *pgx.Batch, w *row) {
	changes := w.changes()
	if reflect.DeepEqual(changes, w.stored.changes()) && (!w.swept || w.count > 0) {
		return
	}
	b.Queue(v.db.sql(updateEventSQL), append(changes, w.seq)...)
	var gone [][]byte
	for _, name := range w.stored.rec.Aliases {
		if h := name.Hash(); !slices.Contains(w.rec.Aliases, name) {
			gone = append(gone, h[:])
		}
	}
	if len(gone) > 0 {
		b.Queue(v.db.sql(deleteAliasSQL), gone, w.seq)
	}
}

func byHash(a, b keyHash) int { return bytes.Compare(a[:], b[:]) }

// saveAliases moves aliases to their new records. Those of new records too: they may have been
// those of others.
func (v *view) saveAliases(b *pgx.Batch) {
	var add, move struct {
		hashes [][]byte
		seqs   []int64
	}
	for _, hash := range slices.SortedFunc(maps.Keys(v.byAlias), byHash) { // in one order, against deadlocks
		w := v.byAlias[hash]
		if w == nil || w.seq == v.owners[hash] {
			continue
		}
		to := &move
		if v.owners[hash] == 0 {
			to = &add
		}
		to.hashes, to.seqs = append(to.hashes, slices.Clone(hash[:])), append(to.seqs, w.seq)
	}
	if len(add.hashes) > 0 {
		b.Queue(v.db.sql(insertAliasSQL), add.hashes, add.seqs)
	}
	if len(move.hashes) > 0 {
		b.Queue(v.db.sql(moveAliasSQL), move.hashes, move.seqs)
	}
}

// insert queues the statement that stores new records, all of them or none.
func (v *view) insert(b *pgx.Batch, fresh []*row) {
	var in insertion
	for _, w := range fresh {
		in.add(&w.rec, w.hash, w.seq)
	}
	b.Queue(v.db.sql(insertAllSQL), in.args(&v.now)...)
}

// saveTasksSQL changes tasks, and adds those that a reopened event did not have.
var saveTasksSQL = func() string {
	var arrays []string
	for i, kind := range taskTypes {
		arrays = append(arrays, fmt.Sprintf("$%d::%s[]", i+1, kind))
	}
	return fmt.Sprintf("INSERT INTO {{schema}}.task (%s) SELECT * FROM unnest(%s) "+
		"ON CONFLICT (seq, idx) DO UPDATE SET (%[1]s) = (excluded.%[3]s)", strings.Join(taskColumns, ", "),
		strings.Join(arrays, ", "), strings.Join(taskColumns, ", excluded."))
}()

// taskArrays are the arguments of saveTasksSQL: an array for each column.
type taskArrays [][]any

func (a *taskArrays) add(w *row, i int) {
	if *a == nil {
		*a = make(taskArrays, len(taskColumns))
	}
	for i, value := range w.task(w.taskRow(i)) {
		push(&(*a)[i], value)
	}
}

// saveTasks queues the statement that stores tasks.
func (d *database) saveTasks(b *pgx.Batch, tasks taskArrays) {
	if tasks == nil {
		return
	}
	args := make([]any, len(tasks))
	for i, array := range tasks {
		args[i] = array
	}
	b.Queue(d.sql(saveTasksSQL), args...)
}

// drop queues the statements that delete a record.
func (v *view) drop(b *pgx.Batch, w *row) {
	w.deleted = true
	for _, table := range []string{"task", "alias", "event"} {
		b.Queue(v.db.sql("DELETE FROM {{schema}}."+table+" WHERE seq = $1"), w.seq)
	}
}
