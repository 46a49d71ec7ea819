package badgerstore

import (
	"cmp"
	"context"
	"fmt"
	"iter"
	"slices"
	"time"

	"github.com/eyelet-dev/eyelet/dedup"
	"github.com/eyelet-dev/eyelet/dedup/badgerstore/internal/kv"
	"github.com/eyelet-dev/eyelet/dedup/badgerstore/internal/record"
)

// Get implements [dedup.Store].
func (s *Store) Get(ctx context.Context, event string) (dedup.Record, error) {
	if err := ctx.Err(); err != nil {
		return dedup.Record{}, err
	}
	var rec dedup.Record
	err := s.view(func(in *kv.View) error {
		r, err := s.readEvent(in, event)
		if err != nil {
			s.damage(err)
			return err
		}
		if r == nil || r.rec.Disposable(s.now()) {
			return fmt.Errorf("event %q: %w", event, dedup.ErrNotFound)
		}
		rec, err = r.whole(in, true)
		return err
	})
	return rec, err
}

// List implements [dedup.Store]. A list that goes beyond the newest 65,536 events reads the whole
// store page by page, and ends when the store is closed.
func (s *Store) List(ctx context.Context, f dedup.Filter) iter.Seq2[dedup.Record, error] {
	if f.Text != "" {
		return f.Search(func(f dedup.Filter) iter.Seq2[dedup.Record, error] { return s.List(ctx, f) })
	}
	return func(yield func(dedup.Record, error) bool) {
		matches, err := s.match(ctx, &f)
		for _, m := range matches {
			if err = ctx.Err(); err != nil {
				break
			}
			var rec dedup.Record
			var found bool
			var damage error
			if err = s.view(func(in *kv.View) error {
				r, err := s.readListed(in, m)
				if found = err == nil && r != nil; found { // otherwise it was readable a moment ago; damage was logged
					rec, damage = r.whole(in, f.WithBody(r.event.Size))
				}
				return nil
			}); err != nil {
				break
			}
			if found && !yield(rec, damage) {
				return
			}
		}
		if err != nil {
			yield(dedup.Record{}, err)
		}
	}
}

// match returns the places of what the filter selects, newest first.
func (s *Store) match(ctx context.Context, f *dedup.Filter) ([]record.Recent, error) {
	m := matcher{s: s, filter: f, now: s.now()}
	if f.Event != "" {
		h, seq, ok := record.ParseEventID(f.Event)
		if !ok {
			return nil, nil
		}
		err := m.consider(ctx, []record.Recent{{Seq: seq, Hash: h}})
		return m.found, err
	}
	s.mu.Lock()
	newest, truncated := s.recent.events, s.recent.truncated
	s.mu.Unlock()
	if f.Before != 0 {
		n, _ := slices.BinarySearchFunc(newest, f.Before,
			func(l record.Recent, seq uint64) int { return cmp.Compare(l.Seq, seq) })
		newest = newest[:n]
	}
	if err := m.consider(ctx, newest); err != nil || m.full() || !truncated {
		return m.found, err
	}
	m.found = m.found[:0]
	if err := s.eachPage(ctx, m.visit); err != nil {
		return nil, err
	}
	return m.newest(), nil
}

type matcher struct {
	s      *Store
	filter *dedup.Filter
	now    time.Time
	found  []record.Recent
}

func (m *matcher) full() bool { return m.filter.Limit > 0 && len(m.found) >= m.filter.Limit }

// newest returns the matches, newest first and without duplicates.
func (m *matcher) newest() []record.Recent {
	slices.SortFunc(m.found, func(a, b record.Recent) int { return cmp.Compare(b.Seq, a.Seq) })
	found := slices.CompactFunc(m.found, func(a, b record.Recent) bool { return a.Seq == b.Seq })
	if m.filter.Limit > 0 {
		found = found[:min(len(found), m.filter.Limit)]
	}
	return found
}

// consider visits events, the last one first, until the list is full.
func (m *matcher) consider(ctx context.Context, events []record.Recent) error {
	for len(events) > 0 && !m.full() {
		if err := ctx.Err(); err != nil {
			return err
		}
		page := events[max(0, len(events)-pageSize):]
		events = events[:len(events)-len(page)]
		err := m.s.view(func(in *kv.View) error {
			for _, l := range slices.Backward(page) {
				if m.full() {
					break
				}
				m.take(m.s.readListed(in, l))
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

func (m *matcher) visit(in *kv.View, p record.Place) { m.take(m.s.readRow(in, p)) }

func (m *matcher) take(r *row, err error) {
	if err != nil {
		m.s.damage(err)
		return
	}
	if r == nil || r.rec.Disposable(m.now) {
		return
	}
	if rec, err := r.record(); err == nil && m.filter.Match(&rec, m.now) {
		m.found = append(m.found, record.Recent{Seq: rec.Seq, Hash: r.place.Hash})
	}
}

// recentMax is how many of the newest events are listed without reading the whole store.
const recentMax = 1 << 16

// recent holds the newest events: keys are hashes, so a list would read everything.
type recent struct {
	events    []record.Recent // by ascending sequence after trim, or if they were added so
	floor     uint64          // lower sequences are not among them
	truncated bool            // some were left out
}

func (r *recent) add(l record.Recent) {
	if l.Seq < r.floor {
		r.truncated = true
		return
	}
	if r.events = append(r.events, l); len(r.events) >= 2*recentMax {
		r.trim()
		r.floor = r.events[0].Seq
	}
}

// trim sorts the events and drops all but the newest, in new memory: a list may read the old one.
func (r *recent) trim() {
	events := slices.Clone(r.events)
	slices.SortFunc(events, func(a, b record.Recent) int { return cmp.Compare(a.Seq, b.Seq) })
	events = slices.CompactFunc(events, func(a, b record.Recent) bool { return a.Seq == b.Seq })
	drop := max(0, len(events)-recentMax)
	r.events, r.truncated = slices.Clone(events[drop:]), r.truncated || drop > 0
}
