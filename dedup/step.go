package dedup

import "time"

// StepSource is a store within one durable step: its records as the operations before have left
// them. A failed operation is undone by the store. R is a record in hand, and its zero value is
// none.
type StepSource[R comparable] interface {
	// Key returns the record that decides for a key, Alias the one that has an alias, and Event the
	// one of an event, unless it may be forgotten.
	Key(Key) (R, error)
	Alias(Key) (R, error)
	Event(string) (R, error)
	// Trace returns the trace of a key. SetTrace replaces it.
	Trace(Key) (Trace, error)
	SetTrace(Key, Trace) error
	// FirstDay returns the first day that is remembered, and whether any is.
	FirstDay() (first Day, remembers bool, err error)

	// State returns a record to decide by. It is not changed, and may lack what describes the
	// event: its key, its names and its payload.
	State(R) *Record
	// Show returns a copy of a record, without its body, for a decision with the verdict.
	Show(R, Verdict) (Record, error)

	// Admit returns why a claim, as it is decided, cannot be accepted at the moment.
	Admit(*Claim) error
	// Accept keeps the record of a claim in place of old, the record of its key, or resumes that.
	// It returns the decision New.
	Accept(c *Claim, old R) (Decision, error)
	// Change changes a record, and returns it.
	Change(R, func(*Record)) R
}

// Step decides claims, one after another. The zero value is ready.
type Step[R comparable] struct {
	StepSource[R]
	none    R
	now     time.Time
	claim   Claim       // with the key and the names of the event that it is about
	content Key         // what its trace names
	number  int         // of a further occurrence
	counts  string      // the event of the first occurrence, which counts it
	slots   *Occurrence // whose slots bound the claim
}

// Claim decides a claim: it finds the event that the claim is about, asks its record, the records
// that have its aliases and the traces, and accepts what is new. names are [Claim.Names].
func (s *Step[R]) Claim(in StepSource[R], c *Claim, names []Key, now time.Time) (Decision, error) {
	*s = Step[R]{StepSource: in, now: now, claim: *c}
	if d, err := s.resolve(names); err != nil || d.Verdict != 0 {
		return d, err
	}
	old, err := s.Key(s.claim.Key)
	if err != nil {
		return Decision{}, err
	}
	if d, err := s.known(old); err != nil || d.Verdict != New {
		return d, err
	}
	if err := s.Admit(&s.claim); err != nil || s.claim.OnlyKnown {
		return Decision{Verdict: New}, err
	}
	if s.claim.Quarantine != nil {
		if d, err := s.quarantine(); err != nil || d.Verdict != 0 {
			return d, err
		}
		if old, err = s.Key(s.claim.Key); err != nil { // it may be the original
			return Decision{}, err
		}
	}
	return s.accept(old)
}

// byKey returns the live record of a key, byAlias the one that has an alias. Without one they
// return the zero Record.
func (s *Step[R]) byKey(k Key) (Record, error)   { return s.live(s.Key(k)) }
func (s *Step[R]) byAlias(k Key) (Record, error) { return s.live(s.Alias(k)) }

func (s *Step[R]) live(found R, err error) (Record, error) {
	if err != nil || found == s.none {
		return Record{}, err
	}
	r, err := s.Show(found, Aliased)
	if err != nil || !r.live(s.now) {
		return Record{}, err
	}
	return r, nil
}

// state returns the state of a record, the zero Record without one.
func (s *Step[R]) state(r R) Record {
	if r == s.none {
		return Record{}
	}
	return *s.State(r)
}

// about returns a decision about a record.
func (s *Step[R]) about(v Verdict, r R) (Decision, error) {
	rec, err := s.Show(r, v)
	return Decision{Verdict: v, Record: rec}, err
}

// known decides by what is known: the record of the key, those of the aliases, and the traces.
func (s *Step[R]) known(old R) (Decision, error) {
	c, state := &s.claim, s.state(old)
	if v := Decide(state, *c, s.now); v != New {
		return s.about(v, old)
	}
	for _, name := range c.Aliases {
		if name.Space == SpaceSent {
			continue
		}
		other, err := s.byAlias(name)
		if err != nil || other.Event != "" && other.Key != c.Key {
			return Decision{Verdict: Aliased, Record: other, Alias: name}, err
		}
	}
	v, err := s.recall(state)
	if err != nil || v == New || old == s.none || state.Disposable(s.now) {
		return Decision{Verdict: v}, err
	}
	return s.about(v, old)
}

// quarantine counts a delivery for its original. If that has enough of them, it is Known.
func (s *Step[R]) quarantine() (Decision, error) {
	q := s.claim.Quarantine
	original, err := s.Event(q.Of)
	if err != nil || original == s.none {
		return Decision{}, err
	}
	full := q.Max > 0 && s.State(original).QuarantineCount >= q.Max
	original = s.Change(original, func(r *Record) { r.QuarantineCount++ })
	if !full {
		return Decision{}, nil
	}
	return s.about(Known, original)
}

// accept accepts the claim, and changes what depends on it: the traces of its names, the record
// before it in its series, and the number of occurrences of a first one.
func (s *Step[R]) accept(old R) (Decision, error) {
	c, before := &s.claim, s.state(old)
	var series R
	var err error
	if c.Series != (Key{}) {
		if series, err = s.Alias(c.Series); err != nil {
			return Decision{}, err
		}
	}
	newest := s.state(series).Event
	d, err := s.Accept(c, old)
	if err != nil {
		return d, err
	}
	if d.Record.Event != before.Event {
		if err := s.remember(before); err != nil {
			return d, err
		}
	}
	if newest != d.Record.Event {
		if err := s.change(newest, (*Record).supersede); err != nil {
			return d, err
		}
	}
	if s.number > 0 {
		err = s.change(s.counts, func(r *Record) { r.Occurrences = s.number })
	}
	return d, err
}

// change changes the record of an event, if there is one.
func (s *Step[R]) change(event string, f func(*Record)) error {
	if event == "" {
		return nil
	}
	r, err := s.Event(event)
	if err == nil && r != s.none {
		s.Change(r, f)
	}
	return err
}
