package memstore

import (
	"maps"
	"time"

	"github.com/eyelet-dev/eyelet/dedup"
)

// traceKey identifies a key in the traces.
type traceKey [16]byte

func traceKeyOf(k dedup.Key) traceKey {
	h := k.Hash()
	return traceKey(h[:len(traceKey{})])
}

// traces are the traces of a [Store].
type traces struct {
	retention dedup.Retention
	since     dedup.Day // the first day of the store
	evicted   dedup.Day // the first day that Max allows; 0 for all
	keys      map[traceKey]dedup.Trace
	counts    map[dedup.Day]int64 // keys by day
	checked   dedup.Day           // the day of the last prune
}

func newTraces(r dedup.Retention, today dedup.Day) traces {
	return traces{retention: r, since: today, keys: map[traceKey]dedup.Trace{}, counts: map[dedup.Day]int64{}}
}

// first returns the first day that is remembered.
func (m *traces) first(now time.Time) dedup.Day { return m.retention.First(m.since, m.evicted, now) }

// note stores a trace, and forgets the oldest days if there are too many.
func (m *traces) note(k traceKey, t dedup.Trace, today dedup.Day) {
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
func (m *traces) prune(today dedup.Day) {
	m.evicted = max(m.evicted, m.retention.Evict(m.counts, today))
	first := m.first(today.Start())
	days := len(m.counts)
	maps.DeleteFunc(m.counts, func(day dedup.Day, _ int64) bool { return day < first })
	if len(m.counts) < days {
		maps.DeleteFunc(m.keys, func(_ traceKey, t dedup.Trace) bool { return t.Day < first })
	}
}

func (m *traces) forget(k dedup.Key) {
	key := traceKeyOf(k)
	if t, ok := m.keys[key]; ok {
		m.counts[t.Day]--
		delete(m.keys, key)
	}
}

// release removes one acceptance.
func (m *traces) release(k dedup.Key) {
	key := traceKeyOf(k)
	if t := m.keys[key].Without(); t.Count > 0 {
		m.keys[key] = t
	} else {
		m.forget(k)
	}
}
