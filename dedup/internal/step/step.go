// Package step decides claims. All stores decide by it, each over its own [Source].
package step

import (
	"time"

	"github.com/eyelet-dev/eyelet/dedup"
)

// Source is a store within one durable step: its records as the operations before have left them.
// A failed operation is undone by the store. R is a record in hand, and its zero value is none.
type Source[R comparable] interface {
	// Key returns the record that decides for a key, Alias the one that has an alias, and Event the
	// one of an event, unless it may be forgotten.
	Key(dedup.Key) (R, error)
	Alias(dedup.Key) (R, error)
	Event(string) (R, error)
	// Trace returns the trace of a key. SetTrace replaces it.
	Trace(dedup.Key) (dedup.Trace, error)
	SetTrace(dedup.Key, dedup.Trace) error
	// FirstDay returns the first day that is remembered, and whether any is.
	FirstDay() (first dedup.Day, remembers bool, err error)

	// State returns a record to decide by. It is not changed, and may lack what describes the
	// event: its key, its names and its payload.
	State(R) *dedup.Record
	// Show returns a copy of a record, without its body, for a decision with the verdict.
	Show(R, dedup.Verdict) (dedup.Record, error)

	// Admit returns why a claim, as it is decided, cannot be accepted at the moment.
	Admit(*dedup.Claim) error
	// Accept keeps the record of a claim in place of old, the record of its key, or resumes that.
	// It returns the decision New.
	Accept(c *dedup.Claim, old R) (dedup.Decision, error)
	// Change changes a record, and returns it.
	Change(R, func(*dedup.Record)) R
}

// Step decides claims, one after another. The zero value is ready.
type Step[R comparable] struct {
	Source[R]
	none  R
	claim dedup.Claim // as it is decided
	now   time.Time
	find  dedup.Lookup
}

// Claim decides a claim: it finds the event that the claim is about, asks its record, the records
// that have its aliases and the traces, and accepts what is new. names are those of the claim (see
// [dedup.Claim.Names]); nil computes them.
func (s *Step[R]) Claim(in Source[R], c *dedup.Claim, names []dedup.Key, now time.Time) (dedup.Decision, error) {
	s.Source, s.now, s.find.Names = in, now, names
	if s.find.Key == nil {
		s.find.Key = func(k dedup.Key) (dedup.Record, error) { return s.shown(s.Key(k)) }
		s.find.Alias = func(k dedup.Key) (dedup.Record, error) { return s.shown(s.Alias(k)) }
	}
	found, err := dedup.Resolve(*c, s.find, now)
	if err != nil || found.Verdict != 0 {
		return dedup.Decision{Verdict: found.Verdict, Record: found.Of, Alias: found.Alias}, err
	}
	s.claim = found.Claim
	old, err := s.Key(s.claim.Key)
	if err != nil {
		return dedup.Decision{}, err
	}
	if d, err := s.known(old); err != nil || d.Verdict != dedup.New {
		return d, err
	}
	if err := s.Admit(&s.claim); err != nil || s.claim.OnlyKnown {
		return dedup.Decision{Verdict: dedup.New}, err
	}
	if s.claim.Quarantine != nil {
		if d, err := s.quarantine(); err != nil || d.Verdict != 0 {
			return d, err
		}
		if old, err = s.Key(s.claim.Key); err != nil { // it may be the original
			return dedup.Decision{}, err
		}
	}
	return s.accept(old, found.Of.Event, found.Number)
}

// shown returns the whole of a record that was looked up, without its body.
func (s *Step[R]) shown(r R, err error) (dedup.Record, error) {
	if err != nil || r == s.none {
		return dedup.Record{}, err
	}
	return s.Show(r, dedup.Aliased)
}

// state returns the state of a record, the zero Record without one.
func (s *Step[R]) state(r R) dedup.Record {
	if r == s.none {
		return dedup.Record{}
	}
	return *s.State(r)
}

// about returns a decision about a record.
func (s *Step[R]) about(v dedup.Verdict, r R) (dedup.Decision, error) {
	rec, err := s.Show(r, v)
	return dedup.Decision{Verdict: v, Record: rec}, err
}

// known decides by what is known: the record of the key, those of the aliases, and the traces.
func (s *Step[R]) known(old R) (dedup.Decision, error) {
	c, state := &s.claim, s.state(old)
	if v := dedup.Decide(state, *c, s.now); v != dedup.New {
		return s.about(v, old)
	}
	for _, name := range c.Aliases {
		other, err := s.find.Alias(name)
		if err != nil || dedup.AliasTaken(other, name, *c, s.now) {
			return dedup.Decision{Verdict: dedup.Aliased, Record: other, Alias: name}, err
		}
	}
	v, err := s.recall(state)
	if err != nil || v == dedup.New || old == s.none || state.Disposable(s.now) {
		return dedup.Decision{Verdict: v}, err
	}
	return s.about(v, old)
}

// recall decides by the traces of the claim's names.
func (s *Step[R]) recall(old dedup.Record) (dedup.Verdict, error) {
	if s.claim.Remember == nil {
		return dedup.New, nil
	}
	first, remembers, err := s.FirstDay()
	if err != nil || !remembers {
		return dedup.New, err
	}
	found := func(k dedup.Key) dedup.Trace {
		t, failed := s.Trace(k)
		if failed != nil {
			err = failed
		}
		return t
	}
	v := dedup.Recall(old, s.claim, found, first, s.now)
	return v, err
}

// quarantine counts a delivery for its original. If that has enough of them, it is Known.
func (s *Step[R]) quarantine() (dedup.Decision, error) {
	q := s.claim.Quarantine
	original, err := s.Event(q.Of)
	if err != nil || original == s.none {
		return dedup.Decision{}, err
	}
	full := q.Full(*s.State(original))
	original = s.Change(original, func(r *dedup.Record) { r.QuarantineCount++ })
	if !full {
		return dedup.Decision{}, nil
	}
	return s.about(dedup.Known, original)
}

// accept accepts the claim, and changes what depends on it: the traces of its names, the record
// before it in its series, and the number of occurrences of a first one.
func (s *Step[R]) accept(old R, first string, number int) (dedup.Decision, error) {
	c, before := &s.claim, s.state(old)
	var series R
	var err error
	if c.Series != (dedup.Key{}) {
		if series, err = s.Alias(c.Series); err != nil {
			return dedup.Decision{}, err
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
		if err := s.change(newest, (*dedup.Record).Supersede); err != nil {
			return d, err
		}
	}
	if number > 0 {
		err = s.change(first, func(r *dedup.Record) { r.Occurrences = number })
	}
	return d, err
}

// change changes the record of an event, if there is one.
func (s *Step[R]) change(event string, f func(*dedup.Record)) error {
	if event == "" {
		return nil
	}
	r, err := s.Event(event)
	if err == nil && r != s.none {
		s.Change(r, f)
	}
	return err
}

// remember adds the traces of the claim; old is the record that its key had before.
func (s *Step[R]) remember(old dedup.Record) error {
	if s.claim.Remember == nil {
		return nil
	}
	first, remembers, err := s.FirstDay()
	if err != nil || !remembers {
		return err
	}
	for _, of := range s.claim.Traces() {
		t, err := s.Trace(of.Key)
		if err == nil {
			err = s.SetTrace(of.Key, of.Recalled(old, t).Again(dedup.DayOf(s.now), first))
		}
		if err != nil {
			return err
		}
	}
	return nil
}
