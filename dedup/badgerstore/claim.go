package badgerstore

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/eyelet-dev/eyelet/dedup"
)

// prepared is a claim with everything done that needs no decision.
type prepared struct {
	claim dedup.Claim
	hash  hash
	fix   fixed
	// absent says that the body is large and has not been stored: the claim may ask, but not be accepted.
	absent bool
}

// claimOp decides claims, and stores the new ones.
type claimOp struct {
	ticket
	claims    []prepared
	decisions []dedup.Decision
}

// errAbsent says that a claim turned out to be new whose large body has not been stored.
var errAbsent = errors.New("body is not stored yet")

// Claim implements [dedup.Store]. Bodies of more than 512 KiB are stored in pieces before the record that makes
// them visible.
func (s *Store) Claim(ctx context.Context, claims ...dedup.Claim) ([]dedup.Decision, error) {
	if err := s.usable(); err != nil {
		return nil, err
	}
	for i := range claims {
		if err := claims[i].Check(); err != nil {
			return nil, fmt.Errorf("claim %d: %w", i, err)
		}
	}
	if len(claims) == 0 {
		return nil, nil
	}
	o, err := prepare(claims)
	if err != nil {
		return nil, err
	}
	for i := range o.claims {
		if o.claims[i].absent {
			return s.claimLarge(ctx, claims)
		}
	}
	if err := s.do(ctx, o); err != nil {
		return nil, err
	}
	return o.answer(), nil
}

// answer completes the records of new events with what their claims say; the committer left that to the
// claimer.
func (o *claimOp) answer() []dedup.Decision {
	for i := range o.decisions {
		d, c := &o.decisions[i], &o.claims[i].claim
		if d.Verdict != dedup.New || c.OnlyKnown || d.Record.Key != (dedup.Key{}) {
			continue
		}
		d.Record.Key, d.Record.Aliases, d.Record.Payload = c.Key, c.Names(), c.Payload
		d.Record.Payload.Body = nil
	}
	return o.decisions
}

// prepare hashes and encodes the claims, in the caller's goroutine.
func prepare(claims []dedup.Claim) (*claimOp, error) {
	o := &claimOp{
		ticket:    ticket{eager: true, claim: true, done: make(chan struct{}, 1)},
		claims:    make([]prepared, len(claims)),
		decisions: make([]dedup.Decision, len(claims)),
	}
	if len(claims) > batchOps {
		return nil, fmt.Errorf("%w: %d claims, at most %d", dedup.ErrTooLarge, len(claims), batchOps)
	}
	for i := range claims {
		p := &o.claims[i]
		p.claim, p.hash = claims[i], hashOf(claims[i].Key)
		o.bytes += p.encode(0)
		if n := answerSize(p.claim.Answer) + len(p.claim.Note); n > stateMost {
			return nil, fmt.Errorf("%w: an answer and a note of %d bytes, at most %d", dedup.ErrTooLarge, n, stateMost)
		}
	}
	if o.bytes > batchBytes {
		return nil, fmt.Errorf("%w: %d bytes, at most %d", dedup.ErrTooLarge, o.bytes, batchBytes)
	}
	return o, nil
}

// encode writes the fixed part and returns its size. number is that of the large body's pieces; without one a
// large body is absent.
func (p *prepared) encode(number uint64) int {
	kind := byte(bodyInline)
	if len(p.claim.Payload.Body) > chunkSize {
		kind = bodyChunks
		p.absent = number == 0 && !p.claim.OnlyKnown
	}
	p.fix = encodeFixed(&p.claim, kind, number)
	return len(p.fix.raw) + 256
}

// apply implements op.
func (o *claimOp) apply(b *batch) error {
	for i := range o.claims {
		d, err := b.claim(&o.claims[i])
		if err != nil {
			return err
		}
		o.decisions[i] = d
	}
	return nil
}

