package pgstore

import (
	"slices"

	"github.com/eyelet-dev/eyelet/dedup"
)

// step decides claims one after another on a view. Later claims see the effects of earlier ones.
type step struct {
	*view
	// seqs and tokens are numbers that were never used.
	seqs, tokens []int64
	accepted     int64
}

// claim decides one claim. Without locks it returns errWrites for one that needs them.
func (s *step) claim(c dedup.Claim) (dedup.Decision, error) {
	found, err := dedup.Resolve(c, dedup.Lookup{Key: s.lookup(s.key), Alias: s.lookup(s.alias)}, s.now)
	if err != nil {
		return dedup.Decision{}, err
	}
	if found.Verdict != 0 {
		return dedup.Decision{Verdict: found.Verdict, Record: shown(&found.Of), Alias: found.Alias}, nil
	}
	c = found.Claim
	w, err := s.key(c.Key)
	if err != nil {
		return dedup.Decision{}, err
	}
	old := recordOf(w)
	if v := dedup.Decide(old, c, s.now); v != dedup.New {
		return decided(v, &old), nil
	}
	for _, name := range c.Aliases {
		owner, err := s.alias(name)
		if err != nil {
			return dedup.Decision{}, err
		}
		if other := recordOf(owner); dedup.AliasTaken(other, name, c, s.now) {
			return dedup.Decision{Verdict: dedup.Aliased, Record: shown(&other), Alias: name}, nil
		}
	}
	if v, err := s.recall(old, c); err != nil || v != dedup.New {
		d := dedup.Decision{Verdict: v}
		if old.Event != "" && !old.Disposable(s.now) {
			d.Record = shown(&old)
		}
		return d, err
	}
	switch {
	case c.OnlyKnown:
		return dedup.Decision{Verdict: dedup.New}, nil
	case !s.locks:
		return dedup.Decision{}, errWrites
	case c.Quarantine != nil:
		return s.quarantine(w, c)
	}
	r, d, err := s.accept(w, c)
	if err != nil {
		return d, err
	}
	return s.noteOccurrence(r, d, &found)
}

// lookup adapts a method of the view to the lookups of package dedup.
func (s *step) lookup(find func(dedup.Key) (*row, error)) func(dedup.Key) (dedup.Record, error) {
	return func(k dedup.Key) (dedup.Record, error) {
		w, err := find(k)
		return recordOf(w), err
	}
}

func recordOf(w *row) dedup.Record {
	if w == nil {
		return dedup.Record{}
	}
	return w.rec
}

// shown returns a copy of the record without its body.
func shown(r *dedup.Record) dedup.Record {
	about := *r
	about.Payload.Body = nil
	return about.Clone()
}

// decided returns a decision that is not New, about a record.
func decided(v dedup.Verdict, r *dedup.Record) dedup.Decision {
	about := *r
	if v == dedup.Known {
		about.Aliases, about.Payload = nil, dedup.Payload{}
	}
	return dedup.Decision{Verdict: v, Record: shown(&about)}
}

func (s *step) recall(old dedup.Record, c dedup.Claim) (dedup.Verdict, error) {
	retention := s.db.remember
	if c.Remember == nil || retention.Off() {
		return dedup.New, nil
	}
	var failed error
	found := func(k dedup.Key) dedup.Trace {
		t, err := s.trace(k)
		if err != nil {
			failed = err
			return dedup.Trace{}
		}
		return t.Trace
	}
	found(c.Key) // reads the first day too
	v := dedup.Recall(old, c, found, retention.First(s.since, s.evicted, s.now), s.now)
	if v == dedup.Seen && !s.locks && failed == nil {
		failed = errWrites // the trace may be that of a record which was forgotten since
	}
	return v, failed
}

// remember adds the traces of an accepted claim. old is the record that its key had before.
func (s *step) remember(old dedup.Record, c dedup.Claim) error {
	if s.db.remember.Off() {
		return nil
	}
	first := s.db.remember.First(s.since, s.evicted, s.now)
	for _, of := range c.Traces() {
		t, err := s.trace(of.Key)
		if err != nil {
			return err
		}
		t.Trace, t.changed = of.Recalled(old, t.Trace).Again(dedup.DayOf(s.now), first), true
	}
	return nil
}

