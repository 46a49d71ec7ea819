package badgerstore

import (
	"bytes"
	"context"
	"errors"

	"github.com/dgraph-io/badger/v4"

	"github.com/eyelet-dev/eyelet/dedup"
	"github.com/eyelet-dev/eyelet/dedup/badgerstore/internal/record"
)

// bodyNumber returns a number that no other large body has: the boot above, a count below.
func (s *Store) bodyNumber() uint64 { return s.boot<<32 | uint64(s.largeBodies.Add(1)) }

func bootOfBody(number uint64) uint64 { return number >> 32 }

// chunkOp writes a piece of a large body, or deletes all of them.
type chunkOp struct {
	ticket
	writes []rawWrite
	frees  bool // space comes of it, so that a low disk does not refuse it
}

// apply implements op.
func (o *chunkOp) apply(b *batch) error {
	if b.disk.low() && !o.frees || b.disk.frozen() {
		return b.disk.err()
	}
	b.chunks = append(b.chunks, o.writes...)
	return nil
}

// unused deletes the pieces of a claim that turned out not to be new.
func (b *batch) unused(p *prepared) {
	if p.event.Kind == record.BodyChunks && p.event.Body != 0 {
		b.dropChunks(&row{place: record.Place{Hash: p.at}, event: p.event})
	}
}

// claimLarge stores claims some of which have large bodies. It asks first, so that a duplicate costs nothing;
// then it writes the pieces of the new ones in commits of their own; the record that is written last
// makes them visible.
func (s *Store) claimLarge(ctx context.Context, claims []dedup.Claim) ([]dedup.Decision, error) {
	for {
		probe, err := prepare(asking(claims))
		if err != nil {
			return nil, err
		}
		if err := s.do(ctx, probe); err != nil {
			return nil, err
		}
		o, err := prepare(claims)
		if err != nil {
			return nil, err
		}
		for i := range o.claims {
			o.claims[i].at = probe.claims[i].at
		}
		if err := s.storeBodies(ctx, o, probe.decisions); err != nil {
			s.dropBodies(o)
			return nil, err
		}
		err = s.do(ctx, o)
		switch {
		case err == nil:
			return o.answer(), nil
		case ctx.Err() != nil:
			return nil, err // the claim may still happen
		}
		s.dropBodies(o)
		if !errors.Is(err, errAbsent) {
			return nil, err
		}
		claims = alone(claims)
	}
}

func asking(claims []dedup.Claim) []dedup.Claim {
	out := make([]dedup.Claim, len(claims))
	for i, c := range claims {
		c.OnlyKnown = true
		out[i] = c
	}
	return out
}

// storeBodies writes the pieces of the large bodies that will be needed.
func (s *Store) storeBodies(ctx context.Context, o *claimOp, asked []dedup.Decision) error {
	for i := range o.claims {
		p := &o.claims[i]
		if !p.absent || asked[i].Verdict != dedup.New {
			continue
		}
		if waits(&p.claim) && s.backlog.err() != nil {
			return s.backlog.err()
		}
		p.encode(s.bodyNumber())
		if err := s.storeBody(ctx, p.at, p.event.Body, p.claim.Payload.Body); err != nil {
			return err
		}
	}
	return nil
}

// storeBody writes the pieces of a large body.
func (s *Store) storeBody(ctx context.Context, h record.Hash, number uint64, body []byte) error {
	for n := range record.ChunkCount(int64(len(body))) {
		key := h.ChunkKey(number, n)
		piece := body[int(n)*record.ChunkSize : min(len(body), (int(n)+1)*record.ChunkSize)]
		value := record.EncodeChunk(key, piece)
		t := newTicket(true)
		t.claim, t.bytes = true, len(value)
		if err := s.do(ctx, &chunkOp{ticket: t, writes: []rawWrite{{key: key, value: value}}}); err != nil {
			return err
		}
	}
	return nil
}

// dropBodies asks for the pieces of claims that failed to be deleted. What it misses goes at the next start.
func (s *Store) dropBodies(o *claimOp) {
	for i := range o.claims {
		if p := &o.claims[i]; p.event.Kind == record.BodyChunks && p.event.Body != 0 {
			s.dropBody(p.at, p.event.Body, p.event.Size)
		}
	}
}

