package pgstore

import (
	"cmp"
	"context"
	"iter"
	"maps"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/eyelet-dev/eyelet/dedup"
)

const (
	// makeNotesSQL makes empty notes, so that there are rows to lock. It waits for other transactions
	// that make the same ones.
	makeNotesSQL = `INSERT INTO {{schema}}.note (space, hash, key, note, at)
SELECT v.space, v.hash, v.key, '', now() FROM unnest($1::text[], $2::bytea[], $3::bytea[]) AS v(space, hash, key)
ORDER BY v.hash ON CONFLICT DO NOTHING`
	lockNotesSQL = `SELECT n.hash, n.note, n.at FROM {{schema}}.note n
WHERE n.space = ANY($1::text[]) AND n.hash = ANY($2::bytea[]) ORDER BY n.hash FOR UPDATE`
	updateNoteSQL = `UPDATE {{schema}}.note SET note = $3, at = $4 WHERE space = $1 AND hash = $2`
	deleteNoteSQL = `DELETE FROM {{schema}}.note WHERE space = $1 AND hash = $2`

	readNotesSQL = `SELECT n.key, n.note, n.at, coalesce($1::timestamptz, now()) FROM {{schema}}.note n
WHERE n.space = $2 AND `
	readNoteSQL  = readNotesSQL + `n.hash = $3`
	pageNotesSQL = readNotesSQL + `n.hash > $3 ORDER BY n.hash LIMIT $4`

	// forgetFencesSQL compares the time again once it has the lock of a row. Of fences that moved at
	// once, as many as the oldest that stays, none is forgotten.
	forgetFencesSQL = `DELETE FROM {{schema}}.note WHERE space = 'fence' AND at < greatest($1::timestamptz,
  (SELECT n.at FROM {{schema}}.note n WHERE n.space = 'fence' ORDER BY n.at DESC OFFSET $2 LIMIT 1))`
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
				n.Note = dedup.Note{Key: k}
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

// saveNotes queues the statements that store notes, in one order. An empty one is removed, also if it
// was only made for its lock.
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

// ChangeNote implements [dedup.Store]. The note is locked while change runs.
func (s *Store) ChangeNote(ctx context.Context, k dedup.Key, change func(text string) (string, error)) error {
	var own error
	err := s.call(ctx, func(ctx context.Context) error {
		v, first := newView(ctx, s.db, nil), &pgx.Batch{}
		v.queueNow(first)
		v.queueNotes(first, k)
		return s.edit(ctx, v, first, func(*pgx.Batch) error {
			n := v.notes[k.Hash()]
			next, err := change(n.Text)
			if own = cmp.Or(err, dedup.CheckNote(next)); own == nil && next != n.Text {
				return v.SetNote(k, next)
			}
			return own
		})
	})
	if err == nil {
		s.commits.Add(1)
	}
	return cmp.Or(own, err)
}
