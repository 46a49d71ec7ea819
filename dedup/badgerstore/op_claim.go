package badgerstore

import (
	"errors"
	"fmt"
	"slices"

	"github.com/eyelet-dev/eyelet/dedup"
	"github.com/eyelet-dev/eyelet/dedup/badgerstore/internal/record"
)

type claimOp struct {
	ticket
	claims    []prepared
	decisions []dedup.Decision
	one       struct { // memory for the only claim
		claim    [1]prepared
		decision [1]dedup.Decision
	}
}

// prepare hashes and encodes the claims; first is the hash of the first key. It runs in the
// goroutine of the caller.
func prepare(claims []dedup.Claim, first record.Hash) (*claimOp, error) {
	o := &claimOp{ticket: newTicket(true)}
	o.claim, o.bytes = true, 0
	if o.claims, o.decisions = o.one.claim[:], o.one.decision[:]; len(claims) > 1 {
		o.claims, o.decisions = make([]prepared, len(claims)), make([]dedup.Decision, len(claims))
	}
	for i := range claims {
		p := &o.claims[i]
		if p.claim, p.hash = claims[i], first; i > 0 {
			p.hash = record.HashOf(claims[i].Key)
		}
		p.setNames()
		p.encode()
		o.bytes += p.event.EncodedSize() + p.body.Len() + claimStateSize(&p.claim) + 256
	}
	most := queueBytes
	if len(claims) == 1 {
		most = claimBytes
	}
	if o.bytes > most {
		return nil, fmt.Errorf("%w: %d bytes, at most %d", dedup.ErrTooLarge, o.bytes, most)
	}
	o.bytes = min(o.bytes, largeBytes) // others still find room in the queue
	return o, nil
}

// claimStateSize returns the bytes that a claim adds to a state.
func claimStateSize(c *dedup.Claim) int { return answerSize(c.Response) + len(c.Note) }

// damagedClaim reports which of several claims met a damaged record.
type damagedClaim struct {
	*DamagedError
	at int
}

func (e *damagedClaim) Unwrap() error { return e.DamagedError }

func (o *claimOp) apply(b *batch) error {
	for i := range o.claims {
		d, err := b.claim(&o.claims[i])
		if err != nil {
			if damage, ok := errors.AsType[*DamagedError](err); ok {
				return &damagedClaim{damage, i}
			}
			return err
		}
		o.decisions[i] = d
	}
	return nil
}

func (b *batch) claim(p *prepared) (dedup.Decision, error) {
	s := &b.c.claiming
	*s = claiming{batch: b, p: p}
	return b.c.step.Claim(s, &p.claim, p.names, b.now)
}

// claiming is a batch as the decision of a claim sees it.
type claiming struct {
	*batch
	p       *prepared
	decided *prepared // the claim as it is decided
	state   dedup.Record
}

var _ dedup.StepSource[*row] = (*claiming)(nil)

func (s *claiming) Key(k dedup.Key) (*row, error) { return s.at(record.Place{Hash: s.p.hashOf(k)}) }

func (s *claiming) Alias(k dedup.Key) (*row, error) {
	h := s.p.hashOf(k)
	if s.p.name != 0 && h.Name() == s.p.name {
		if first, err := s.at(record.Place{Hash: s.p.hash}); err != nil || first != nil && first.name == s.p.name {
			return first, err
		}
	}
	return s.aliased(h)
}

func (s *claiming) Event(id string) (*row, error) {
	r, err := s.event(id)
	if r != nil && r.rec.Disposable(s.now) {
		return nil, err
	}
	return r, err
}

func (s *claiming) Trace(k dedup.Key) (dedup.Trace, error) {
	return s.trace(s.p.hashOf(k).TraceID()), nil
}

func (s *claiming) SetTrace(k dedup.Key, t dedup.Trace) error {
	s.putTrace(s.p.hashOf(k).TraceID(), t)
	return nil
}

func (s *claiming) FirstDay() (first dedup.Day, remembers bool, err error) {
	return s.firstDay(), !s.c.options.Remember.Off(), nil
}

func (s *claiming) State(r *row) *dedup.Record {
	s.state = s.c.grace.spared(r.rec, s.now)
	return &s.state
}

func (s *claiming) Show(r *row, _ dedup.Verdict) (dedup.Record, error) { return r.record() }

func (s *claiming) Change(r *row, change func(*dedup.Record)) *row {
	next := r.edit()
	change(&next.rec)
	s.put(next)
	return next
}

// Admit returns why the store accepts no new events at the moment, nil if it does.
func (s *claiming) Admit(c *dedup.Claim) error {
	s.decided = s.p.resolved(c)
	disk := s.disk.with(2 * int64(s.p.body.Len())) // in the log and in a value file
	switch {
	case c.OnlyKnown:
		return nil
	case disk.low():
		return disk.err()
	}
	if err := s.c.corrupt.err(); err != nil { // the records of a damaged table seem never to have existed
		return err
	}
	if waits(c) {
		return s.c.backlog.admit(&s.waiting, &s.waitingBytes, s.decided.event.Size)
	}
	return nil
}

