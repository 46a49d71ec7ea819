package badgerstore

import (
	"errors"
	"runtime"
	"sync"

	"github.com/eyelet-dev/eyelet/dedup/badgerstore/internal/kv"
	"github.com/eyelet-dev/eyelet/dedup/badgerstore/internal/record"
)

// survey is what a reading of the whole store has found.
type survey struct {
	total   tally
	census  record.Census
	damaged int // entries that cannot be read; only the census counts them
	newest  recent
}

func (s *survey) add(t tally, l record.Recent) {
	s.total.add(t, 1)
	s.census.Add(1, t.sum)
	s.newest.add(l)
}

func (s *survey) addDamaged(p record.Place) {
	s.damaged++
	s.census.Add(1, (&row{place: p}).digest())
}

func (s *survey) join(other survey) {
	s.total.add(other.total, 1)
	s.census.Add(other.census.Entries, other.census.Sum)
	s.damaged += other.damaged
	s.newest.truncated = s.newest.truncated || other.newest.truncated
	for _, l := range other.newest.events {
		s.newest.add(l)
	}
}

// surveyAll counts the events and calls visit, one call at a time, for each with open tasks and
// each older generation. Every processor reads a part of the store, because the duration of a start
// depends on it.
func surveyAll(c *core, visit func(*row)) (survey, error) {
	return surveyParts(c, partsOf(runtime.GOMAXPROCS(0)), visit)
}

func surveyParts(c *core, parts []part, visit func(*row)) (survey, error) {
	found, errs := make([]survey, len(parts)), make([]error, len(parts))
	var one sync.Mutex
	var readers sync.WaitGroup
	for i, p := range parts {
		readers.Go(func() {
			errs[i] = c.db.View(func(in *kv.View) error {
				s := scanner{core: c, in: in, part: p, found: &found[i], visit: func(r *row) {
					one.Lock()
					defer one.Unlock()
					visit(r)
				}}
				s.events(record.FamilyEvent, record.KeySize)
				s.events(record.FamilyOlder, record.OlderKeySize)
				s.aliases()
				return nil
			})
		})
	}
	readers.Wait()
	for _, other := range found[1:] {
		found[0].join(other)
	}
	found[0].census.Known = true
	found[0].newest.trim()
	return found[0], errors.Join(errs...)
}

// part is a part of the store: the hashes whose first byte is at least from and less than to.
type part struct{ from, to int }

// partsOf divides the store into n parts of about equal size, at most one for each first byte.
func partsOf(n int) []part {
	const all = 1 << 8
	n = max(1, min(n, all))
	parts := make([]part, n)
	for i := range parts {
		parts[i] = part{i * all / n, (i + 1) * all / n}
	}
	return parts
}

func (p part) first(family byte) []byte { return []byte{family, byte(p.from)} }

// has reports whether a key at or after the first one of its family is in the part.
func (p part) has(key []byte) bool { return len(key) > 1 && int(key[1]) < p.to }

// scanner reads one part of the store. It logs damaged values and continues.
type scanner struct {
	*core
	in    *kv.View
	part  part
	found *survey
	visit func(*row)
}

// each calls f for every key of a family with a length of size.
func (s *scanner) each(family byte, size int, f func(item *kv.Item)) {
	for it := range s.in.Items(s.part.first(family), family) {
		if !s.part.has(it.Key()) {
			return
		}
		if len(it.Key()) == size {
			f(it)
		}
	}
}

// events reads the states of a family. They are in the tree, so no body is read: visited rows have
// only the outline of their event.
func (s *scanner) events(family byte, size int) {
	s.each(family, size, func(item *kv.Item) {
		value, err := item.Value()
		s.state(item.Key(), value, unreadable(item.Key(), err))
	})
}

// places reads the states of some events, as far as they exist.
func (s *scanner) places(places []record.Place) {
	for _, p := range places {
		if value, err := readValue(s.in, p.Key()); value != nil || err != nil {
			s.state(p.Key(), value, err)
		}
	}
}

func (s *scanner) state(key, value []byte, err error) {
	var r *row
	if err == nil {
		r, err = s.stateRow(key, value)
	}
	if err != nil {
		s.damage(err)
		s.found.addDamaged(record.PlaceOf(key))
		return
	}
	s.found.add(r.tally(), record.Recent{Seq: r.rec.Seq, Hash: r.place.Hash})
	if r.place.Older != 0 || r.rec.Open() {
		s.visit(r)
	}
}

func (s *scanner) aliases() {
	s.each(record.FamilyAlias, record.KeySize, func(item *kv.Item) {
		value, err := item.Value()
		if err == nil {
			err = record.Verify(item.Key(), value)
		}
		if err != nil {
			s.damage(err)
			s.found.damaged++
			value = nil
		}
		s.found.census.Add(1, record.Digest(record.FamilyAlias, record.PlaceOf(item.Key()), record.Checksum(value)))
	})
}
