package badgerstore

import (
	"bytes"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"time"

	"github.com/dgraph-io/badger/v4"

	"github.com/eyelet-dev/eyelet/dedup"
	"github.com/eyelet-dev/eyelet/dedup/badgerstore/internal/record"
)

// unfinished is what recover has to put in order.
type unfinished struct {
	running  []*row         // events whose tasks were interrupted, or wait by a clock that has been set back
	unstated []record.Place // events with work left that have no state of this format
	behind   time.Duration  // how far the clock is behind the last commit
}

// takeStock reads what the store holds and which events have work left. It writes nothing.
func (s *Store) takeStock() (found surveyed, left unfinished, err error) {
	now, behind := s.now(), s.behind()
	left.behind = behind
	s.published = s.meta.Seq
	waits := func(r *row) bool { return behind > 0 && setBack(&r.edit().rec, now, behind) }
	found, err = s.survey(func(r *row) {
		s.older.note(r)
		if interrupted(&r.rec) || waits(r) {
			left.running = append(left.running, r)
			return
		}
		if r.place.Older == 0 && r.event.Loaded() {
			left.unstated = append(left.unstated, r.place)
		}
		s.schedule(r)
		s.cache.keep(r)
	})
	if err != nil {
		return found, left, fmt.Errorf("store %s: %w", s.dir, err)
	}
	s.mu.Lock()
	s.recent.fill(found.newest, found.cut)
	s.count(found.total)
	s.mu.Unlock()
	return found, left, nil
}

// recover puts in order what the process before left behind. It runs before the committer starts.
func (s *Store) recover(left unfinished) error {
	s.published = s.meta.Seq
	if err := errors.Join(s.resume(left.running, left.behind), s.state(left.unstated)); err != nil {
		return err
	}
	if err := s.sweepChunks(); err != nil {
		return err
	}
	switch {
	case left.behind > 0:
		s.log.Warn("the clock is behind the last commit, as accepted: tasks wait for so much less", "dir", s.dir, "behind", left.behind,
			"events", len(left.running))
	case len(left.running) > 0:
		s.log.Info("tasks were interrupted by the end of the process", "dir", s.dir, "events", len(left.running))
	}
	return nil
}

// surveyed is what a survey found.
type surveyed struct {
	total   tally
	census  record.Census
	damaged int // entries that cannot be read; they are counted in the census only
	newest  newestHeap
	cut     bool // there are more than those
}

// offer counts one event.
func (c *surveyed) offer(t tally, l listed) {
	c.total.add(t, 1)
	c.census.Add(1, t.sum)
	c.cut = c.newest.offer(l) || c.cut
}

// miss counts an event that cannot be read.
func (c *surveyed) miss(p record.Place) {
	c.damaged++
	c.census.Add(1, (&row{place: p}).mark())
}

// join adds what another part of the store has.
func (c *surveyed) join(other surveyed) {
	c.total.add(other.total, 1)
	c.census.Add(other.census.Entries, other.census.Sum)
	c.damaged += other.damaged
	c.cut = c.cut || other.cut
	for _, l := range other.newest {
		c.cut = c.newest.offer(l) || c.cut
	}
}

// survey counts the events, and calls visit, one call at a time, for each that has work left. How long a start takes
// hangs on it, so every processor reads a part of the store.
func (s *Store) survey(visit func(*row)) (surveyed, error) {
	return s.surveyOf(partsOf(runtime.GOMAXPROCS(0)), visit)
}

func (s *Store) surveyOf(parts []part, visit func(*row)) (surveyed, error) {
	found, errs := make([]surveyed, len(parts)), make([]error, len(parts))
	var one sync.Mutex
	var readers sync.WaitGroup
	for i, p := range parts {
		c := &found[i]
		readers.Go(func() {
			errs[i] = s.db.View(func(txn *badger.Txn) error {
				err := s.scan(txn, p, func(r *row) {
					c.offer(r.tally(), listed{r.rec.Seq, record.Place{Hash: r.place.Hash}})
					one.Lock()
					defer one.Unlock()
					visit(r)
				}, func(r *row) {
					c.offer(r.tally(), listed{r.rec.Seq, r.place})
				}, c.miss)
				c.damaged += s.scanAliases(txn, p, func(h record.Hash, seal uint32) {
					c.census.Add(1, record.Mark(record.FamilyAlias, record.Place{Hash: h}, seal))
				})
				return err
			})
		})
	}
	readers.Wait()
	for _, other := range found[1:] {
		found[0].join(other)
	}
	found[0].census.Known = true
	return found[0], errors.Join(errs...)
}

