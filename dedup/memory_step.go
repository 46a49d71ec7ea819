package dedup

import (
	"crypto/rand"
	"time"
)

// memoryStep collects the changes of one call, so that later claims see earlier ones and
// nothing is stored unless everything fits.
type memoryStep struct {
	m          *Memory
	now        time.Time
	seq, token uint64

	changes map[string]*Record // by event
	order   []string           // the events of changes in order
	keys    map[[32]byte]*Record
	aliases map[[32]byte]*Record
	traces  map[traceKey]Trace

	records int   // added records
	bytes   int64 // added bytes
}

func (m *Memory) newStep(now time.Time) *memoryStep {
	return &memoryStep{
		m: m, now: now, seq: m.seq, token: m.token,
		changes: map[string]*Record{}, keys: map[[32]byte]*Record{}, aliases: map[[32]byte]*Record{},
		traces: map[traceKey]Trace{},
	}
}

func (s *memoryStep) claim(c Claim) Decision {
	found, _ := Resolve(c, s.lookup(), s.now) // the lookups return no errors
	if found.Verdict != 0 {
		return Decision{Verdict: found.Verdict, Record: found.Of.withoutBody(), Alias: found.Alias}
	}
	c = found.Claim
	old := s.byKey(c.Key)
	if v := Decide(*old, c, s.now); v != New {
		return decided(v, old)
	}
	for _, alias := range c.Aliases {
		if other := s.byAlias(alias); AliasTaken(*other, alias, c, s.now) {
			return Decision{Verdict: Aliased, Record: other.withoutBody(), Alias: alias}
		}
	}
	if v := s.recall(*old, c); v != New {
		d := Decision{Verdict: v}
		if old.Event != "" && !old.Disposable(s.now) {
			d.Record = old.withoutBody()
		}
		return d
	}
	if c.OnlyKnown {
		return Decision{Verdict: New}
	}
	if c.Quarantine == nil {
		return s.noteOccurrence(s.accept(*old, c), &found)
	}
	if original, full := s.countQuarantined(c.Quarantine); full {
		return decided(Known, original)
	}
	return s.accept(*old, c)
}

// decided returns a decision that is not New, about a record.
func decided(v Verdict, r *Record) Decision {
	about := *r
	if v == Known {
		about.Aliases, about.Payload = nil, Payload{}
	}
	return Decision{Verdict: v, Record: about.withoutBody()}
}

// noteOccurrence updates other records after an accepted claim: the count of occurrences, and
// the note about a reused identifier.
func (s *memoryStep) noteOccurrence(d Decision, found *Resolution) Decision {
	if found.Number > 0 {
		first := *s.newest(s.changes[found.Of.Event], s.m.events[found.Of.Event])
		first.Occurrences = found.Number
		s.change(&first)
	}
	if found.Reused.Event != "" {
		older, fresh := found.Reused, *s.changes[d.Record.Event]
		if NoteReuse(&fresh, &older) {
			s.change(&older)
		}
		s.change(&fresh)
		d.Record.Note, d.Reused = fresh.Note, older.Event
	}
	return d
}

func (s *memoryStep) lookup() Lookup {
	return Lookup{
		Key:   func(k Key) (Record, error) { return *s.byKey(k), nil },
		Alias: func(k Key) (Record, error) { return *s.byAlias(k), nil },
	}
}

func (s *memoryStep) byKey(k Key) *Record { return s.newest(s.keys[k.Hash()], s.m.names.newest(k)) }

func (s *memoryStep) byAlias(k Key) *Record {
	h := k.Hash()
	return s.newest(s.aliases[h], s.m.names.aliases[h])
}

// trace returns the trace of a key.
func (s *memoryStep) trace(k Key) Trace {
	if t, ok := s.traces[traceKeyOf(k)]; ok {
		return t
	}
	return s.m.traces.keys[traceKeyOf(k)]
}

func (s *memoryStep) recall(old Record, c Claim) Verdict {
	if c.Remember == nil || s.m.traces.retention.Off() {
		return New
	}
	return Recall(old, c, s.trace, s.m.traces.first(s.now), s.now)
}

// remember adds the traces of an accepted claim; old is the record that its key had before.
func (s *memoryStep) remember(old Record, c Claim) {
	if s.m.traces.retention.Off() {
		return
	}
	for _, of := range c.Traces() {
		s.traces[traceKeyOf(of.Key)] = of.Recalled(old, s.trace(of.Key)).Again(DayOf(s.now), s.m.traces.first(s.now))
	}
}

// newest returns the current state of a record: as changed by this step, else as stored. It is
// the zero Record if there is none.
func (s *memoryStep) newest(changed *Record, stored *memoryEntry) *Record {
	switch {
	case changed != nil:
		return s.changes[changed.Event]
	case stored == nil:
		return &Record{}
	case s.changes[stored.Event] != nil:
		return s.changes[stored.Event]
	}
	return stored.Record
}

// countQuarantined counts one more delivery on the original and reports whether it was full before.
func (s *memoryStep) countQuarantined(a *Quarantine) (original *Record, full bool) {
	found := s.newest(s.changes[a.Of], s.m.find(a.Of, s.now))
	if found.Event == "" {
		return nil, false
	}
	counted := *found
	counted.QuarantineCount++
	s.change(&counted)
	return &counted, a.Full(*found)
}

func (s *memoryStep) accept(old Record, c Claim) Decision {
	s.token++
	if last := s.m.names.last(c.Key); old.Event == "" && last != nil {
		old.Generation = last.Generation
	}
	r := Accept(old, c, newEvent(), s.seq+1, s.token, s.now)
	r = r.Clone() // the caller may reuse its claim
	if r.Event != old.Event {
		s.seq++
		s.records++
		s.bytes += size(&r)
		s.remember(old, c)
	} else {
		s.bytes += size(&r) - size(&old)
	}
	s.supersede(c, r.Event)
	s.change(&r)
	s.keys[c.Key.Hash()] = &r
	for _, alias := range r.Aliases {
		s.aliases[alias.Hash()] = &r
	}
	d := Decision{Verdict: New, Record: r.withoutBody()}
	if r.Hold {
		d.Lease = Lease{Event: r.Event, Token: s.token, Until: r.Tasks[0].Until}
	}
	return d
}

// supersede marks the record that had the series of the claim as an older one.
func (s *memoryStep) supersede(c Claim, by string) {
	if c.Series == (Key{}) {
		return
	}
	if before := s.byAlias(c.Series); before.Event != "" && before.Event != by {
		older := *before
		older.Supersede()
		s.change(&older)
	}
}

func (s *memoryStep) change(r *Record) {
	if s.changes[r.Event] == nil {
		s.order = append(s.order, r.Event)
	}
	s.changes[r.Event] = r
}

// apply stores the changes.
func (s *memoryStep) apply() {
	if len(s.order) == 0 {
		return
	}
	m := s.m
	m.seq, m.token = s.seq, s.token
	for _, event := range s.order {
		r := s.changes[event]
		if m.events[event] == nil {
			m.insert(r)
		} else {
			m.replace(r)
		}
	}
	for h, r := range s.aliases {
		m.names.aliases[h] = m.events[r.Event] // also if a record takes back an alias that it had before
	}
	for k, t := range s.traces {
		m.traces.note(k, t, DayOf(s.now))
	}
	m.accepted += int64(s.records)
	m.commits++
	m.wake()
}

// newEvent returns an id that cannot be guessed and never recurs.
func newEvent() string { return rand.Text() }