// Accept stages the record of a new claim, or resumes a held one that is free. The previous record
// of the key becomes an older generation if it is still needed, and is deleted otherwise.
func (s *claiming) Accept(c *dedup.Claim, old *row) (dedup.Decision, error) {
	b, p := s.batch, s.decided
	next := &row{place: record.Place{Hash: p.hash}, event: p.event, name: p.name, fresh: true, dirty: true}
	var before dedup.Record
	if old != nil {
		described, err := old.record()
		if err != nil {
			return dedup.Decision{}, err
		}
		if dedup.Continues(described, *c, b.now) {
			return b.resume(p, old, described)
		}
		before, next.before = described, old.before
	} else if gone := b.rows[next.place]; gone != nil { // deleted in this batch, but still in the database
		next.before = gone.before
	}
	rec := dedup.Accept(before, p.settled(), record.EventID(p.hash, b.seq+1), b.seq+1, b.token+1, b.now)
	if old != nil {
		b.retire(old, next, before.Aliases)
	}
	b.seq++
	b.accepted++
	rec.Generation = max(rec.Generation, b.lastGeneration(p.hash)+1) // the newest one may have been purged
	d := dedup.Decision{Verdict: dedup.New}
	if rec.Hold {
		d.Lease = b.lease(&rec)
	}
	b.window = max(b.window, rec.Window)
	b.putAliases(p, &rec, p.name)
	next.rec, p.tasks = withoutDescription(rec), rec.Tasks
	next.rec.Tasks = append(next.task[:0], rec.Tasks...)
	if c.GivesPayload && !c.Hold && p.body.Len() == 0 {
		next.given = p
	}
	b.put(next)
	b.putBody(p, rec.Seq)
	if p != s.p { // the caller knows another claim
		var err error
		d.Record, err = next.record()
		return d, err
	}
	d.Record = next.rec
	d.Record.Tasks = append(p.task[:0], rec.Tasks...) // which have no history yet
	return d, nil
}

// lease returns the lease of the record's only task, which was just started with the next token.
func (b *batch) lease(rec *dedup.Record) dedup.Lease {
	b.token++
	b.c.grace.observe(rec.Tasks[0].Until.Sub(b.now))
	return dedup.Lease{Event: rec.Event, Token: b.token, Until: rec.Tasks[0].Until}
}

// putAliases puts the aliases of a record, without the name that its row has.
func (b *batch) putAliases(p *prepared, rec *dedup.Record, name record.Name) {
	owner := record.Alias{Hash: p.hash, Seq: rec.Seq}
	for _, k := range rec.Aliases {
		if h := p.hashOf(k); h.Name() != name && !b.owns(owner, h) {
			b.putAlias(h, owner)
		}
	}
}

// dropAliases deletes the aliases of an event, except those that another event has taken over.
func (b *batch) dropAliases(owner record.Alias, aliases []dedup.Key) {
	for _, k := range aliases {
		if h := record.HashOf(k); b.owns(owner, h) {
			b.dropAlias(h)
		}
	}
}

// owns reports whether an alias belongs to an event.
func (b *batch) owns(owner record.Alias, h record.Hash) bool {
	a, err := b.alias(h)
	return err == nil && a.exists && a.Alias == owner
}

// resume gives a free held claim to its next claimer. It only adds aliases, unless the data was
// damaged: then the new claim, which has the same fingerprint, replaces it.
func (b *batch) resume(p *prepared, old *row, before dedup.Record) (dedup.Decision, error) {
	rec := dedup.Accept(before, p.claim, "", 0, b.token+1, b.now)
	d := dedup.Decision{Verdict: dedup.New, Lease: b.lease(&rec)}
	next := old.edit()
	next.rec = withoutDescription(rec)
	changed := !slices.Equal(before.Aliases, rec.Aliases)
	switch {
	case old.event.Kind == record.BodyLost:
		whole := p.claim
		whole.Aliases, whole.Series, whole.Occurrence = rec.Aliases, dedup.Key{}, nil
		next.event, next.fresh = record.NewEvent(&whole, p.event.Kind), true
		next.rec.Payload.Endpoint = whole.Payload.Endpoint
		b.putBody(p, rec.Seq)
	case changed:
		next.event, next.fresh = old.event.WithAliases(&rec), true
	}
	kept := func(k dedup.Key) bool { return slices.Contains(rec.Aliases, k) }
	b.dropAliases(record.Alias{Hash: p.hash, Seq: rec.Seq}, slices.DeleteFunc(slices.Clone(before.Aliases), kept))
	b.putAliases(p, &rec, old.name) // also those that another event took over
	b.put(next)
	var err error
	d.Record, err = next.record()
	return d, err
}

// retire makes the current record of a key an older generation with an entry for each of its
// aliases, or deletes it.
func (b *batch) retire(old, next *row, aliases []dedup.Key) {
	if old.rec.Disposable(b.now) {
		b.discard(old, aliases)
		return
	}
	older := old.edit()
	older.place.Older = old.rec.Seq
	older.fresh, older.name = true, 0
	b.put(older)
	b.retired = append(b.retired, older)
	if old.name != 0 {
		for _, a := range aliases {
			if h := record.HashOf(a); h.Name() == old.name {
				b.putAlias(h, record.Alias{Hash: older.place.Hash, Seq: old.rec.Seq})
			}
		}
	}
	next.before = tally{}
}
