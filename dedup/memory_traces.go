package dedup

import (
	"maps"
	"time"
)

// traceKey identifies a key in the traces.
type traceKey [16]byte

func traceKeyOf(k Key) traceKey {
	h := k.Hash()
	return traceKey(h[:len(traceKey{})])
}

// memoryTraces are the traces of a Memory store.
type memoryTraces struct {
	retention Retention
	since     Day // the first day of the store
	evicted   Day // the first day that Max allows; 0 for all
	keys      map[traceKey]Trace
	counts    map[Day]int64 // keys by day
	checked   Day           // the day of the last prune
}

func newMemoryTraces(r Retention, today Day) memoryTraces {
	return memoryTraces{retention: r, since: today, keys: map[traceKey]Trace{}, counts: map[Day]int64{}}
}

// first returns the first day that is remembered.
func (m *memoryTraces) first(now time.Time) Day { return m.retention.First(m.since, m.evicted, now) }

// note stores a trace, and forgets the oldest days if there are too many.
func (m *memoryTraces) note(k traceKey, t Trace, today Day) {
	if old, ok := m.keys[k]; ok {
		m.counts[old.Day]--
	}
	m.keys[k] = t
	m.counts[t.Day]++
	if int64(len(m.keys)) > m.retention.Max || m.checked != today {
		m.checked = today
		m.prune(today)
	}
}

// prune forgets the days beyond the retention.
func (m *memoryTraces) prune(today Day) {
	m.evicted = max(m.evicted, m.retention.Evict(m.counts, today))
	first := m.first(today.Start())
	if oldestOf(m.counts) >= first {
		return
	}
	maps.DeleteFunc(m.keys, func(_ traceKey, t Trace) bool { return t.Day < first })
	maps.DeleteFunc(m.counts, func(day Day, _ int64) bool { return day < first })
}

func (m *memoryTraces) forget(k Key) {
	key := traceKeyOf(k)
	if t, ok := m.keys[key]; ok {
		m.counts[t.Day]--
		delete(m.keys, key)
	}
}

// release removes one acceptance.
func (m *memoryTraces) release(k Key) {
	key := traceKeyOf(k)
	if t := m.keys[key].Without(); t.Count > 0 {
		m.keys[key] = t
	} else {
		m.forget(k)
	}
}
