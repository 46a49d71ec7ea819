package memstore

import (
	"slices"
	"time"

	"github.com/eyelet-dev/eyelet/dedup"
	"github.com/eyelet-dev/eyelet/dedup/internal/taskqueue"
)

// entry is the entry of one event. A change replaces its record and never modifies it, so
// readers need no lock.
type entry struct {
	*dedup.Record
	ends    time.Time // when the window ends, as queued; it may have moved to a later time
	window  int       // index in the heap of windows plus 1; 0 if not queued
	retired bool      // its key had a newer generation
}

// edit returns a copy of the record whose tasks can be changed. Payload and response are
// shared, because changes replace them as a whole.
func (e *entry) edit() *dedup.Record {
	r := *e.Record
	r.Tasks = slices.Clone(r.Tasks)
	return &r
}

// names finds events by key and alias.
type names struct {
	keys    map[[32]byte][]*entry // all generations, oldest first
	aliases map[[32]byte]*entry
}

// newest returns the record that decides for the key, nil if there is none. Once a key had a
// newer generation, an older one never decides again, even if the newer one is gone.
func (n *names) newest(k dedup.Key) *entry {
	if e := n.last(k); e != nil && !e.retired {
		return e
	}
	return nil
}

// last returns the newest generation of the key that is still kept, nil without any.
func (n *names) last(k dedup.Key) *entry {
	if generations := n.keys[k.Hash()]; len(generations) > 0 {
		return generations[len(generations)-1]
	}
	return nil
}

func (n *names) add(e *entry) {
	h := e.Key.Hash()
	for _, older := range n.keys[h] {
		older.retired = true
	}
	n.keys[h] = append(n.keys[h], e)
	n.addAliases(e)
}

func (n *names) remove(e *entry) {
	h := e.Key.Hash()
	n.keys[h] = slices.DeleteFunc(n.keys[h], func(other *entry) bool { return other == e })
	if len(n.keys[h]) == 0 {
		delete(n.keys, h)
	}
	n.removeAliases(e)
}

func (n *names) removeAliases(e *entry) {
	for _, alias := range e.Aliases {
		if h := alias.Hash(); n.aliases[h] == e {
			delete(n.aliases, h)
		}
	}
}

func (n *names) addAliases(e *entry) {
	for _, alias := range e.Aliases {
		n.aliases[alias.Hash()] = e
	}
}

// find returns the entry of an event, nil if there is none or it may be forgotten at now.
func (m *Store) find(event string, now time.Time) *entry {
	e := m.events[event]
	if e == nil || e.Disposable(now) {
		return nil
	}
	return e
}

func (m *Store) insert(r *dedup.Record) {
	e := &entry{Record: r}
	m.events[r.Event] = e
	m.order = append(m.order, e)
	m.names.add(e)
	m.count(r, 1)
	m.schedule(e, &dedup.Record{})
}

func (m *Store) replace(r *dedup.Record) {
	e := m.events[r.Event]
	old := e.Record
	m.count(old, -1)
	if !slices.Equal(e.Aliases, r.Aliases) {
		m.names.removeAliases(e)
		e.Record = r
		m.names.addAliases(e)
	}
	e.Record = r
	m.count(r, 1)
	m.schedule(e, old)
}

// drop deletes a record with its names, and its tasks from the queue.
func (m *Store) drop(e *entry) {
	if !e.retired && e.Unaccepted() {
		m.traces.release(e.Key)
	}
	delete(m.events, e.Event)
	m.names.remove(e)
	if e.window > 0 {
		m.windows.Remove(e.window - 1)
		e.window = 0
	}
	m.count(e.Record, -1)
	for i := range e.Tasks {
		m.queue.Remove(e.Seq, i)
	}
	m.stale++
	if m.stale > len(m.order)/2 {
		m.order = slices.DeleteFunc(m.order, func(e *entry) bool { return m.events[e.Event] != e })
		m.stale = 0
	}
}

// schedule updates the queue and the heap of windows after a change from old. It skips
// unchanged tasks: the queue may have given them out in the same step.
func (m *Store) schedule(e *entry, old *dedup.Record) {
	for i, t := range e.Tasks {
		switch {
		case i < len(old.Tasks) && unchanged(&old.Tasks[i], &t) && old.Hold == e.Hold:
		case e.Hold || !t.Open():
			m.queue.Remove(e.Seq, i)
		case t.State == dedup.Pending:
			m.queue.Schedule(taskqueue.Item[string]{
				Event: e.Event, Task: i, Seq: e.Seq, Handler: t.Handler,
				Lane: e.LaneOf(i), Yields: e.Yields(i), Due: t.Due,
				Accepted: e.Accepted, Bytes: int64(len(e.Payload.Body)), Suspect: t.Interrupted(),
			})
		default:
			m.queue.Extend(e.Seq, i, t.Until)
		}
	}
	switch ends := e.Ends(); {
	case ends.IsZero():
	case e.window == 0:
		m.queueWindow(e)
	case ends.Before(e.ends): // a later end is noticed when the queued one has come
		e.ends = ends
		m.windows.Replace(e.window-1, e)
	}
}

// unchanged reports whether a task is where it was.
func unchanged(old, t *dedup.Task) bool {
	return old.State == t.State && old.Token == t.Token && old.Attempt == t.Attempt && old.Due.Equal(t.Due) &&
		old.Until.Equal(t.Until) && old.Ended.Equal(t.Ended)
}

// count adds the record to the totals; by is 1, or -1 to remove it.
func (m *Store) count(r *dedup.Record, by int64) {
	if q := (dedup.QuarantineGroup{Endpoint: r.Payload.Endpoint, Reason: r.QuarantineReason}); r.Quarantined() {
		if m.quarantined[q] += by; m.quarantined[q] == 0 {
			delete(m.quarantined, q)
		}
	}
	if r.Open() {
		m.backlog += by * int64(len(r.Payload.Body))
	}
	for _, t := range r.Tasks {
		switch {
		case t.State == dedup.Dead:
			m.dead += by
		case r.Hold && t.State == dedup.Running:
			m.held += by
		case r.Hold && t.State == dedup.Pending:
			m.freed += by
		}
	}
}

// sweepBound is how many expired windows one call handles, so no call pays for all.
const sweepBound = 16

// sweep forgets records whose windows ended and returns how many windows it handled, at most bound.
func (m *Store) sweep(now time.Time, bound int) int {
	looked := 0
	for ; looked < bound && m.windows.Len() > 0 && !m.windows.First().ends.After(now); looked++ {
		e := m.windows.Remove(0)
		e.window = 0
		switch {
		case e.Disposable(now):
			m.drop(e)
		case e.Ends().After(now): // it moved after it was queued
			m.queueWindow(e)
		}
	}
	return looked
}

// queueWindow schedules the record for a sweep at the end of its window.
func (m *Store) queueWindow(e *entry) {
	e.ends = e.Ends()
	m.windows.Push(e)
}

// withoutBody returns a copy without the body of the payload.
func withoutBody(r *dedup.Record) dedup.Record {
	c := *r
	c.Payload.Body = nil
	return c.Clone()
}
