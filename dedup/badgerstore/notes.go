package badgerstore

import (
	"cmp"
	"context"
	"iter"
	"slices"
	"time"

	"github.com/eyelet-dev/eyelet/dedup"
	"github.com/eyelet-dev/eyelet/dedup/badgerstore/internal/kv"
	"github.com/eyelet-dev/eyelet/dedup/badgerstore/internal/record"
)

type noteEntry struct {
	dedup.Note
	dirty bool
}

// note returns a note that has not expired, with an empty text if there is none. A damaged one is
// reported and counts as none: it is replaced, or removed by a repair.
func (b *batch) note(k dedup.Key) dedup.Note {
	h := record.NoteHash(k)
	n, known := b.notes[h]
	if !known {
		if !b.c.db.Lacks(h.Key(record.FamilyNote)) {
			var err error
			if n.Note, err = readNote(b.c.db, h); err != nil {
				b.c.damage(err)
			}
		}
		b.notes[h] = n
	}
	return current(n.Note, k, b.now)
}

// putNote replaces the text of a note. Without any, the note is removed.
func (b *batch) putNote(k dedup.Key, text string) {
	n := dedup.Note{Key: k, Text: text, At: b.now}
	swap(&b.oldNotes, b.notes, record.NoteHash(k), noteEntry{Note: n, dirty: true})
}

func (n *noteEntry) mutation(h record.Hash, memory *arena) mutation {
	w := mutation{Key: memory.keep(h.AppendKey(memory.rest(), record.FamilyNote))}
	if n.Text != "" {
		w.Value = memory.keep(record.EncodeNote(memory.rest(), w.Key, n.Note))
	}
	return w
}

// current returns a stored note as callers see it.
func current(n dedup.Note, k dedup.Key, now time.Time) dedup.Note {
	if n.Expired(now) {
		n = dedup.Note{}
	}
	n.Key = k
	return n
}

// rowNotes are the notes as a record sees them whose principal its row does not have.
type rowNotes struct {
	*batch
	row *row
}

func (n rowNotes) key(k dedup.Key) (dedup.Key, error) {
	rec, err := n.row.record()
	k.Principal = rec.Key.Principal
	return k, err
}

// Note implements [dedup.Notes].
func (n rowNotes) Note(k dedup.Key) (dedup.Note, error) {
	k, err := n.key(k)
	if err != nil {
		return dedup.Note{}, err
	}
	return n.note(k), nil
}

// SetNote implements [dedup.Notes].
func (n rowNotes) SetNote(k dedup.Key, text string) error {
	k, err := n.key(k)
	if err == nil {
		n.putNote(k, text)
	}
	return err
}

type noteOp struct {
	ticket
	key    dedup.Key
	change func(string) (string, error)
}

func (o *noteOp) apply(b *batch) error {
	before := b.note(o.key).Text
	text, err := o.change(before)
	switch {
	case err != nil || text == before:
		return err
	case b.disk.frozen():
		return b.disk.err()
	}
	if err := dedup.CheckNote(text); err != nil {
		return err
	}
	b.putNote(o.key, text)
	return nil
}

// ChangeNote implements [dedup.Store].
func (s *Store) ChangeNote(ctx context.Context, k dedup.Key, change func(text string) (string, error)) error {
	return s.do(ctx, &noteOp{ticket: newTicket(true), key: k, change: change})
}

// Note implements [dedup.Store].
func (s *Store) Note(ctx context.Context, k dedup.Key) (n dedup.Note, err error) {
	if err := ctx.Err(); err != nil {
		return n, err
	}
	err = s.view(func(in *kv.View) error {
		n, err = readNote(in, record.NoteHash(k))
		return err
	})
	return current(n, k, s.now()), err
}

// Notes implements [dedup.Store].
func (s *Store) Notes(ctx context.Context, space string) iter.Seq2[dedup.Note, error] {
	return func(yield func(dedup.Note, error) bool) {
		for n, err := range s.notes(ctx, space) {
			if err == nil && (n.Key.Space != space || n.Expired(s.now())) {
				continue
			}
			if !yield(n, err) || err != nil {
				return
			}
		}
	}
}

// forgetOp removes notes unless they have changed since.
type forgetOp struct {
	ticket
	notes []dedup.Note
}

func (o *forgetOp) apply(b *batch) error {
	if b.disk.frozen() {
		return b.disk.err()
	}
	for _, n := range o.notes {
		if b.note(n.Key); b.notes[record.NoteHash(n.Key)].At.Equal(n.At) {
			b.putNote(n.Key, "")
		}
	}
	return nil
}

// forgetFences removes fences that have expired, and beyond their number those that moved first.
func (m *maintenance) forgetFences(ctx context.Context, most int) error {
	var gone, fences []dedup.Note
	for n, err := range m.notes(ctx, dedup.SpaceFence) {
		switch {
		case err != nil:
			return err
		case n.Expired(m.now()):
			gone = append(gone, n)
		case n.Key.Space == dedup.SpaceFence:
			fences = append(fences, dedup.Note{Key: n.Key, At: n.At})
		}
	}
	if over := len(fences) - most; over > 0 {
		slices.SortFunc(fences, func(a, b dedup.Note) int { return cmp.Compare(a.At.UnixNano(), b.At.UnixNano()) })
		gone = append(gone, fences[:over]...)
	}
	for some := range slices.Chunk(gone, pruneStep) {
		step := &forgetOp{ticket: newTicket(false), notes: some}
		step.bytes = len(some) * keyBytes
		if err := m.submit(step); err != nil {
			return err
		}
	}
	return nil
}
