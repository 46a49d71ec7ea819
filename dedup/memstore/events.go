package memstore

import (
	"crypto/rand"
	"slices"

	"github.com/eyelet-dev/eyelet/dedup"
	"github.com/eyelet-dev/eyelet/dedup/internal/taskqueue"
)

// entry is an event. A change replaces its record and never modifies it, so that readers need no
// lock.
type entry struct {
	*dedup.Record
	retired bool // its key had a newer generation
	dropped bool
}

// find returns an event, nil if there is none or it may be forgotten.
func (m *Store) find(event string) *entry {
	e := m.events[event]
	if e == nil || e.Disposable(m.now) {
		return nil
	}
	return e
}

// last returns the newest generation of a key that is still kept, nil without any. Once a key had a
// newer generation, an older one never decides again, even if the newer one is gone.
func (m *Store) last(k dedup.Key) *entry {
	if generations := m.keys[k.Hash()]; len(generations) > 0 {
		return generations[len(generations)-1]
	}
	return nil
}

// insert adds an event without its aliases.
func (m *Store) insert(r *dedup.Record) *entry {
	e, h := &entry{Record: &dedup.Record{Event: r.Event}}, r.Key.Hash()
	for _, older := range m.keys[h] {
		older.retired = true
	}
	m.events[r.Event], m.keys[h], m.order = e, append(m.keys[h], e), append(m.order, e)
	m.replace(e, r)
	return e
}

// change changes the record of an event, unless that fails.
func (m *Store) change(e *entry, change func(*dedup.Record) error) error {
	next := *e.Record
	next.Tasks = slices.Clone(next.Tasks)
	err := change(&next)
	if err == nil {
		m.replace(e, &next)
	}
	return err
}

// replace replaces the record of an event, and updates the queue. It skips unchanged tasks: the
// queue may have given them out in the same step.
func (m *Store) replace(e *entry, r *dedup.Record) {
	old := e.Record
	e.Record, m.dirty = r, true
	for i, t := range e.Tasks {
		switch {
		case i < len(old.Tasks) && unchanged(&old.Tasks[i], &t) && old.Hold == e.Hold:
		case e.Hold || !t.Open():
			m.queue.Remove(e.Seq, i)
		case t.State == dedup.Pending:
			m.queue.Schedule(taskqueue.Item[*entry]{
				Event: e, Task: i, Seq: e.Seq, Handler: t.Handler,
				Lane: e.LaneOf(i), Yields: e.Yields(i), Due: t.Due,
				Accepted: e.Accepted, Bytes: int64(len(e.Payload.Body)), Suspect: t.Interrupted(),
			})
		default:
			m.queue.Extend(e.Seq, i, t.Until)
		}
	}
}

// unchanged reports whether a task is where it was.
func unchanged(old, t *dedup.Task) bool {
	return old.State == t.State && old.Token == t.Token && old.Attempt == t.Attempt && old.Due.Equal(t.Due) &&
		old.Until.Equal(t.Until) && old.Ended.Equal(t.Ended)
}

// drop forgets an event with its names and tasks.
func (m *Store) drop(e *entry) {
	h := e.Key.Hash()
	if !e.retired && e.Unaccepted() {
		m.traces.release(e.Key)
	}
	e.dropped = true
	delete(m.events, e.Event)
	m.keys[h] = slices.DeleteFunc(m.keys[h], func(other *entry) bool { return other == e })
	if len(m.keys[h]) == 0 {
		delete(m.keys, h)
	}
	m.dropAliases(e)
	for i := range e.Tasks {
		m.queue.Remove(e.Seq, i)
	}
}

// dropAliases drops the aliases of an event that no other event has taken over.
func (m *Store) dropAliases(e *entry) {
	for _, alias := range e.Aliases {
		if h := alias.Hash(); m.aliases[h] == e {
			delete(m.aliases, h)
		}
	}
}

// sweepBound is how many events one call looks at, so that no call pays for all.
const sweepBound = 16

// sweep forgets those of the next events whose windows ended.
func (m *Store) sweep() {
	for range min(sweepBound, len(m.order)) {
		if m.swept--; m.swept < 0 {
			m.order = slices.DeleteFunc(m.order, func(e *entry) bool { return e.dropped })
			m.swept = len(m.order) - 1
		}
		if m.swept >= 0 && !m.order[m.swept].dropped && m.order[m.swept].Disposable(m.now) {
			m.drop(m.order[m.swept])
		}
	}
}

// source is the store as the decision of claims sees it. A claim that passed its check cannot fail.
type source struct{ *Store }

var _ dedup.StepSource[*entry] = source{}

func (s source) Key(k dedup.Key) (*entry, error) {
	if e := s.last(k); e != nil && !e.retired {
		return e, nil
	}
	return nil, nil
}

func (s source) Alias(k dedup.Key) (*entry, error)      { return s.aliases[k.Hash()], nil }
func (s source) Event(id string) (*entry, error)        { return s.find(id), nil }
func (s source) Trace(k dedup.Key) (dedup.Trace, error) { return s.traces.keys[k.Hash()], nil }
func (s source) State(e *entry) *dedup.Record           { return e.Record }
func (s source) Admit(*dedup.Claim) error               { return nil }

func (s source) SetTrace(k dedup.Key, t dedup.Trace) error {
	s.traces.note(k, t, dedup.DayOf(s.now))
	return nil
}

func (s source) FirstDay() (first dedup.Day, remembers bool, err error) {
	return s.traces.first(s.now), !s.traces.retention.Off(), nil
}

func (s source) Show(e *entry, v dedup.Verdict) (dedup.Record, error) {
	shown := *e.Record
	if shown.Payload.Body = nil; v == dedup.Known {
		shown.Aliases, shown.Payload = nil, dedup.Payload{}
	}
	return shown.Clone(), nil
}

func (s source) Accept(c *dedup.Claim, old *entry) (dedup.Decision, error) {
	var before dedup.Record
	if old != nil {
		before = *old.Record
	} else if last := s.last(c.Key); last != nil {
		before.Generation = last.Generation
	}
	s.token++
	r := dedup.Accept(before, *c, rand.Text(), s.seq+1, s.token, s.now)
	e := old
	if r = r.Clone(); r.Event == before.Event { // the caller may use its claim again
		s.dropAliases(e)
		s.replace(e, &r)
	} else {
		s.seq++
		s.accepted++
		e = s.insert(&r)
	}
	for _, alias := range r.Aliases { // also those that it had before and another event took over
		s.aliases[alias.Hash()] = e
	}
	d := dedup.Decision{Verdict: dedup.New}
	if r.Hold {
		d.Lease = dedup.Lease{Event: r.Event, Token: s.token, Until: r.Tasks[0].Until}
	}
	var err error
	d.Record, err = s.Show(e, d.Verdict)
	return d, err
}

func (s source) Change(e *entry, change func(*dedup.Record)) *entry {
	_ = s.change(e, func(r *dedup.Record) error { change(r); return nil })
	return e
}
