package badgerstore

import (
	"time"

	"github.com/dgraph-io/badger/v4"

	"github.com/eyelet-dev/eyelet/dedup"
	"github.com/eyelet-dev/eyelet/dedup/badgerstore/internal/record"
)

// A trace is what is remembered of a key beyond its window: the first 16 bytes of the key's hash in the key, day and
// count in the value. The sets of the days are logical: the counters of the last commit hold the first day that is
// remembered, traces before it count as absent at once, and the housekeeper deletes them later.
// traceOf is a trace in a batch.
type traceOf struct {
	dedup.Trace
	gone bool
}

// readTrace returns what is remembered of a key, the zero Trace for nothing.
func readTrace(txn *badger.Txn, key []byte) (t dedup.Trace, err error) {
	value, err := readValue(txn, key)
	if value == nil || err != nil {
		return t, err
	}
	return record.DecodeTrace(key, value)
}

// everSeen is the trace of a key whose own is damaged. That it is there says that the key was accepted.
func everSeen(now time.Time) dedup.Trace { return dedup.Trace{Day: dedup.DayOf(now), Count: 1<<8 - 1} }

// first returns the first day that is remembered at the time of the batch.
func (b *batch) first() dedup.Day {
	return b.s.firstDay(b.s.meta.Since, b.evicted, b.now)
}

// firstDay returns the first day that is remembered. A gap does not count as time here either, as long as it is known.
func (s *Store) firstDay(since, evicted uint64, now time.Time) dedup.Day {
	return s.options.Remember.First(dedup.Day(since), dedup.Day(evicted), now.Add(-s.gaps.all())) //nolint:gosec // days
}

// trace returns what is remembered of a key.
func (b *batch) trace(h record.Hash) dedup.Trace {
	id := h.TraceID()
	if t, ok := b.traces[id]; ok {
		return t.Trace
	}
	t, err := readTrace(b.txn, id.Key())
	if err != nil {
		b.s.damage(err)
		return everSeen(b.now)
	}
	return t
}

func (b *batch) putTrace(id record.TraceID, t traceOf) {
	old, had := b.traces[id]
	b.undo = append(b.undo, func() {
		if had {
			b.traces[id] = old
		} else {
			delete(b.traces, id)
		}
	})
	b.traces[id] = t
}

// recall says what a new claim meets beyond the window. old is the record that its key has, zero for none.
func (b *batch) recall(old *dedup.Record, p *prepared) dedup.Verdict {
	if p.claim.Remember == nil || b.s.options.Remember.Off() {
		return dedup.New
	}
	return dedup.Recall(*old, p.claim, func(k dedup.Key) dedup.Trace { return b.trace(record.HashOf(k)) }, b.first(), b.now)
}

// remember notes that a claim is accepted. The record that its key had before has been removed.
func (b *batch) remember(p *prepared) {
	if b.s.options.Remember.Off() {
		return
	}
	for _, of := range p.claim.Traces() {
		h := record.HashOf(of.Key)
		b.putTrace(h.TraceID(), traceOf{Trace: b.trace(h).Again(dedup.DayOf(b.now), b.first())})
	}
}

// forget leaves what is wanted of what is remembered of the key of a row that is deleted. That of an older generation belongs
// to the newer one.
func (b *batch) forget(r *row, wanted func(dedup.Trace) dedup.Trace) {
	if r.place.Older != 0 {
		return
	}
	if before := b.trace(r.place.Hash); before.Count > 0 {
		after := wanted(before)
		b.putTrace(r.place.Hash.TraceID(), traceOf{Trace: after, gone: after.Count == 0})
	}
}

// pruneOp deletes traces of days that are no longer remembered, and moves the first day on.
type pruneOp struct {
	ticket
	evicted dedup.Day
	ids     []record.TraceID
	all     bool // nothing is remembered any more
}

