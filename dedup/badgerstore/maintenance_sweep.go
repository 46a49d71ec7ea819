package badgerstore

import (
	"errors"
	"time"

	"github.com/eyelet-dev/eyelet/dedup"
	"github.com/eyelet-dev/eyelet/dedup/badgerstore/internal/kv"
	"github.com/eyelet-dev/eyelet/dedup/badgerstore/internal/record"
)

type sweepOp struct {
	ticket
	places []record.Place
	slack  time.Duration
	done   int
}

func (o *sweepOp) apply(b *batch) error {
	if b.disk.frozen() {
		return b.disk.err()
	}
	for _, p := range o.places {
		r, err := b.at(p) // damage was logged; it must not block the others
		if err == nil && r != nil && swept(&r.rec, b.now, o.slack) && b.remove(r) == nil {
			o.done++
		}
	}
	return nil
}

// swept reports whether a record is deleted: slack after its window has ended, or as long after as
// the window was, if that is less.
func swept(r *dedup.Record, now time.Time, slack time.Duration) bool {
	return r.Disposable(now.Add(-min(slack, r.Window)))
}

// sweepStep is how many records the sweep finds before it deletes them, so that its memory does not
// depend on how many windows have ended.
const sweepStep = 10_000

// sweep deletes the records whose windows have ended (see swept). It does not use Badger's expiry,
// which follows the system clock: a clock that jumps ahead would end every window.
func (m *maintenance) sweep(slack time.Duration) error {
	if m.gaps.holdsSweep(m.now()) {
		return nil
	}
	for _, family := range [...]byte{record.FamilyEvent, record.FamilyOlder} {
		for from := []byte{family}; from != nil; {
			ended, next, err := m.ended(family, from, slack)
			if err == nil {
				err = m.delete(ended, slack)
			}
			if err != nil {
				return err
			}
			from = next
		}
	}
	return nil
}

// ended returns up to sweepStep records that can be deleted, and the key at which the next ones
// begin; nil at the end of the family.
func (m *maintenance) ended(
	family byte, from []byte, slack time.Duration,
) (ended []record.Place, next []byte, err error) {
	now := m.now()
	err = m.view(func(in *kv.View) error {
		it := in.Keys(from, family)
		defer it.Close()
		for ; it.Valid(); it.Next() {
			if len(ended) == sweepStep {
				next = it.KeyCopy()
				return nil
			}
			var r *row
			value, err := it.Value()
			if err = unreadable(it.Key(), err); err == nil {
				r, err = m.stateRow(it.Key(), value)
			}
			if err != nil {
				m.damage(err)
			} else if swept(&r.rec, now, slack) {
				ended = append(ended, r.place)
			}
		}
		return nil
	})
	return ended, next, err
}

// delete deletes records, unless they changed.
func (m *maintenance) delete(ended []record.Place, slack time.Duration) (err error) {
	for most := 256; err == nil && len(ended) > 0; {
		n := min(len(ended), most)
		o := &sweepOp{ticket: newTicket(false), places: ended[:n], slack: slack}
		o.bytes = n * 64
		err = m.submit(o)
		if errors.Is(err, dedup.ErrTooLarge) && n > 1 { // they have many aliases or chunks
			most, err = n/2, nil
			continue
		}
		ended = ended[n:]
	}
	return err
}

// pruneOp deletes traces of days that are no longer remembered, and advances the first day.
type pruneOp struct {
	ticket
	evicted dedup.Day
	ids     []record.TraceID
	all     bool // nothing is remembered any more
}

func (o *pruneOp) apply(b *batch) error {
	if b.disk.frozen() {
		return b.disk.err()
	}
	if uint64(o.evicted) > b.evicted {
		before := b.evicted
		b.undo = append(b.undo, func() { b.evicted = before })
		b.evicted, b.always = uint64(o.evicted), true
	}
	first := b.firstDay()
	for _, id := range o.ids {
		t, staged := b.traces[id]
		if !staged {
			var err error
			if t.Trace, err = readTrace(b.c.db, id.Key()); err != nil {
				continue // the check reports the damage; the key stays known
			}
		}
		if t.Day < first || o.all {
			b.putTrace(id, dedup.Trace{})
		}
	}
	return nil
}

// The number of traces that one pass and one commit delete.
const (
	pruneMost = 200_000
	pruneStep = 2_000
)

// prune forgets expired days and, beyond Max keys, the oldest days. It counts the keys per day each
// time, so commits need not; keys and days are in the tree. A gap that holds the sweep holds it.
func (m *maintenance) prune() error {
	if m.gaps.holdsSweep(m.now()) {
		return nil
	}
	counts, ended, err := m.countTraces()
	if err != nil {
		return err
	}
	keep := m.options.Remember
	o := &pruneOp{ticket: newTicket(false), all: keep.Off()}
	if today := dedup.DayOf(m.now()); !o.all {
		if o.evicted = keep.Evict(counts, today); o.evicted > 0 {
			m.evicting.Do(func() {
				m.log.Warn("more keys should be remembered than remember_signatures.max allows: the oldest days "+
					"are forgotten", "dir", m.dir, "max", keep.Max, "before", o.evicted.Start().Format(time.DateOnly))
			})
		}
	}
	for first := true; first && o.evicted > 0 || len(ended) > 0; first = false {
		n := min(len(ended), pruneStep)
		step := &pruneOp{ticket: newTicket(false), all: o.all, evicted: o.evicted, ids: ended[:n]}
		step.bytes = n * 64
		if err := m.submit(step); err != nil {
			return err
		}
		ended = ended[n:]
	}
	return nil
}

// countTraces counts the remembered traces per day, and returns up to pruneMost others.
func (m *maintenance) countTraces() (counts map[dedup.Day]int64, ended []record.TraceID, err error) {
	counts = map[dedup.Day]int64{}
	err = m.view(func(in *kv.View) error {
		meta, err := readMeta(in)
		if err != nil {
			return err
		}
		first, off := m.firstDay(meta.Since, meta.Evicted, m.now()), m.options.Remember.Off()
		for item := range in.Items(record.FamilyTrace) {
			var t dedup.Trace
			key := item.Key()
			if len(key) != record.TraceKeySize {
				continue
			}
			value, err := item.Value()
			if err == nil {
				t, err = record.DecodeTrace(key, value)
			}
			switch {
			case err != nil:
				m.damage(err)
			case t.Day >= first && !off:
				counts[t.Day]++
			case len(ended) < pruneMost:
				ended = append(ended, record.TraceID(key[1:]))
			}
		}
		return nil
	})
	return counts, ended, err
}