// refused deletes the pieces of large bodies of claims that failed: their caller may have left.
func (o *claimOp) refused(b *batch) {
	for i := range o.claims {
		if !b.disk.frozen() {
			b.unused(&o.claims[i])
		}
	}
}

// claim decides one claim.
func (b *batch) claim(p *prepared) (dedup.Decision, error) {
	old, err := b.at(place{hash: p.hash})
	if err != nil {
		return dedup.Decision{}, err
	}
	var rec dedup.Record
	if old != nil {
		rec = old.rec
	}
	if v := dedup.Decide(rec, p.claim, b.now); v != dedup.New {
		rec, err := old.record()
		b.unused(p)
		return dedup.Decision{Verdict: v, Record: rec}, err
	}
	if other, alias, err := b.taken(&p.claim); err != nil || other != nil {
		if err != nil {
			return dedup.Decision{}, err
		}
		b.unused(p)
		return dedup.Decision{Verdict: dedup.Aliased, Record: *other, Alias: alias}, nil
	}
	if p.claim.OnlyKnown {
		return dedup.Decision{Verdict: dedup.New}, nil
	}
	if b.disk.low() {
		return dedup.Decision{}, b.disk.err()
	}
	if u := b.s.unsound.Load(); u != nil { // what a damaged table had looks as if it had never been
		return dedup.Decision{}, u
	}
	if waits(&p.claim) {
		if err := b.s.backlog.admit(b, p.fix.size); err != nil {
			return dedup.Decision{}, err
		}
	}
	if p.claim.Aside != nil {
		if d, full, err := b.count(p.claim.Aside); full || err != nil {
			b.unused(p)
			return d, err
		}
		if old, err = b.at(place{hash: p.hash}); err != nil { // the original may be the key's last generation
			return dedup.Decision{}, err
		}
	}
	if p.absent {
		return dedup.Decision{}, errAbsent
	}
	return b.accept(p, old)
}

// taken returns the live record of another key that one of the claim's aliases belongs to, or nil.
func (b *batch) taken(c *dedup.Claim) (*dedup.Record, dedup.Key, error) {
	for _, alias := range c.Aliases {
		r, err := b.alias(hashOf(alias))
		if err != nil {
			return nil, alias, err
		}
		if r == nil {
			continue
		}
		rec, err := r.record()
		if err != nil {
			return nil, alias, err
		}
		if dedup.Taken(rec, *c, b.now) {
			return &rec, alias, nil
		}
	}
	return nil, dedup.Key{}, nil
}

// count adds one to what is kept aside for an event; full says that there is no room for another.
func (b *batch) count(a *dedup.Aside) (d dedup.Decision, full bool, err error) {
	original, err := b.event(a.Of)
	if err != nil || original == nil || original.rec.Disposable(b.now) {
		return d, false, err
	}
	full = a.Full(original.rec)
	next := original.edit()
	next.rec.Asides++
	b.put(next)
	if !full {
		return d, false, nil
	}
	rec, err := next.record()
	return dedup.Decision{Verdict: dedup.Known, Record: rec}, true, err
}

// accept stages the record of a new claim, or goes on with a held one that is free. The record that the key had before goes: aside when it is a dead
// letter, for good otherwise.
func (b *batch) accept(p *prepared, old *row) (dedup.Decision, error) {
	c := &p.claim
	next := &row{place: place{hash: p.hash}, fix: p.fix, fresh: true, dirty: true}
	var before dedup.Record
	if old != nil {
		described, err := old.record()
		if err != nil {
			return dedup.Decision{}, err
		}
		if dedup.Continues(described, *c, b.now) {
			return b.resume(p, old, described)
		}
		before, next.hasState, next.before = described, old.hasState, old.before
	} else if gone := b.rows[next.place]; gone != nil { // deleted in this batch: the database has it still
		next.hasState, next.before = gone.hasState, gone.before
	}
	rec := dedup.Accept(before, *c, eventID(p.hash, b.seq+1), b.seq+1, b.token+1, b.now)
	if old != nil {
		if err := b.retire(old, next); err != nil {
			return dedup.Decision{}, err
		}
	}
	b.seq++
	b.news++
	rec.Generation = max(rec.Generation, b.lastGeneration(p.hash)+1) // the newest one may have been purged
	d := dedup.Decision{Verdict: dedup.New}
	if rec.Hold {
		d.Lease = b.lease(&rec)
	}
	b.window = max(b.window, rec.Window)
	if err := b.supersede(c, p.hash, &rec); err != nil {
		return dedup.Decision{}, err
	}
	b.putAliases(p.hash, &rec)
	next.rec = strip(rec)
	b.put(next)
	d.Record = next.rec
	d.Record.Tasks = slices.Clone(rec.Tasks)
	return d, nil
}