// part is a part of the store: the hashes whose first byte is at least from and less than to.
type part struct{ from, to int }

// partsOf divides the store into so many parts of about one size, as hashes are uniform; at most one a first byte.
func partsOf(n int) []part {
	const all = 1 << 8
	n = max(1, min(n, all))
	parts := make([]part, n)
	for i := range parts {
		parts[i] = part{i * all / n, (i + 1) * all / n}
	}
	return parts
}

// first is the key of a family at which the part begins.
func (p part) first(family byte) []byte { return []byte{family, byte(p.from)} }

// has reports whether a key of some family, at or behind the first one, is in the part.
func (p part) has(key []byte) bool { return len(key) > 1 && int(key[1]) < p.to }

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
	if by := s.meta.Wall.Sub(s.now()); by > clockSlack {
		return by
	}
	return 0
}

// unstatedMost is how many events get their states in one commit.
const unstatedMost = 256

// state stores the states of events that have none of this format, so that the next start reads no bodies.
func (s *Store) state(places []record.Place) error {
	for len(places) > 0 {
		n := min(len(places), unstatedMost)
		err := s.commitDirect(func(b *batch) {
			for _, p := range places[:n] {
				if r, err := b.at(p); err == nil && r != nil { // damage is noted
					b.put(r.edit())
				}
			}
		})
		if err != nil {
			return err
		}
		places = places[n:]
	}
	return nil
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

// scan calls open for every event of a part with work left, and finished with the state of every other. The states are
// in the tree itself, so no body is read: the rows that open gets have the outline of their event only. Events of format
// 1 with work left have no outline, and are read whole, as are those of older generations. Damaged events are noted,
// and given to unread.
func (s *Store) scan(txn *badger.Txn, p part, open, finished func(*row), unread func(record.Place)) error {
	states := stateIterator(txn, p)
	defer states.it.Close()
	it := txn.NewIterator(keysOnly(record.FamilyEvent))
	defer it.Close()
	for it.Seek(p.first(record.FamilyEvent)); it.Valid() && p.has(it.Item().Key()); it.Next() {
		key := it.Item().Key()
		if len(key) != record.KeySize {
			continue
		}
		h := record.Hash(key[1:])
		r := &row{place: record.Place{Hash: h}}
		outlined, err := states.next(r)
		s.gaps.prolong(&r.rec)
		switch {
		case err == nil && r.rec.Quarantined() && r.rec.Payload.Endpoint == "": // stored by an older program
			s.scanRow(txn, r.place, open, unread)
		case err == nil && r.rec.Seq != 0 && !r.rec.Open():
			finished(r)
		case err == nil && outlined:
			open(r)
		default:
			s.scanRow(txn, r.place, open, unread)
		}
	}
	older := txn.NewIterator(keysOnly(record.FamilyOlder))
	defer older.Close()
	for older.Seek(p.first(record.FamilyOlder)); older.Valid() && p.has(older.Item().Key()); older.Next() {
		key := older.Item().Key()
		if len(key) == record.OlderKeySize {
			s.scanRow(txn, record.PlaceOf(key), open, unread)
		}
	}
	return nil
}

func (s *Store) scanRow(txn *badger.Txn, p record.Place, open func(*row), unread func(record.Place)) {
	r, err := s.readRow(txn, p)
	switch {
	case err != nil:
		s.damage(err)
		unread(p)
	case r != nil:
		open(r)
	}
}

// stateCursor walks the states in the order of the hashes.
type stateCursor struct{ it *badger.Iterator }

func stateIterator(txn *badger.Txn, p part) stateCursor {
	it := txn.NewIterator(keysOnly(record.FamilyState))
	it.Seek(p.first(record.FamilyState))
	return stateCursor{it}
}

// next reads the state stored for the row and, where there is one, the outline. The rows of its calls come in rising
// order. A row without a state is left as it is.
func (c stateCursor) next(r *row) (outlined bool, err error) {
	h := r.place.Hash
	for ; c.it.Valid(); c.it.Next() {
		key := c.it.Item().Key()
		order := bytes.Compare(key[1:], h[:])
		if order > 0 {
			return false, nil
		}
		if order < 0 {
			continue
		}
		err = c.it.Item().Value(func(value []byte) (err error) {
			var o record.Outline
			o, outlined, err = record.DecodeState(key, value, &r.rec)
			r.event.Size, r.rec.Payload.Endpoint, r.checksum = o.Size, o.Endpoint, record.Checksum(value)
			return err
		})
		return outlined, err
	}
	return false, nil
}
