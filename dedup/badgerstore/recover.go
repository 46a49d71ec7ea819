package badgerstore

import (
	"bytes"
	"fmt"
	"time"

	"github.com/dgraph-io/badger/v4"

	"github.com/eyelet-dev/eyelet/dedup"
)

// recover reads which events have work left and puts in order what the process before left behind. It runs
// before the committer starts.
func (s *Store) recover() error {
	var running []*row
	var found census
	now, behind := s.now(), s.behind()
	waits := func(r *row) bool { return behind > 0 && setBack(&r.edit().rec, now, behind) }
	err := s.db.View(func(txn *badger.Txn) (err error) {
		found, err = s.survey(txn, func(r *row) {
			s.older.note(r)
			if interrupted(&r.rec) || waits(r) {
				running = append(running, r)
				return
			}
			s.schedule(r)
			s.cache.keep(r)
		})
		return err
	})
	if err != nil {
		return fmt.Errorf("store %s: %w", s.dir, err)
	}
	s.published = s.meta.seq
	s.mu.Lock()
	s.recent.fill(found.newest, found.cut)
	s.count(found.total)
	s.mu.Unlock()
	if err := s.resume(running, behind); err != nil {
		return err
	}
	if err := s.sweepChunks(); err != nil {
		return err
	}
	switch {
	case behind > 0:
		s.log.Warn("the clock is behind the last commit, as accepted: tasks wait for so much less", "dir", s.dir, "behind", behind, "events", len(running))
	case len(running) > 0:
		s.log.Info("tasks were interrupted by the end of the process", "dir", s.dir, "events", len(running))
	}
	return nil
}

// census is what a store has.
type census struct {
	total  tally
	newest newestHeap
	cut    bool // there are more than those
}

// survey counts the events, and calls visit for each that has work left.
func (s *Store) survey(txn *badger.Txn, visit func(*row)) (c census, err error) {
	err = s.scan(txn, func(r *row) {
		c.total.add(r.tally(), 1)
		c.cut = c.newest.offer(listed{r.rec.Seq, place{hash: r.place.hash}}) || c.cut
		visit(r)
	}, func(h hash, rec dedup.Record) {
		c.total.add((&row{rec: rec}).tally(), 1)
		c.cut = c.newest.offer(listed{rec.Seq, place{hash: h}}) || c.cut
	})
	return c, err
}

func interrupted(r *dedup.Record) bool {
	for _, t := range r.Tasks {
		if t.State == dedup.Running {
			return true
		}
	}
	return false
}

// behind says how far the clock is behind the last commit, when that was accepted (AcceptClock): the tasks that
// wait would wait for so much longer.
func (s *Store) behind() time.Duration {
	if by := s.meta.wall.Sub(s.now()); by > clockSlack {
		return by
	}
	return 0
}

// resume makes interrupted tasks wait for their next attempt, and others no longer than they had to before the
// clock was set back, in steps of one commit each. There is always one, so that every start has a number.
func (s *Store) resume(rows []*row, behind time.Duration) error {
	for first := true; first || len(rows) > 0; first = false {
		n := min(len(rows), batchOps)
		err := s.commitDirect(func(b *batch) {
			for _, r := range rows[:n] {
				r.before = r.tally()
				next := r.edit()
				setBack(&next.rec, b.now, behind)
				for i, t := range next.rec.Tasks {
					wait := s.options.RecoverWait(t.Attempt)
					if next.rec.Hold {
						wait = 0 // the next delivery runs it
					}
					next.rec.Recover(i, b.now, wait)
				}
				b.put(next)
			}
		})
		if err != nil {
			return err
		}
		rows = rows[n:]
	}
	return nil
}

// commitDirect commits a batch before the committer runs.
func (s *Store) commitDirect(change func(b *batch)) error {
	b := s.newBatch(0)
	defer b.txn.Discard()
	change(b)
	b.always = true
	return s.commit(b)
}

// scan calls open for every event with work left, and finished with the state of every other. The states are
// in the tree itself, so an event without work costs no read of its body. Damaged events are noted and left
// out.
func (s *Store) scan(txn *badger.Txn, open func(*row), finished func(hash, dedup.Record)) error {
	states := stateIterator(txn)
	defer states.it.Close()
	it := txn.NewIterator(keysOnly(familyEvent))
	defer it.Close()
	for it.Rewind(); it.Valid(); it.Next() {
		key := it.Item().Key()
		if len(key) != rowKeySize {
			continue
		}
		h := hash(key[1:])
		rec, ok, err := states.next(h)
		if err == nil && ok && !rec.Open() {
			finished(h, rec)
			continue
		}
		s.scanRow(txn, place{hash: h}, open)
	}
	older := txn.NewIterator(keysOnly(familyOlder))
	defer older.Close()
	for older.Rewind(); older.Valid(); older.Next() {
		key := older.Item().Key()
		if len(key) == olderKeySize {
			s.scanRow(txn, olderPlace(key), open)
		}
	}
	return nil
}

func (s *Store) scanRow(txn *badger.Txn, p place, open func(*row)) {
	r, err := readRow(txn, p)
	switch {
	case err != nil:
		s.damage(err)
	case r != nil:
		open(r)
	}
}

// stateCursor walks the states in the order of the hashes.
type stateCursor struct{ it *badger.Iterator }

func stateIterator(txn *badger.Txn) stateCursor {
	it := txn.NewIterator(keysOnly(familyState))
	it.Rewind()
	return stateCursor{it}
}

// next returns the state stored for h, whose calls come in rising order.
func (c stateCursor) next(h hash) (rec dedup.Record, ok bool, err error) {
	for ; c.it.Valid(); c.it.Next() {
		key := c.it.Item().Key()
		order := bytes.Compare(key[1:], h[:])
		if order > 0 {
			return rec, false, nil
		}
		if order < 0 {
			continue
		}
		err = c.it.Item().Value(func(value []byte) error { return decodeState(key, value, &rec) })
		return rec, err == nil, err
	}
	return rec, false, nil
}
