package badgerstore

import (
	"slices"
	"time"

	"github.com/eyelet-dev/eyelet/dedup"
	"github.com/eyelet-dev/eyelet/dedup/badgerstore/internal/kv"
	"github.com/eyelet-dev/eyelet/dedup/badgerstore/internal/record"
)

// expired is a record to delete with its aliases, as a sweep has read them.
type expired struct {
	row     *row
	names   []dedup.Key // of its aliases
	hashes  []record.Hash
	aliases []aliasEntry // of the hashes
	watch   *kv.Watch    // nil: all is read again
}

// sweepOp deletes records, except those that have changed and are needed again.
type sweepOp struct {
	ticket
	found []expired
	slack time.Duration
	swept int
}

func (o *sweepOp) apply(b *batch) error {
	if b.disk.frozen() {
		return b.disk.err()
	}
	for i := range o.found {
		e := &o.found[i]
		b.adopt(e)
		r, err := b.at(e.row.place) // damage was logged; it must not block the others
		if err != nil || r == nil || !swept(&r.rec, b.now, o.slack) {
			continue
		}
		if r == e.row {
			b.removeWith(r, e.names)
		} else {
			err = b.remove(r)
		}
		if err == nil {
			o.swept++
		}
	}
	return nil
}

// swept reports whether a record is deleted: slack after its window has ended, or as long after as
// the window was, if that is less.
func swept(r *dedup.Record, now time.Time, slack time.Duration) bool {
	return r.Disposable(now.Add(-min(slack, r.Window)))
}

// adopt puts what a sweep has read into the batch, as far as it is still true: claims do not wait
// for reading it.
func (b *batch) adopt(e *expired) {
	if e.watch == nil {
		return
	}
	p := e.row.place
	if _, known := b.rows[p]; !known && !e.watch.Changed(p.Key()) {
		b.rows[p] = e.row
	}
	for i, h := range e.hashes {
		if _, known := b.aliases[h]; !known && !e.watch.Changed(h.Key(record.FamilyAlias)) {
			b.aliases[h] = e.aliases[i]
		}
	}
}

// The bounds of a step of the sweep: the records that it reads, those of them that it deletes, and
// their bytes. Its memory does not depend on how many windows have ended.
const (
	sweepReads = 100_000
	sweepStep  = 4000
	sweepBytes = 8 << 20
)

// sweep deletes the records whose windows have ended (see swept). It does not use Badger's expiry,
// which follows the system clock: a clock that jumps ahead would end every window.
func (m *maintenance) sweep(slack time.Duration) error {
	if m.gaps.holdsSweep(m.now()) {
		return nil
	}
	for _, family := range [...]byte{record.FamilyEvent, record.FamilyOlder} {
		for from := []byte{family}; from != nil; {
			err := m.db.Watch(func(w *kv.Watch) error {
				found, next, err := m.ended(family, from, slack, w)
				if from = next; err == nil {
					err = m.delete(found, slack)
				}
				return err
			})
			if err != nil {
				return err
			}
		}
	}
	return nil
}

// ended returns records that can be deleted, up to the bounds of a step, and the key at which the
// next ones begin; nil at the end of the family.
func (m *maintenance) ended(
	family byte, from []byte, slack time.Duration, watch *kv.Watch,
) (found []expired, next []byte, err error) {
	now := m.now()
	err = m.view(func(in *kv.View) error {
		reads, bytes := 0, int64(0)
		it := in.Keys(from, family)
		defer it.Close()
		for ; it.Valid(); it.Next() {
			if reads == sweepReads || len(found) == sweepStep || bytes >= sweepBytes {
				next = it.KeyCopy()
				return nil
			}
			reads++
			if e, err := m.endedAt(in, it, now, slack); err != nil {
				m.damage(err)
			} else if e.row != nil {
				e.watch = watch
				found = append(found, e)
				bytes += e.row.event.Memory() + int64(len(e.aliases))*aliasBytes
			}
		}
		return nil
	})
	return found, next, err
}

// aliasBytes is about the memory of an alias of a record that was read, with its name.
const aliasBytes = 256

// endedAt reads a record with its aliases if it can be deleted; otherwise there is no row. A
// damaged alias is left to the committer.
func (m *maintenance) endedAt(in *kv.View, it *kv.Iterator, now time.Time, slack time.Duration) (e expired, err error) {
	value, err := it.Value()
	if err != nil {
		return e, unreadable(it.Key(), err)
	}
	r, err := m.stateRow(it.Key(), value)
	if err != nil || !swept(&r.rec, now, slack) {
		return e, err
	}
	_, content, broken := it.Read()
	if err := r.load(content, broken); err != nil {
		return e, err
	}
	r.before = r.tally()
	rec, err := r.record()
	if err != nil {
		return e, err
	}
	e.row, e.names = r, rec.Aliases
	for _, k := range e.names {
		h := record.HashOf(k)
		if a, err := readAlias(in, h); err == nil {
			e.hashes, e.aliases = append(e.hashes, h), append(e.aliases, a)
		}
	}
	return e, nil
}

// delete deletes records, unless they changed.
func (m *maintenance) delete(found []expired, slack time.Duration) error {
	for some := range slices.Chunk(found, 256) {
		o := &sweepOp{ticket: newTicket(false), found: some, slack: slack}
		o.bytes = len(some) * 64
		if err := m.submit(o); err != nil {
			return err
		}
	}
	return nil
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
	pruneStep = 250
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
