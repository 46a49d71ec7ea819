package badgerstore

import (
	"errors"
	"fmt"

	"github.com/eyelet-dev/eyelet/dedup"
	"github.com/eyelet-dev/eyelet/dedup/badgerstore/internal/record"
)

// chunkOp writes chunks of large bodies, or deletes them.
type chunkOp struct {
	ticket
	writes []mutation
	frees  bool // frees space, so a low disk does not refuse it
}

func (o *chunkOp) apply(b *batch) error {
	if b.disk.low() && !o.frees || b.disk.frozen() {
		return b.disk.err()
	}
	b.chunks = append(b.chunks, o.writes...)
	return nil
}

// purgeOp deletes an event and forgets its key. A shared body goes to the oldest sharer.
type purgeOp struct {
	ticket
	event  string
	heir   string // the event that a large body was copied to
	number uint64 // of the copy
}

// errBodyUncopied reports that a large body must be copied before its event can be purged.
var errBodyUncopied = errors.New("body is not copied yet")

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
	if err := o.transferBody(b, r); err != nil {
		return err
	}
	b.forget(r, func(dedup.Trace) dedup.Trace { return dedup.Trace{} })
	return b.remove(r)
}

// transferBody gives the body of a row to the oldest of the records that share it.
func (o *purgeOp) transferBody(b *batch, r *row) error {
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
		return errBodyUncopied
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
