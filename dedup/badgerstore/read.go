package badgerstore

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"iter"
	"time"

	"github.com/eyelet-dev/eyelet/dedup"
	"github.com/eyelet-dev/eyelet/dedup/badgerstore/internal/kv"
	"github.com/eyelet-dev/eyelet/dedup/badgerstore/internal/record"
)

// pageSize is how many events a list reads in one transaction.
const pageSize = 1024

// eachPage visits every event, including older generations, with a transaction per page. It may
// visit an event twice if its key is accepted again meanwhile.
func (c *core) eachPage(ctx context.Context, visit func(*kv.View, record.Place)) error {
	for _, family := range [...]byte{record.FamilyEvent, record.FamilyOlder} {
		for from := []byte{family}; from != nil; {
			if err := ctx.Err(); err != nil {
				return err
			}
			err := c.view(func(in *kv.View) error {
				n, first := 0, from
				from = nil
				for it := range in.Items(first, family) {
					if n++; n > pageSize {
						from = it.KeyCopy()
						break
					}
					visit(in, record.PlaceOf(it.Key()))
				}
				return nil
			})
			if err != nil {
				return err
			}
		}
	}
	return nil
}

// notes yields the notes of a space with a transaction per page, those that have expired too.
func (c *core) notes(ctx context.Context, space string) iter.Seq2[dedup.Note, error] {
	return func(yield func(dedup.Note, error) bool) {
		prefix := record.NotePrefix(space)
		for from := prefix; from != nil; {
			var page []dedup.Note
			err := c.view(func(in *kv.View) error {
				first := from
				from = nil
				for it := range in.Items(first, prefix...) {
					if len(page) == pageSize {
						from = it.KeyCopy()
						break
					}
					value, err := it.Value()
					n := dedup.Note{}
					if err == nil {
						n, err = record.DecodeNote(it.Key(), value)
					}
					if err != nil {
						c.damage(err)
						continue
					}
					page = append(page, n)
				}
				return ctx.Err()
			})
			if err != nil {
				yield(dedup.Note{}, err)
				return
			}
			for _, n := range page {
				if !yield(n, nil) {
					return
				}
			}
		}
	}
}

// readListed returns a listed event, whichever generation it is by now; nil if it is gone.
func (c *core) readListed(in source, l record.Recent) (*row, error) {
	r, err := c.readRow(in, record.Place{Hash: l.Hash})
	if err == nil && (r == nil || r.rec.Seq != l.Seq) {
		r, err = c.readRow(in, record.Place{Hash: l.Hash, Older: l.Seq})
	}
	return r, err
}

// readEvent returns the row of an event, nil if there is none.
func (c *core) readEvent(in source, event string) (*row, error) {
	h, seq, ok := record.ParseEventID(event)
	if !ok {
		return nil, nil
	}
	return c.readListed(in, record.Recent{Seq: seq, Hash: h})
}

// body returns a copy of the body of a row, nil if it was dropped or is empty. The row may be older
// than the database, which then may no longer have a large body.
func (c *core) body(r *row) ([]byte, error) {
	if r.event.Kind != record.BodyApart {
		return r.body(nil)
	}
	var body []byte
	err := c.view(func(in *kv.View) (err error) {
		if body, err = r.body(in); err != nil {
			err = c.missingBody(in, r, err)
		}
		return err
	})
	return body, err
}

// missingBody returns why the body of an earlier row of an event cannot be read: the event or its
// body is gone, else the error of reading it.
func (c *core) missingBody(in source, r *row, err error) error {
	newest, damage := c.readEvent(in, r.rec.Event)
	switch {
	case damage != nil:
		return damage
	case newest == nil:
		return fmt.Errorf("event %q: %w", r.rec.Event, dedup.ErrNotFound)
	case newest.event.Kind != record.BodyApart:
		return fmt.Errorf("event %q: %w", r.rec.Event, dedup.ErrNoPayload)
	}
	return err
}

// readRow returns the row at a place with its effective window, nil if there is none.
func (c *core) readRow(in source, p record.Place) (*row, error) {
	key := p.Key()
	value, content, broken := in.Read(key)
	if value == nil {
		return nil, unreadable(key, broken)
	}
	r, err := c.stateRow(key, value)
	if err == nil {
		err = r.load(content, broken)
	}
	if err != nil {
		return nil, err
	}
	return r, nil
}