// dropBody asks for the pieces of a large body to be deleted.
func (s *Store) dropBody(h record.Hash, number uint64, size int64) {
	drop := &chunkOp{ticket: newTicket(false), frees: true}
	for n := range record.ChunkCount(size) {
		drop.writes = append(drop.writes, rawWrite{key: h.ChunkKey(number, n)})
	}
	_ = s.queue.push(drop)
}

// body returns a copy of the body of a row's event; nil where it was dropped or empty.
func (s *Store) body(r *row) ([]byte, error) {
	if r.event.Kind != record.BodyChunks && r.event.Kind != record.BodyShared {
		return r.body(nil)
	}
	var body []byte
	err := s.view(func(txn *badger.Txn) (err error) {
		body, err = r.body(txn)
		return err
	})
	return body, err
}

func (r *row) body(txn *badger.Txn) ([]byte, error) {
	switch {
	case r.event.Kind == record.BodyDropped || r.event.Kind == record.BodyLost || r.event.Size == 0:
		return nil, nil
	case r.event.Kind == record.BodyInline:
		return bytes.Clone(r.event.InlineBody()), nil
	case r.event.Kind == record.BodyShared:
		return r.sharedBody(txn)
	}
	body := make([]byte, 0, r.event.Size)
	for n := range record.ChunkCount(r.event.Size) {
		key := r.place.Hash.ChunkKey(r.event.Body, n)
		value, err := readValue(txn, key)
		if err != nil {
			return nil, err
		}
		if value == nil {
			return nil, record.Damaged(key, "a piece of the body is missing", nil)
		}
		chunk, err := record.DecodeChunk(key, value)
		if err != nil {
			return nil, err
		}
		body = append(body, chunk...)
	}
	if int64(len(body)) != r.event.Size {
		return nil, record.Damaged(r.place.Key(), "its body has the wrong length", nil)
	}
	return body, nil
}

// sharedBody returns the body of the row's original, which keeps it.
func (r *row) sharedBody(txn *badger.Txn) ([]byte, error) {
	keeper, err := readEvent(txn, r.rec.Original)
	if err != nil {
		return nil, err
	}
	if keeper == nil || !keeper.keepsBody() {
		return nil, record.Damaged(r.place.Key(), "the body that it shares is gone", nil)
	}
	return keeper.body(txn)
}

// keepsBody reports whether the row has a body of its own.
func (r *row) keepsBody() bool { return r.event.HasBody() }

// sweepChunks deletes the pieces that other boots left without a record.
func (s *Store) sweepChunks() error {
	txn := s.db.NewTransaction(false)
	defer txn.Discard()
	it := txn.NewIterator(keysOnly(record.FamilyChunk))
	defer it.Close()
	var orphans []rawWrite
	for it.Rewind(); it.Valid(); it.Next() {
		key := it.Item().KeyCopy(nil)
		if len(key) != record.ChunkKeySize {
			continue
		}
		h, number := record.ParseChunkKey(key)
		if bootOfBody(number) == s.boot {
			continue
		}
		owned, err := bodyOwned(txn, h, number)
		if err != nil {
			s.damage(err)
			continue
		}
		if !owned {
			orphans = append(orphans, rawWrite{key: key})
		}
	}
	for len(orphans) > 0 {
		n := min(len(orphans), batchOps)
		if err := s.commitDirect(func(b *batch) { b.chunks = orphans[:n] }); err != nil {
			return err
		}
		orphans = orphans[n:]
	}
	return nil
}

// bodyOwned reports whether an event, of any generation, has the large body.
func bodyOwned(txn *badger.Txn, h record.Hash, number uint64) (bool, error) {
	r, err := readRow(txn, record.Place{Hash: h})
	if err != nil || r != nil && r.event.Kind == record.BodyChunks && r.event.Body == number {
		return true, err
	}
	options := keysOnly(record.FamilyOlder)
	options.Prefix = h.Key(record.FamilyOlder)
	it := txn.NewIterator(options)
	defer it.Close()
	for it.Rewind(); it.Valid(); it.Next() {
		r, err := readRow(txn, record.PlaceOf(it.Item().Key()))
		if err != nil || r != nil && r.event.Kind == record.BodyChunks && r.event.Body == number {
			return true, err
		}
	}
	return false, nil
}

func keysOnly(family byte) badger.IteratorOptions {
	o := badger.DefaultIteratorOptions
	o.PrefetchValues = false
	o.Prefix = []byte{family}
	return o
}
