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
	before time.Time
	done   int
}

func (o *sweepOp) apply(b *batch) error {
	if b.disk.frozen() {
		return b.disk.err()
	}
	for _, p := range o.places {
		r, err := b.at(p) // damage was logged; it must not block the others
		if err == nil && r != nil && r.rec.Disposable(o.before) && b.remove(r) == nil {
			o.done++
		}
	}
	return nil
}

// sweep deletes records slack after their window has ended. It does not use Badger's expiry,
// which follows the system clock: a clock that jumps ahead would end every window.
func (m *maintenance) sweep(slack time.Duration) error {
	if m.gaps.holdsSweep(m.now()) {
		return nil
	}
	before := m.now().Add(-slack)
	var ended []record.Place
	err := m.view(func(in *kv.View) error {
		for item := range in.Items(record.FamilyState) {
			var rec dedup.Record
			key := item.Key()
			value, err := item.Value()
			if err == nil {
				_, _, err = record.DecodeState(key, value, &rec)
			}
			if err != nil {
				m.damage(err)
				continue
			}
			m.gaps.extend(&rec)
			if rec.Disposable(before) {
				ended = append(ended, record.PlaceOf(key))
			}
		}
		ended = append(ended, m.endedOlder(in, before)...)
		return nil
	})
	for most := 256; err == nil && len(ended) > 0; {
		n := min(len(ended), most)
		o := &sweepOp{ticket: newTicket(false), places: ended[:n], before: before}
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

// endedOlder returns the older generations that are no longer dead letters.
func (m *maintenance) endedOlder(in *kv.View, before time.Time) (ended []record.Place) {
	for item := range in.Items(record.FamilyOlder) {
		p := record.PlaceOf(item.Key())
		r, err := m.readRow(in, p)
		if err != nil {
			m.damage(err)
			continue
		}
		if r != nil && r.rec.Disposable(before) {
			ended = append(ended, p)
		}
	}
	return ended
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
