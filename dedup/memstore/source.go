package memstore

import (
	"crypto/rand"
	"time"

	"github.com/eyelet-dev/eyelet/dedup"
	"github.com/eyelet-dev/eyelet/dedup/internal/step"
)

// source collects the changes of one call, so that later claims see earlier ones.
type source struct {
	m          *Store
	now        time.Time
	seq, token uint64

	changes map[string]*dedup.Record // by event
	order   []string                 // the events of changes in order
	keys    map[[32]byte]*dedup.Record
	aliases map[[32]byte]*dedup.Record
	traces  map[traceKey]dedup.Trace
	records int // added
}

var _ step.Source[*dedup.Record] = (*source)(nil)

func (m *Store) newSource(now time.Time) *source {
	return &source{
		m: m, now: now, seq: m.seq, token: m.token, changes: map[string]*dedup.Record{},
		keys: map[[32]byte]*dedup.Record{}, aliases: map[[32]byte]*dedup.Record{}, traces: map[traceKey]dedup.Trace{},
	}
}

func (s *source) Key(k dedup.Key) (*dedup.Record, error) {
	return s.newest(s.keys[k.Hash()], s.m.names.newest(k)), nil
}

func (s *source) Alias(k dedup.Key) (*dedup.Record, error) {
	h := k.Hash()
	return s.newest(s.aliases[h], s.m.names.aliases[h]), nil
}

func (s *source) Event(id string) (*dedup.Record, error) {
	if r := s.newest(s.changes[id], s.m.events[id]); r != nil && !r.Disposable(s.now) {
		return r, nil
	}
	return nil, nil
}

// newest returns the current state of a record: as changed by this step, else as stored. It is nil
// if there is none.
func (s *source) newest(changed *dedup.Record, stored *entry) *dedup.Record {
	switch {
	case changed != nil:
		return s.changes[changed.Event]
	case stored == nil:
		return nil
	case s.changes[stored.Event] != nil:
		return s.changes[stored.Event]
	}
	return stored.Record
}

func (s *source) Trace(k dedup.Key) (dedup.Trace, error) {
	if t, ok := s.traces[traceKeyOf(k)]; ok {
		return t, nil
	}
	return s.m.traces.keys[traceKeyOf(k)], nil
}

func (s *source) SetTrace(k dedup.Key, t dedup.Trace) error {
	s.traces[traceKeyOf(k)] = t
	return nil
}

func (s *source) FirstDay() (first dedup.Day, remembers bool, err error) {
	return s.m.traces.first(s.now), !s.m.traces.retention.Off(), nil
}

func (s *source) State(r *dedup.Record) *dedup.Record { return r }

func (s *source) Show(r *dedup.Record, v dedup.Verdict) (dedup.Record, error) {
	shown := *r
	if v == dedup.Known {
		shown.Aliases, shown.Payload = nil, dedup.Payload{}
	}
	return withoutBody(&shown), nil
}

func (s *source) Admit(*dedup.Claim) error { return nil }

func (s *source) Accept(c *dedup.Claim, old *dedup.Record) (dedup.Decision, error) {
	var before dedup.Record
	if old != nil {
		before = *old
	} else if last := s.m.names.last(c.Key); last != nil {
		before.Generation = last.Generation
	}
	s.token++
	r := dedup.Accept(before, *c, rand.Text(), s.seq+1, s.token, s.now)
	r = r.Clone() // the caller may use its claim again
	if r.Event != before.Event {
		s.seq++
		s.records++
	}
	s.change(&r)
	s.keys[c.Key.Hash()] = &r
	for _, alias := range r.Aliases {
		s.aliases[alias.Hash()] = &r
	}
	d := dedup.Decision{Verdict: dedup.New, Record: withoutBody(&r)}
	if r.Hold {
		d.Lease = dedup.Lease{Event: r.Event, Token: s.token, Until: r.Tasks[0].Until}
	}
	return d, nil
}

func (s *source) Change(r *dedup.Record, change func(*dedup.Record)) *dedup.Record {
	next := *r
	change(&next)
	s.change(&next)
	return &next
}

func (s *source) change(r *dedup.Record) {
	if s.changes[r.Event] == nil {
		s.order = append(s.order, r.Event)
	}
	s.changes[r.Event] = r
}

// apply stores the changes.
func (s *source) apply() {
	if len(s.order) == 0 {
		return
	}
	m := s.m
	m.seq, m.token = s.seq, s.token
	for _, event := range s.order {
		if r := s.changes[event]; m.events[event] == nil {
			m.insert(r)
		} else {
			m.replace(r)
		}
	}
	for h, r := range s.aliases {
		m.names.aliases[h] = m.events[r.Event] // also if a record takes back an alias that it had before
	}
	for k, t := range s.traces {
		m.traces.note(k, t, dedup.DayOf(s.now))
	}
	m.accepted += int64(s.records)
	m.commits++
	m.wake()
}
