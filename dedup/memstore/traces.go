package memstore

import (
	"maps"
	"time"

	"github.com/eyelet-dev/eyelet/dedup"
)

// traces are the traces of a [Store].
type traces struct {
	retention dedup.Retention
	since     dedup.Day                // the first day of the store
	evicted   dedup.Day                // the first day that Max allows; 0 for all
	keys      map[[32]byte]dedup.Trace // by the hash of the key
	counts    map[dedup.Day]int64      // keys by day
	checked   dedup.Day                // the day of the last prune
}

func newTraces(r dedup.Retention, today dedup.Day) traces {
	return traces{retention: r, since: today, keys: map[[32]byte]dedup.Trace{}, counts: map[dedup.Day]int64{}}
}

// first returns the first day that is remembered.
func (m *traces) first(now time.Time) dedup.Day { return m.retention.First(m.since, m.evicted, now) }

// note stores a trace, and forgets the oldest days if there are too many.
func (m *traces) note(k dedup.Key, t dedup.Trace, today dedup.Day) {
	h := k.Hash()
	if old, ok := m.keys[h]; ok {
		m.counts[old.Day]--
	}
	m.keys[h] = t
	m.counts[t.Day]++
	if int64(len(m.keys)) > m.retention.Max || m.checked != today {
		m.checked = today
		m.prune(today)
	}
}

// prune forgets the days beyond the retention.
func (m *traces) prune(today dedup.Day) {
	m.evicted = max(m.evicted, m.retention.Evict(m.counts, today))
	first := m.first(today.Start())
	days := len(m.counts)
	maps.DeleteFunc(m.counts, func(day dedup.Day, _ int64) bool { return day < first })
	if len(m.counts) < days {
		maps.DeleteFunc(m.keys, func(_ [32]byte, t dedup.Trace) bool { return t.Day < first })
	}
}

func (m *traces) forget(k dedup.Key) {
	h := k.Hash()
	if t, ok := m.keys[h]; ok {
		m.counts[t.Day]--
		delete(m.keys, h)
	}
}

// release removes one acceptance.
func (m *traces) release(k dedup.Key) {
	h := k.Hash()
	if t := m.keys[h].Without(); t.Count > 0 {
		m.keys[h] = t
	} else {
		m.forget(k)
	}
}
