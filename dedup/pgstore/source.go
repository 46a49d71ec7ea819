package pgstore

import (
	"slices"

	"github.com/eyelet-dev/eyelet/dedup"
)

// source is a view as the decision of claims sees it. Later claims see the effects of earlier ones.
type source struct {
	*view
	step dedup.Step[*row]
	// seqs and tokens are numbers that were never used.
	seqs, tokens []int64
	accepted     int
}

var _ dedup.StepSource[*row] = (*source)(nil)

// claim decides one claim. Without locks it returns errWrites for one that needs them.
func (s *source) claim(c *dedup.Claim) (dedup.Decision, error) {
	d, err := s.step.Claim(s, c, c.Names(), s.now)
	if err == nil && d.Verdict == dedup.Seen && !s.locks {
		err = errWrites // the trace may be that of a record which was forgotten since
	}
	return d, err
}

func (s *source) Key(k dedup.Key) (*row, error)    { return s.key(k) }
func (s *source) Alias(k dedup.Key) (*row, error)  { return s.alias(k) }
func (s *source) Event(event string) (*row, error) { return s.event(event) }
func (s *source) State(w *row) *dedup.Record       { return &w.rec }
func (s *source) Trace(k dedup.Key) (dedup.Trace, error) {
	t, err := s.trace(k)
	if err != nil {
		return dedup.Trace{}, err
	}
	return t.Trace, nil
}

func (s *source) SetTrace(k dedup.Key, trace dedup.Trace) error {
	t, err := s.trace(k)
	if err == nil {
		t.Trace, t.changed = trace, true
	}
	return err
}

func (s *source) FirstDay() (first dedup.Day, remembers bool, err error) {
	retention := s.db.remember
	if retention.Off() {
		return 0, false, nil
	}
	if len(s.traces) == 0 { // the first day is read with the traces
		err = s.load(&wanted{traces: [][]byte{make([]byte, len(traceHash{}))}})
	}
	return retention.First(s.since, s.evicted, s.now), true, err
}

func (s *source) Show(w *row, v dedup.Verdict) (dedup.Record, error) {
	about := w.rec
	if about.Payload.Body = nil; v == dedup.Known {
		about.Aliases, about.Payload = nil, dedup.Payload{}
	}
	return about.Clone(), nil
}

func (s *source) Admit(c *dedup.Claim) error {
	if !c.OnlyKnown && !s.locks {
		return errWrites
	}
	return nil
}

func (s *source) Change(w *row, change func(*dedup.Record)) *row {
	change(&w.rec)
	return w
}

// Accept stores the record of a claim.
func (s *source) Accept(c *dedup.Claim, w *row) (dedup.Decision, error) {
	var old dedup.Record
	if w != nil {
		old = w.rec
	}
	before, hash := old, c.Key.Hash()
	if w == nil {
		before.Generation = s.older[hash]
	}
	seq, token := s.seqs[0], s.tokens[0]
	s.seqs, s.tokens = s.seqs[1:], s.tokens[1:]
	rec := dedup.Accept(before, *c, eventID(seq, hash[:]), uint64(seq), uint64(token), s.now)
	if rec.Event == old.Event {
		if uint64(token) <= old.Tasks[0].Token { // w was locked after the numbers were taken
			return dedup.Decision{}, errConflict
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
	}
	for _, name := range rec.Aliases {
		if _, err := s.alias(name); err != nil { // whether it is stored decides how it is saved
			return dedup.Decision{}, err
		}
		s.byAlias[name.Hash()] = w
	}
	d := dedup.Decision{Verdict: dedup.New}
	if rec.Hold {
		d.Lease = dedup.Lease{Event: rec.Event, Token: uint64(token), Until: rec.Tasks[0].Until}
	}
	var err error
	d.Record, err = s.Show(w, d.Verdict)
	return d, err
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
			for _, also := range c.Remember.Also {
				w.trace(also.Key)
			}
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