// load adds the event to a row of which only the state was read. broken is the error of reading its
// content.
func (r *row) load(content []byte, broken error) error {
	key := r.place.Key()
	if broken != nil {
		return unreadable(key, broken)
	}
	var claimed uint64
	var err error
	if r.event, claimed, err = record.DecodeEvent(key, content); err != nil {
		return err
	}
	if r.rec.Seq != claimed {
		reason := fmt.Sprintf("its state belongs to event %d, its content to event %d", r.rec.Seq, claimed)
		return record.Damaged(key, reason, nil)
	}
	r.rec.Event = record.EventID(r.place.Hash, r.rec.Seq)
	described := r.rec
	if err := r.event.Describe(r.place, &described); err != nil {
		return err
	}
	r.rec.Payload.Endpoint = described.Payload.Endpoint
	return nil
}

// stateRow returns the row of a stored value with its effective window, without the event.
func (c *core) stateRow(key, value []byte) (*row, error) {
	r := &row{place: record.PlaceOf(key), checksum: record.Checksum(value)}
	o, err := record.DecodeState(key, value, &r.rec)
	r.event.Size, r.rec.Payload.Endpoint, r.name = o.Size, o.Endpoint, o.Name
	c.gaps.extend(&r.rec)
	return r, err
}

func (r *row) whole(in source, body bool) (dedup.Record, error) {
	rec, err := r.record()
	if err != nil || !body {
		return rec, err
	}
	rec.Payload.Body, err = r.body(in)
	return rec, err
}

func (r *row) body(in source) ([]byte, error) {
	switch {
	case r.event.Kind == record.BodyDropped || r.event.Kind == record.BodyLost || r.event.Size == 0:
		return nil, nil
	case r.event.Kind == record.BodyInline:
		return bytes.Clone(r.event.InlineBody()), nil
	}
	key := r.place.Hash.BodyKey(r.rec.Seq)
	value, err := readValue(in, key)
	if err == nil && value == nil {
		err = errors.New("it is missing")
	}
	var body []byte
	if err == nil {
		body, err = record.DecodeBody(key, value)
	}
	if err == nil && int64(len(body)) != r.event.Size {
		err = errors.New("it has the wrong length")
	}
	if err != nil {
		return nil, record.Damaged(r.place.Key(), "its body", err)
	}
	return body, nil
}

// readAlias returns an alias as it is stored.
func readAlias(in source, h record.Hash) (a aliasEntry, err error) {
	key := h.Key(record.FamilyAlias)
	value, err := readValue(in, key)
	if err == nil && value != nil {
		a.exists, a.stored, a.checksum = true, true, record.Checksum(value)
		a.Alias, err = record.DecodeAlias(key, value)
	}
	return a, err
}

// owns reports whether an event, whose row has the name own, has an alias.
func owns(in source, event record.Alias, own record.Name, alias dedup.Key) (bool, error) {
	h := record.HashOf(alias)
	if h.Name() == own {
		return true, nil
	}
	a, err := readAlias(in, h)
	return a.exists && a.Alias == event, err
}

func readTrace(in source, key []byte) (t dedup.Trace, err error) {
	value, err := readValue(in, key)
	if value == nil || err != nil {
		return t, err
	}
	return record.DecodeTrace(key, value)
}

func readNote(in source, h record.Hash) (n dedup.Note, err error) {
	key := h.Key(record.FamilyNote)
	value, err := readValue(in, key)
	if err == nil && value != nil {
		n, err = record.DecodeNote(key, value)
	}
	return n, err
}

// assumedTrace replaces a damaged trace. Its existence shows that the key was accepted.
func assumedTrace(now time.Time) dedup.Trace {
	return dedup.Trace{Day: dedup.DayOf(now), Count: 1<<8 - 1}
}

// firstDay returns the first day that is remembered. Known gaps do not count as time here either.
func (c *core) firstDay(since, evicted uint64, now time.Time) dedup.Day {
	return c.options.Remember.First(dedup.Day(since), dedup.Day(evicted), now.Add(-c.gaps.all())) //nolint:gosec // days
}

// readMeta returns the counters, zero for a new store.
func readMeta(in source) (m record.Meta, err error) {
	value, err := readValue(in, record.MetaKey)
	if value == nil || err != nil {
		return m, err
	}
	return record.DecodeMeta(value)
}

// source has the state after one commit. See [kv.DB.Get] and [kv.DB.Read].
type source interface {
	Get(key []byte) ([]byte, error)
	Read(key []byte) (value, content []byte, err error)
}

// unreadable returns the damage of a key that cannot be read, nil if it can.
func unreadable(key []byte, err error) error {
	if err != nil {
		return record.Damaged(key, "it cannot be read", err)
	}
	return nil
}

// readValue returns a value, nil if the key does not exist.
func readValue(in source, key []byte) ([]byte, error) {
	value, err := in.Get(key)
	return value, unreadable(key, err)
}
