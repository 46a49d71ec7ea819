package pgstore

import (
	"maps"
	"slices"

	"github.com/jackc/pgx/v5"

	"github.com/eyelet-dev/eyelet/dedup"
)

const (
	// makeNotesSQL makes empty notes, so that there are rows to lock. It waits for other
	// transactions that make the same ones.
	makeNotesSQL = `INSERT INTO {{schema}}.note (space, hash, key, note, at)
SELECT v.space, v.hash, v.key, '', now() FROM unnest($1::text[], $2::bytea[], $3::bytea[]) AS v(space, hash, key)
ORDER BY v.hash ON CONFLICT DO NOTHING`
	lockNotesSQL = `SELECT n.hash, n.note, n.at FROM {{schema}}.note n
WHERE n.space = ANY($1::text[]) AND n.hash = ANY($2::bytea[]) ORDER BY n.hash FOR UPDATE`
	updateNoteSQL = `UPDATE {{schema}}.note SET note = $3, at = $4 WHERE space = $1 AND hash = $2`
	deleteNoteSQL = `DELETE FROM {{schema}}.note WHERE space = $1 AND hash = $2`
)

// noteRow is a note in a view, which has its lock.
type noteRow struct {
	dedup.Note
	was string // the text in the table
}

// queueNotes adds the statements that lock notes and read them. It makes those that there are not.
func (v *view) queueNotes(b *pgx.Batch, keys ...dedup.Key) {
	spaces, hashes, packed := make([]string, len(keys)), make([][]byte, len(keys)), make([][]byte, len(keys))
	for i, k := range keys {
		h := k.Hash()
		spaces[i], hashes[i], packed[i] = text(k.Space), h[:], packKey(k)
	}
	b.Queue(v.db.sql(makeNotesSQL), spaces, hashes, packed)
	b.Queue(v.db.sql(lockNotesSQL), spaces, hashes).Query(func(rows pgx.Rows) error {
		var hash []byte
		var n dedup.Note
		_, err := pgx.ForEachRow(rows, []any{&hash, (*escapedText)(&n.Text), (*instant)(&n.At)}, func() error {
			v.notes[keyHash(hash)] = &noteRow{Note: n, was: n.Text}
			return nil
		})
		for i, k := range keys {
			n := v.notes[keyHash(hashes[i])]
			if n == nil && err == nil {
				err = errConflict // it was removed before it was locked
			}
			if err != nil {
				return err
			}
			if n.Key = k; n.Expired(v.now) {
				*n = noteRow{Note: dedup.Note{Key: k}}
			}
		}
		return err
	})
}

// Note implements [dedup.Notes].
func (v *view) Note(k dedup.Key) (dedup.Note, error) {
	n, err := v.note(k)
	if err != nil || n.Text == "" {
		return dedup.Note{Key: k}, err
	}
	return n.Note, nil
}

// SetNote implements [dedup.Notes].
func (v *view) SetNote(k dedup.Key, text string) error {
	n, err := v.note(k)
	if err == nil {
		n.Text, n.At = text, v.now
	}
	return err
}

func (v *view) note(k dedup.Key) (*noteRow, error) {
	h := k.Hash()
	if v.notes[h] == nil {
		b := &pgx.Batch{}
		v.queueNotes(b, k)
		if err := v.q.SendBatch(v.ctx, b).Close(); err != nil {
			return nil, err
		}
	}
	return v.notes[h], nil
}

// saveNotes queues the statements that store notes, in one order. An empty one is removed, also if
// it was only made for its lock.
func (v *view) saveNotes(b *pgx.Batch) {
	for _, h := range slices.SortedFunc(maps.Keys(v.notes), byHash) {
		switch n := v.notes[h]; n.Text {
		case "":
			b.Queue(v.db.sql(deleteNoteSQL), text(n.Key.Space), h[:])
		case n.was:
		default:
			b.Queue(v.db.sql(updateNoteSQL), text(n.Key.Space), h[:], text(n.Text), n.At)
		}
	}
}
