package badgerstore

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/eyelet-dev/eyelet/dedup"
	"github.com/eyelet-dev/eyelet/dedup/badgerstore/internal/record"
)

// Claim implements [dedup.Store]. A duplicate of a finished event does not wait for other
// operations. If a claim meets a damaged record, the others are stored in a commit of their own,
// and the error is a [DamagedError]: only the damaged event waits.
func (s *Store) Claim(ctx context.Context, claims ...dedup.Claim) ([]dedup.Decision, error) {
	decisions, err := s.claim(ctx, claims)
	if err == nil {
		return decisions, nil
	}
	return s.claimOthers(ctx, claims, err)
}

// claimOthers continues after an error of a claim: if that met a damaged record, it stores the
// others.
func (s *Store) claimOthers(ctx context.Context, claims []dedup.Claim, err error) ([]dedup.Decision, error) {
	var met *damagedClaim
	if !errors.As(err, &met) {
		return nil, err
	}
	for first := err; ; {
		claims = slices.Concat(claims[:met.at], claims[met.at+1:])
		held := func(c dedup.Claim) bool { return c.Hold } // its caller must get the lease
		if len(claims) == 0 || slices.ContainsFunc(claims, held) {
			return nil, first
		}
		if _, err = s.claim(ctx, claims); !errors.As(err, &met) {
			return nil, errors.Join(first, err)
		}
	}
}

func (s *Store) claim(ctx context.Context, claims []dedup.Claim) ([]dedup.Decision, error) {
	if err := cmp.Or(s.usable(), checkClaims(claims)); err != nil || len(claims) == 0 {
		return nil, err
	}
	first := record.HashOf(claims[0].Key)
	if len(claims) == 1 {
		if d, ok := s.known(ctx, &claims[0], first); ok {
			return []dedup.Decision{d}, nil
		}
	}
	if large := largeOf(claims); large > 0 {
		if err := s.large.Acquire(ctx, large); err != nil {
			return nil, err
		}
		defer s.large.Release(large)
	}
	o, err := prepare(claims, first)
	if err == nil {
		err = s.do(ctx, o)
	}
	if err != nil {
		return nil, err
	}
	return o.answer(), nil
}

// checkClaims returns what is wrong with the claims of one call.
func checkClaims(claims []dedup.Claim) error {
	if len(claims) > batchOps {
		return fmt.Errorf("%w: %d claims, at most %d", dedup.ErrTooLarge, len(claims), batchOps)
	}
	for i := range claims {
		err := claims[i].Check()
		if n := claimStateSize(&claims[i]); err == nil && n > stateMost {
			err = fmt.Errorf("%w: a response and a note of %d bytes, at most %d", dedup.ErrTooLarge, n, stateMost)
		}
		if err != nil {
			return fmt.Errorf("claim %d: %w", i, err)
		}
	}
	return nil
}

// largeOf returns how many bytes of large bodies a call brings, at most largeBytes.
func largeOf(claims []dedup.Claim) (n int64) {
	for i := range claims {
		if size := len(claims[i].Payload.Body); size > record.InlineMost && !claims[i].OnlyKnown {
			n += int64(size)
		}
	}
	return min(n, largeBytes)
}

// known answers the repeated claim of a finished event in the goroutine of its caller: nothing has
// to be written, so it does not wait for a batch. It leaves all other claims to the committer, and
// these when there is any doubt.
//
// What it reads is durable, because commits are published after their flush. The decision is that
// of the moment at which the state is read: the event is finished; its window has not ended,
// because it has not ended later; and the name that is read later is one of its own already,
// because a finished event gets no other names.
func (s *Store) known(ctx context.Context, c *dedup.Claim, h record.Hash) (d dedup.Decision, ok bool) {
	if ctx.Err() != nil || s.heart.err() != nil || !s.reads() {
		return d, false
	}
	defer s.readers.RUnlock()
	if s.usable() != nil {
		return d, false
	}
	rec, own, ok := s.finished(h)
	if !ok {
		return d, false
	}
	if name, named := c.Named(); named { // else a dedup.Step finds another event
		owned, err := owns(s.db, record.Alias{Hash: h, Seq: rec.Seq}, own, name)
		ok = owned && err == nil
	}
	rec.Key = c.Key
	return dedup.Decision{Verdict: dedup.Known, Record: rec}, ok && dedup.Decide(rec, *c, s.now()) == dedup.Known
}

// finished returns the newest event of a key without its description, if all its work is done.
// Quarantined deliveries are left out: they are described by more than their state.
func (s *Store) finished(h record.Hash) (rec dedup.Record, name record.Name, ok bool) {
	if s.db.Lacks(h.Key(record.FamilyEvent)) {
		return rec, 0, false
	}
	key := h.Key(record.FamilyEvent)
	value, err := s.db.Get(key)
	if value == nil || err != nil {
		return rec, 0, false
	}
	o, err := record.DecodeState(key, value, &rec)
	if err != nil {
		return rec, 0, false
	}
	s.gaps.extend(&rec)
	rec.Event = record.EventID(h, rec.Seq)
	return rec, o.Name, rec.State() == dedup.Done && rec.QuarantineReason == ""
}

// answer completes the records of new events from their claims, in the goroutine of the claimer,
// and leaves out what a known one comes without.
func (o *claimOp) answer() []dedup.Decision {
	for i := range o.decisions {
		d, c := &o.decisions[i], &o.claims[i].claim
		if d.Verdict == dedup.Known {
			d.Record.Aliases, d.Record.Payload = nil, dedup.Payload{}
		}
		if d.Verdict != dedup.New || c.OnlyKnown || d.Record.Key != (dedup.Key{}) {
			continue
		}
		d.Record.Key, d.Record.Aliases, d.Record.Payload = c.Key, slices.Clip(o.claims[i].names), c.Payload
		d.Record.Payload.Body = nil
		if c.GivesPayload {
			d.Record.Payload.Header, d.Record.Payload.Attributes = nil, nil
		}
	}
	return o.decisions
}
