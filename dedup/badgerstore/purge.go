package badgerstore

import (
	"context"
	"errors"
	"fmt"

	"github.com/eyelet-dev/eyelet/dedup"
	"github.com/eyelet-dev/eyelet/dedup/badgerstore/internal/record"
)

// purgeOp forgets an event. A body that others share goes to the oldest of them.
type purgeOp struct {
	ticket
	event string
	// heir is where a large body was copied to, under number.
	heir   string
	number uint64
}

// errCopy says that a large body must be copied before its event can be forgotten.
var errCopy = errors.New("body is not copied yet")

// Purge implements [dedup.Store].
func (s *Store) Purge(ctx context.Context, event string) error {
	o := &purgeOp{event: event}
	for {
		o.ticket = newTicket(true)
		before := *o
		err := s.do(ctx, o)
		if err == nil || ctx.Err() != nil {
			return err // without an error the copy is in use
		}
		if before.number != 0 {
			s.dropCopy(ctx, &before)
		}
		if !errors.Is(err, errCopy) {
			return err
		}
		if err := s.copyBody(ctx, o); err != nil {
			return err
		}
	}
}

// copyBody writes the pieces of the event's body under the place of its heir.
func (s *Store) copyBody(ctx context.Context, o *purgeOp) error {
	rec, err := s.Get(ctx, o.event)
	if err != nil {
		return err
	}
	h, _, ok := record.ParseEventID(o.heir)
	if !ok {
		return fmt.Errorf("event %q: %w", o.heir, dedup.ErrNotFound)
	}
	o.number = s.bodyNumber()
	return s.storeBody(ctx, h, o.number, rec.Payload.Body)
}

// dropCopy deletes a copy that is not needed: another record is the heir by now. What it misses goes at the next start.
func (s *Store) dropCopy(ctx context.Context, o *purgeOp) {
	h, _, ok := record.ParseEventID(o.heir)
	rec, err := s.Get(ctx, o.event)
	if ok && err == nil {
		s.dropBody(h, o.number, int64(len(rec.Payload.Body)))
	}
}

// apply implements op.
func (o *purgeOp) apply(b *batch) error {
	r, err := b.event(o.event)
	switch {
	case err != nil:
		return err
	case r == nil || r.rec.Disposable(b.now):
		return fmt.Errorf("event %q: %w", o.event, dedup.ErrNotFound)
	case r.rec.Open():
		return fmt.Errorf("event %q: %w", o.event, dedup.ErrOpen)
	case b.disk.frozen():
		return b.disk.err()
	}
	if err := o.handOver(b, r); err != nil {
		return err
	}
	b.forget(r, func(dedup.Trace) dedup.Trace { return dedup.Trace{} })
	return b.remove(r)
}

// handOver gives the body of a row to the oldest of the records that share it.
func (o *purgeOp) handOver(b *batch, r *row) error {
	var sharers []*row
	for _, event := range r.rec.Sharers {
		other, err := b.event(event)
		if err != nil {
			return err
		}
		if other != nil && other.event.Kind == record.BodyShared {
			sharers = append(sharers, other.edit())
		}
	}
	if len(sharers) == 0 {
		return nil
	}
	heir := sharers[0]
	if r.event.Kind == record.BodyChunks && (o.heir != heir.rec.Event || o.number == 0) {
		o.heir, o.number = heir.rec.Event, 0
		return errCopy
	}
	switch r.event.Kind {
	case record.BodyChunks:
		heir.event, heir.fresh = heir.event.WithBody(nil, o.number), true
	case record.BodyInline:
		heir.event, heir.fresh = heir.event.WithBody(r.event.InlineBody(), 0), true
	default:
		heir.event, heir.fresh = heir.event.WithoutBody(record.BodyLost), true
	}
	others := make([]*dedup.Record, 0, len(sharers))
	for _, other := range sharers[1:] {
		others = append(others, &other.rec)
	}
	heir.rec.Inherit(others...)
	for _, next := range sharers {
		b.put(next)
	}
	return nil
}