// quarantine keeps or counts a delivery that does not run.
func (s *step) quarantine(w *row, c dedup.Claim) (dedup.Decision, error) {
	original, err := s.event(c.Quarantine.Of)
	if err != nil {
		return dedup.Decision{}, err
	}
	if original != nil {
		full := c.Quarantine.Full(original.rec)
		original.rec.QuarantineCount++
		if full {
			return decided(dedup.Known, &original.rec), nil
		}
	}
	_, d, err := s.accept(w, c)
	return d, err
}

// accept stores the record of a claim. w has the record of its key, if there is one.
func (s *step) accept(w *row, c dedup.Claim) (*row, dedup.Decision, error) {
	old, hash := recordOf(w), c.Key.Hash()
	before := old
	if w == nil {
		before.Generation = s.older[hash]
	}
	seq, token := s.seqs[0], s.tokens[0]
	s.seqs, s.tokens = s.seqs[1:], s.tokens[1:]
	rec := dedup.Accept(before, c, eventID(seq, hash[:]), uint64(seq), uint64(token), s.now)
	if rec.Event == old.Event {
		if uint64(token) <= old.Tasks[0].Token { // w was locked after the numbers were taken
			return nil, dedup.Decision{}, errConflict
		}
		w.rec = rec
	} else {
		if w != nil {
			w.current = false
			s.older[hash] = old.Generation
		}
		w = &row{rec: rec, seq: seq, hash: hash[:], current: true, size: len(c.Payload.Body), fresh: true}
		s.byKey[hash], s.bySeq[seq] = w, w
		s.accepted++
		if err := s.remember(old, c); err != nil {
			return nil, dedup.Decision{}, err
		}
	}
	if err := s.supersede(c, w); err != nil {
		return nil, dedup.Decision{}, err
	}
	for _, name := range rec.Aliases {
		if _, err := s.alias(name); err != nil { // whether it is stored decides how it is saved
			return nil, dedup.Decision{}, err
		}
		s.byAlias[name.Hash()] = w
	}
	d := dedup.Decision{Verdict: dedup.New, Record: shown(&rec)}
	if rec.Hold {
		d.Lease = dedup.Lease{Event: rec.Event, Token: uint64(token), Until: rec.Tasks[0].Until}
	}
	return w, d, nil
}

// supersede marks the record that had the series of the claim as an older one.
func (s *step) supersede(c dedup.Claim, by *row) error {
	if c.Series == (dedup.Key{}) {
		return nil
	}
	before, err := s.alias(c.Series)
	if before != nil && before != by {
		before.rec.Supersede()
	}
	return err
}

// noteOccurrence updates other records after an accepted claim: the count of occurrences, and
// the note about a reused identifier.
func (s *step) noteOccurrence(w *row, d dedup.Decision, found *dedup.Resolution) (dedup.Decision, error) {
	if found.Number > 0 {
		s.bySeq[int64(found.Of.Seq)].rec.Occurrences = found.Number
	}
	if found.Reused.Event != "" {
		older := s.bySeq[int64(found.Reused.Seq)]
		dedup.NoteReuse(&w.rec, &older.rec)
		d.Record.Note, d.Reused = w.rec.Note, older.rec.Event
	}
	return d, nil
}

// foresee returns the names that the claims will ask for.
func foresee(items []*item) *wanted {
	w := &wanted{}
	for _, it := range items {
		c := it.claim
		w.key(c.Key)
		for _, name := range c.Names() {
			w.alias(name)
		}
		if o := c.Occurrence; o != nil {
			for n := 2; n <= min(o.Max, 4); n++ {
				w.key(c.Key.Occurrence(n))
			}
			for _, slot := range o.Slots {
				w.alias(slot)
			}
		}
		if f := c.Former; f != nil {
			for _, name := range slices.Concat(f.Names, f.Contents) {
				if name.Space == "" {
					w.key(name)
				} else {
					w.alias(name)
				}
			}
		}
		if c.Remember != nil {
			w.trace(c.Key)
			if o := c.Occurrence; o != nil && len(o.Slots) > 0 {
				w.trace(o.Slots[0])
			}
		}
		if c.Quarantine != nil {
			if seq := seqOf(c.Quarantine.Of); seq != 0 {
				w.seqs = append(w.seqs, seq)
			}
		}
	}
	return w
}
