package memstore

import (
	"cmp"
	"context"
	"iter"
	"slices"
	"time"

	"github.com/eyelet-dev/eyelet/dedup"
)

// notes are the notes of a [Store], without empty ones.
type notes map[dedup.Key]dedup.Note

// set replaces a note, and forgets fences that are too old or too many.
func (n notes) set(k dedup.Key, text string, now time.Time) {
	if delete(n, k); text == "" {
		return
	}
	n[k] = dedup.Note{Key: k, Text: text, At: now}
	if len(n)%1024 == 0 {
		n.prune(now)
	}
}

func (n notes) prune(now time.Time) {
	var fences []dedup.Note
	for _, note := range n {
		if note.Key.Space == dedup.SpaceFence {
			fences = append(fences, note)
		}
	}
	slices.SortFunc(fences, func(a, b dedup.Note) int { return cmp.Compare(b.At.UnixNano(), a.At.UnixNano()) })
	for i, note := range fences {
		if i >= dedup.FenceMax || note.Expired(now) {
			delete(n, note.Key)
		}
	}
}

func (s source) Note(k dedup.Key) (dedup.Note, error) {
	if note, ok := s.notes[k]; ok && !note.Expired(s.now) {
		return note, nil
	}
	return dedup.Note{Key: k}, nil
}

func (s source) SetNote(k dedup.Key, text string) error {
	s.notes.set(k, text, s.now)
	s.dirty = true
	return nil
}

// Note implements [dedup.Store].
func (m *Store) Note(ctx context.Context, k dedup.Key) (dedup.Note, error) {
	if err := m.begin(ctx); err != nil {
		return dedup.Note{}, err
	}
	defer m.mu.Unlock()
	return source{m}.Note(k)
}

// ChangeNote implements [dedup.Store].
func (m *Store) ChangeNote(ctx context.Context, k dedup.Key, change func(text string) (string, error)) error {
	if err := m.begin(ctx); err != nil {
		return err
	}
	defer m.mu.Unlock()
	note, _ := source{m}.Note(k)
	text, err := change(note.Text)
	if err = cmp.Or(err, dedup.CheckNote(text)); err != nil || text == note.Text {
		return err
	}
	_ = source{m}.SetNote(k, text)
	m.commit()
	return nil
}

// Notes implements [dedup.Store].
func (m *Store) Notes(ctx context.Context, space string) iter.Seq2[dedup.Note, error] {
	return func(yield func(dedup.Note, error) bool) {
		if err := m.begin(ctx); err != nil {
			yield(dedup.Note{}, err)
			return
		}
		var found []dedup.Note
		for _, note := range m.notes {
			if note.Key.Space == space && !note.Expired(m.now) {
				found = append(found, note)
			}
		}
		m.mu.Unlock()
		for _, note := range found {
			if !yield(note, nil) {
				return
			}
		}
	}
}