// lease uses up the token that the record's only task has just been started with.
func (b *batch) lease(rec *dedup.Record) dedup.Lease {
	b.token++
	return dedup.Lease{Event: rec.Event, Token: b.token, Until: rec.Tasks[0].Until}
}

// putAliases makes the aliases of a record its own.
func (b *batch) putAliases(h hash, rec *dedup.Record) {
	for _, a := range rec.Aliases {
		b.putAlias(hashOf(a), aliasOf{hash: h, seq: rec.Seq})
	}
}

// dropAliases lets go of the aliases that a record had and has no longer.
func (b *batch) dropAliases(before, rec *dedup.Record) {
	for _, a := range before.Aliases {
		if !slices.Contains(rec.Aliases, a) {
			b.putAlias(hashOf(a), aliasOf{gone: true})
		}
	}
}

// resume gives a held claim that was free to its next claimer. What the event was first claimed with stays; only
// aliases may be added. Where that was damaged, the new claim, which has the same fingerprint, takes its place.
func (b *batch) resume(p *prepared, old *row, before dedup.Record) (dedup.Decision, error) {
	rec := dedup.Accept(before, p.claim, "", 0, b.token+1, b.now)
	if err := b.supersede(&p.claim, p.hash, &rec); err != nil {
		return dedup.Decision{}, err
	}
	d := dedup.Decision{Verdict: dedup.New, Lease: b.lease(&rec)}
	next := old.edit()
	next.rec = strip(rec)
	changed := !slices.Equal(before.Aliases, rec.Aliases)
	switch {
	case old.fix.kind == bodyLost:
		whole := p.claim
		whole.Aliases, whole.Series = rec.Aliases, dedup.Key{}
		next.fix, next.fresh = encodeFixed(&whole, p.fix.kind, p.fix.body), true
		next.rec.Payload.Endpoint = whole.Payload.Endpoint
	case changed:
		next.fix, next.fresh = old.fix.renamed(&rec), true
		fallthrough
	default:
		b.unused(p)
	}
	if changed {
		b.dropAliases(&before, &rec)
		b.putAliases(p.hash, &rec)
	}
	b.put(next)
	var err error
	d.Record, err = next.record()
	return d, err
}

// supersede gives the series of the claim to its record, and tells the record that had it that there is a newer one.
func (b *batch) supersede(c *dedup.Claim, h hash, rec *dedup.Record) error {
	if c.Series == (dedup.Key{}) {
		return nil
	}
	series := hashOf(c.Series)
	before, err := b.alias(series)
	if err != nil {
		return err
	}
	if before != nil && before.rec.Event != rec.Event {
		older := before.edit()
		older.rec.Supersede()
		b.put(older)
	}
	b.putAlias(series, aliasOf{hash: h, seq: rec.Seq})
	return nil
}

// retire makes room for a new generation of a key.
func (b *batch) retire(old, next *row) error {
	if old.rec.Disposable(b.now) {
		if err := b.remove(old); err != nil {
			return err
		}
		return nil
	}
	aside := old.edit()
	aside.place.older = old.rec.Seq
	aside.fresh, aside.hasState = true, false
	b.put(aside)
	b.noteRetired(aside)
	next.before = tally{}
	return nil
}
