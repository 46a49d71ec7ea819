package badgerstore

import (
	"cmp"
	"context"
	"fmt"
	"iter"
	"slices"
	"time"

	"github.com/dgraph-io/badger/v4"

	"github.com/eyelet-dev/eyelet/dedup"
)

// Get implements [dedup.Store].
func (s *Store) Get(ctx context.Context, event string) (dedup.Record, error) {
	if err := ctx.Err(); err != nil {
		return dedup.Record{}, err
	}
	var rec dedup.Record
	err := s.view(func(txn *badger.Txn) error {
		r, err := readEvent(txn, event)
		if err != nil {
			s.damage(err)
			return err
		}
		if r == nil || r.rec.Disposable(s.now()) {
			return fmt.Errorf("event %q: %w", event, dedup.ErrNotFound)
		}
		rec, err = r.whole(txn, true)
		return err
	})
	return rec, err
}

// readEvent finds the row of an event, nil when there is none.
func readEvent(txn *badger.Txn, event string) (*row, error) {
	h, seq, ok := parseEventID(event)
	if !ok {
		return nil, nil
	}
	r, err := readRow(txn, place{hash: h})
	if err != nil || r != nil && r.rec.Seq == seq {
		return r, err
	}
	return readRow(txn, place{hash: h, older: seq})
}

// whole returns the record, with its body when that is wanted.
func (r *row) whole(txn *badger.Txn, body bool) (dedup.Record, error) {
	rec, err := r.record()
	if err != nil || !body {
		return rec, err
	}
	rec.Payload.Body, err = r.body(txn)
	return rec, err
}

// listed is a match of a List, before it is read again to be yielded.
type listed struct {
	seq   uint64
	place place
}

// List implements [dedup.Store]. The newest 65,536 events are found at once; a list that goes beyond them
// reads the whole store.
func (s *Store) List(ctx context.Context, f dedup.Filter) iter.Seq2[dedup.Record, error] {
	return func(yield func(dedup.Record, error) bool) {
		stopped := false
		err := s.view(func(txn *badger.Txn) error {
			matches, err := s.match(ctx, txn, &f)
			if err != nil {
				return err
			}
			for _, m := range matches {
				if err := ctx.Err(); err != nil {
					return err
				}
				r, err := readRow(txn, m.place)
				if err != nil || r == nil {
					continue // it was readable a moment ago; the damage is noted
				}
				rec, err := r.whole(txn, f.Body)
				if !yield(rec, err) {
					stopped = true
					return nil
				}
			}
			return nil
		})
		if err != nil && !stopped {
			yield(dedup.Record{}, err)
		}
	}
}

// match returns the places of what the filter selects, newest first.
func (s *Store) match(ctx context.Context, txn *badger.Txn, f *dedup.Filter) ([]listed, error) {
	m := matcher{s: s, txn: txn, filter: f, now: s.now()}
	if f.Event != "" {
		if h, seq, ok := parseEventID(f.Event); ok {
			m.consider(listed{seq, place{hash: h}})
		}
		return m.found, nil
	}
	s.mu.Lock()
	newest, cut := s.recent.events, s.recent.cut
	s.mu.Unlock()
	for _, l := range slices.Backward(newest) {
		if err := ctx.Err(); err != nil || m.full() {
			return m.found, err
		}
		if f.Before == 0 || l.seq < f.Before {
			m.consider(l)
		}
	}
	if !cut {
		return m.found, nil
	}
	m.found = m.found[:0]
	if err := eachPlace(ctx, txn, m.visit); err != nil {
		return nil, err
	}
	slices.SortFunc(m.found, func(a, b listed) int { return cmp.Compare(b.seq, a.seq) })
	if m.full() {
		m.found = m.found[:f.Limit]
	}
	return m.found, nil
}

// matcher collects what a filter selects.
type matcher struct {
	s      *Store
	txn    *badger.Txn
	filter *dedup.Filter
	now    time.Time
	found  []listed
}

func (m *matcher) full() bool { return m.filter.Limit > 0 && len(m.found) >= m.filter.Limit }

// consider looks at the event with the sequence under a hash, whichever generation that is by now.
func (m *matcher) consider(l listed) {
	r, err := readRow(m.txn, l.place)
	if err == nil && (r == nil || r.rec.Seq != l.seq) {
		r, err = readRow(m.txn, place{hash: l.place.hash, older: l.seq})
	}
	m.take(r, err)
}

// visit looks at what is at a place.
func (m *matcher) visit(p place) { m.take(readRow(m.txn, p)) }

func (m *matcher) take(r *row, err error) {
	if err != nil {
		m.s.damage(err)
		return
	}
	if r == nil || r.rec.Disposable(m.now) {
		return
	}
	if rec, err := r.record(); err == nil && m.filter.Match(&rec, m.now) {
		m.found = append(m.found, listed{rec.Seq, r.place})
	}
}

// eachPlace visits every event, older generations included.
func eachPlace(ctx context.Context, txn *badger.Txn, visit func(place)) error {
	for _, family := range [...]byte{familyEvent, familyOlder} {
		it := txn.NewIterator(keysOnly(family))
		for it.Rewind(); it.Valid(); it.Next() {
			if err := ctx.Err(); err != nil {
				it.Close()
				return err
			}
			key := it.Item().Key()
			p := place{hash: hash(key[1:rowKeySize])}
			if family == familyOlder {
				p = olderPlace(key)
			}
			visit(p)
		}
		it.Close()
	}
	return nil
}
