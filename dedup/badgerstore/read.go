package badgerstore

import (
	"cmp"
	"context"
	"fmt"
	"iter"
	"slices"

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

// List implements [dedup.Store]. It reads the whole store, unless the filter names an event.
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
	var out []listed
	now := s.now()
	consider := func(p place) {
		r, err := readRow(txn, p)
		if err != nil {
			s.damage(err)
			return
		}
		if r == nil || r.rec.Disposable(now) {
			return
		}
		if rec, err := r.record(); err == nil && f.Match(&rec, now) {
			out = append(out, listed{rec.Seq, p})
		}
	}
	if f.Event != "" {
		if h, seq, ok := parseEventID(f.Event); ok {
			consider(place{hash: h})
			consider(place{hash: h, older: seq})
		}
	} else if err := eachPlace(ctx, txn, consider); err != nil {
		return nil, err
	}
	slices.SortFunc(out, func(a, b listed) int { return cmp.Compare(b.seq, a.seq) })
	if f.Limit > 0 && len(out) > f.Limit {
		out = out[:f.Limit]
	}
	return out, nil
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
