package badgerstore

import (
	"time"

	"github.com/eyelet-dev/eyelet/dedup"
	"github.com/eyelet-dev/eyelet/dedup/badgerstore/internal/kv"
	"github.com/eyelet-dev/eyelet/dedup/badgerstore/internal/record"
)

// sweepOp deletes records, except those that have changed and are needed again. What it has is as a
// sweep has read it, so that claims do not wait for reading it.
type sweepOp struct {
	ticket
	found   []*row
	aliases map[record.Hash]aliasEntry // theirs, as far as they could be read
	watch   *kv.Watch                  // since before that; nil: all is read again
	slack   time.Duration
	swept   int
}

func (o *sweepOp) apply(b *batch) error {
	if b.disk.frozen() {
		return b.disk.err()
	}
	o.adopt(b)
	for _, found := range o.found {
		r, err := b.at(found.place) // damage was logged; it must not block the others
		if err == nil && r != nil && swept(&r.rec, b.now, o.slack) && b.remove(r) == nil {
			o.swept++
		}
	}
	return nil
}

// adopt puts what was read into the batch, as far as it is still true.
func (o *sweepOp) adopt(b *batch) {
	if o.watch == nil {
		return
	}
	for _, r := range o.found {
		if _, known := b.rows[r.place]; !known && !o.watch.Changed(r.place.Key()) {
			b.rows[r.place] = r
		}
	}
	for h, a := range o.aliases {
		if _, known := b.aliases[h]; !known && !o.watch.Changed(h.Key(record.FamilyAlias)) {
			b.aliases[h] = a
		}
	}
}

// swept reports whether a record is deleted: slack after its window has ended, or as long after as
// the window was, if that is less.
func swept(r *dedup.Record, now time.Time, slack time.Duration) bool {
	return r.Disposable(now.Add(-min(slack, r.Window)))
}

// The bounds of a step of the sweep: the records that it reads, those of them that it deletes, and
// their bytes. Its memory does not depend on how many windows have ended.
const (
	sweepReads = 100_000
	sweepStep  = 256
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
				o, next, err := m.ended(family, from, slack, w)
				if from = next; err == nil && len(o.found) > 0 {
					err = m.submit(o)
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

// ended returns the deletion of records, up to the bounds of a step, and the key at which the next
// ones begin; nil at the end of the family.
func (m *maintenance) ended(
	family byte, from []byte, slack time.Duration, watch *kv.Watch,
) (o *sweepOp, next []byte, err error) {
	o = &sweepOp{ticket: newTicket(false), aliases: map[record.Hash]aliasEntry{}, watch: watch, slack: slack}
	now := m.now()
	err = m.view(func(in *kv.View) error {
		reads, bytes := 0, int64(0)
		for it := range in.Items(from, family) {
			if reads == sweepReads || len(o.found) == sweepStep || bytes >= sweepBytes {
				next = it.KeyCopy()
				return nil
			}
			reads++
			r, err := m.endedAt(it, now, slack)
			if err == nil && r != nil {
				bytes += r.event.Memory()
				err = o.add(in, r, &bytes)
			}
			m.damage(err)
		}
		return nil
	})
	return o, next, err
}

// endedAt reads a record, which is nil if it cannot be deleted.
func (m *maintenance) endedAt(it *kv.Item, now time.Time, slack time.Duration) (*row, error) {
	value, err := it.Value()
	if err != nil {
		return nil, unreadable(it.Key(), err)
	}
	r, err := m.stateRow(it.Key(), value)
	if err != nil || !swept(&r.rec, now, slack) {
		return nil, err
	}
	_, content, broken := it.Read()
	err = r.load(content, broken)
	r.before = r.tally()
	return r, err
}

// aliasBytes is about the memory of an alias that was read.
const aliasBytes = 256

// add adds a record and reads its aliases. A damaged one is left to the committer.
func (o *sweepOp) add(in *kv.View, r *row, bytes *int64) error {
	rec, err := r.record()
	if err != nil {
		return err
	}
	for _, k := range rec.Aliases {
		h := record.HashOf(k)
		if a, err := readAlias(in, h); err == nil {
			o.aliases[h] = a
			*bytes += aliasBytes
		}
	}
	o.found = append(o.found, r)
	o.bytes += keyBytes
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
		if b.trace(id).Day < first || o.all { // a damaged one counts as new
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
		for item := range in.Items(nil, record.FamilyTrace) {
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