// apply implements op.
func (o *pruneOp) apply(b *batch) error {
	if b.disk.frozen() {
		return b.disk.err()
	}
	if uint64(o.evicted) > b.evicted {
		before := b.evicted
		b.undo = append(b.undo, func() { b.evicted = before })
		b.evicted, b.always = uint64(o.evicted), true
	}
	first := b.first()
	for _, id := range o.ids {
		t, staged := b.traces[id]
		if !staged {
			var err error
			if t.Trace, err = readTrace(b.txn, id.Key()); err != nil {
				continue // damage is noted by the check; the key stays known
			}
		}
		if t.Day < first || o.all {
			b.putTrace(id, traceOf{gone: true})
		}
	}
	return nil
}

// The traces that one pass of the housekeeper deletes, and one commit of it.
const (
	pruneMost = 200_000
	pruneStep = 2_000
)

// prune forgets the days whose time is over and, where more keys are remembered than Max, the oldest days. The number of
// keys by day is counted anew each time, so that no commit has to keep it. A pass reads keys and days only, which are in the
// tree. Nothing is deleted while a gap holds the sweep.
func (s *Store) prune() error {
	if s.gaps.holdsSweep(s.now()) {
		return nil
	}
	counts, ended, err := s.countTraces()
	if err != nil {
		return err
	}
	keep := s.options.Remember
	o := &pruneOp{ticket: newTicket(false), all: keep.Off()}
	if today := dedup.DayOf(s.now()); !o.all {
		if o.evicted = keep.Evict(counts, today); o.evicted > 0 {
			s.crowded.Do(func() {
				s.log.Warn("more keys are to be remembered than remember_signatures.max allows: those of the oldest days are forgotten",
					"dir", s.dir, "max", keep.Max, "before", o.evicted.Start().Format(time.DateOnly))
			})
		}
	}
	for first := true; first && o.evicted > 0 || len(ended) > 0; first = false {
		n := min(len(ended), pruneStep)
		step := &pruneOp{ticket: newTicket(false), all: o.all, evicted: o.evicted, ids: ended[:n]}
		step.bytes = n * 64
		if err := s.queue.push(step); err != nil {
			return err
		}
		if <-step.done; step.err != nil {
			return step.err
		}
		ended = ended[n:]
	}
	return nil
}

// countTraces counts the traces that are remembered by day, and returns the keys of others, as many as one pass deletes.
func (s *Store) countTraces() (counts map[dedup.Day]int64, ended []record.TraceID, err error) {
	counts = map[dedup.Day]int64{}
	err = s.view(func(txn *badger.Txn) error {
		m, err := readMeta(txn)
		if err != nil {
			return err
		}
		first, off := s.firstDay(m.Since, m.Evicted, s.now()), s.options.Remember.Off()
		it := txn.NewIterator(keysOnly(record.FamilyTrace))
		defer it.Close()
		for it.Rewind(); it.Valid(); it.Next() {
			var t dedup.Trace
			key := it.Item().Key()
			if len(key) != record.TraceKeySize {
				continue
			}
			err := it.Item().Value(func(value []byte) (err error) { t, err = record.DecodeTrace(key, value); return err })
			switch {
			case err != nil:
				s.damage(err)
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

// beginToRemember notes in the counters when a store begins to remember keys, and says so as long as that is not For ago. What
// was accepted before is not remembered, and new when it comes again after its window.
func (s *Store) beginToRemember(m *record.Meta) {
	keep, now := s.options.Remember, s.now()
	if keep.Off() {
		m.Since, m.Evicted = 0, 0
		return
	}
	if m.Since == 0 {
		m.Since = uint64(dedup.DayOf(now))
	}
	if since := dedup.Day(m.Since); now.Before(since.Start().Add(keep.For)) { //nolint:gosec // a day
		s.log.Info("events are remembered beyond their windows from this day on; what was accepted before is not",
			"dir", s.dir, "since", since.Start().Format(time.DateOnly), "for", keep.For)
	}
}
