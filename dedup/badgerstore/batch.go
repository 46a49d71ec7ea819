package badgerstore

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/dgraph-io/badger/v4"

	"github.com/eyelet-dev/eyelet/dedup"
	"github.com/eyelet-dev/eyelet/dedup/badgerstore/internal/record"
)

// row is a record as the committer sees it. What it says is not changed once it is in a batch or in the cache:
// edit makes the next one.
type row struct {
	place    record.Place
	rec      dedup.Record // stripped: the event has the description
	event    record.Event // without its bytes where only the outline was read
	fresh    bool         // the event itself has to be written
	dirty    bool
	gone     bool   // deleted
	checksum uint32 // of the stored value that has the newest state; see record.Census
	before   tally
}

// tally is what one record adds to the statistics.
type tally struct {
	records, pending, running, dead, backlog int64
	waiting, waitingBytes                    int64  // open and not held by a claimer
	sum                                      uint64 // the mark in the census
	quarantined                              map[dedup.QuarantineGroup]int64
}

func (r *row) tally() tally {
	if r == nil || r.gone {
		return tally{}
	}
	t := tally{records: 1, sum: r.mark()}
	for i := range r.rec.Tasks {
		switch r.rec.Tasks[i].State {
		case dedup.Pending:
			t.pending++
		case dedup.Running:
			t.running++
		case dedup.Dead:
			t.dead++
		}
	}
	if r.rec.Quarantined() {
		t.quarantined = map[dedup.QuarantineGroup]int64{{Endpoint: r.rec.Payload.Endpoint, Reason: r.rec.QuarantineReason}: 1}
	}
	if r.rec.Open() {
		t.backlog = r.event.Size
		if !r.rec.Hold {
			t.waiting, t.waitingBytes = 1, r.event.Size
		}
	}
	return t
}

// edit returns a copy that may be changed and put back.
func (r *row) edit() *row {
	next := *r
	next.rec.Tasks = slices.Clone(r.rec.Tasks)
	next.dirty = true
	return &next
}

// record returns a copy of the record for a caller, with the description and without the body.
func (r *row) record() (dedup.Record, error) {
	rec := r.rec
	rec.Tasks, rec.Response = slices.Clone(r.rec.Tasks), r.rec.Response.Clone()
	return rec, r.event.Describe(r.place, &rec)
}

// strip leaves out what the fixed part of the row says, but for what the row itself is asked.
func strip(r dedup.Record) dedup.Record {
	r.Key, r.Aliases = dedup.Key{}, nil
	r.Payload = dedup.Payload{Endpoint: r.Payload.Endpoint}
	return r
}

// aliasOf says which event an alias belongs to.
type aliasOf struct {
	record.Alias
	gone bool
}

// batch is a set of operations that become durable in one step. Each of them sees the effect of those before
// it; nobody else sees any before the commit.
type batch struct {
	s         *Store
	txn       *badger.Txn
	now       time.Time
	seq       uint64
	token     uint64
	rows      map[record.Place]*row
	aliases   map[record.Hash]aliasOf
	traces    map[record.TraceID]traceOf
	evicted   uint64 // as in meta
	chunks    []rawWrite
	forgotten []*row // whose place may have a new row
	announced []*row // new ones that the agenda knows already
	retired   generations
	undo      []func()
	bytes     int64
	always    bool      // commit even when nothing changed
	reclaimed time.Time // space was given back; zero when it was not

	next        record.Meta    // what the commit writes
	change      tally          // of all rows
	aliasChange record.Census  // of the aliases
	uncounted   bool           // what it replaces is damaged: the census is unknown until everything is counted anew
	recount     *record.Census // what the store held before the batch, counted anew

	disk diskState
	sums
}

// sums are what the operations of a batch add up to; those of one that fails do not count.
type sums struct {
	news                  int64
	removed               int64 // bytes of bodies that were deleted
	waiting, waitingBytes int64 // of new events, for the bounds of the backlog
	window                time.Duration
}

type rawWrite struct {
	key, value []byte // nil value deletes
	passing    bool   // of no worth: it may vanish at once
}

// newBatch returns an empty batch with room for about so many operations.
func (s *Store) newBatch(ops int) *batch {
	return &batch{
		s: s, txn: s.db.NewTransaction(true), now: s.now(), seq: s.meta.Seq, token: s.meta.Token,
		sums: sums{window: s.meta.Window}, rows: make(map[record.Place]*row, ops), aliases: make(map[record.Hash]aliasOf, ops), disk: s.disk.state(),
		traces: make(map[record.TraceID]traceOf, ops), evicted: s.meta.Evicted,
	}
}

// put makes r the row at its place.
func (b *batch) put(r *row) {
	old, had := b.rows[r.place]
	b.undo = append(b.undo, func() {
		if had {
			b.rows[r.place] = old
		} else {
			delete(b.rows, r.place)
		}
	})
	b.rows[r.place] = r
}

func (b *batch) putAlias(h record.Hash, a aliasOf) {
	old, had := b.aliases[h]
	b.undo = append(b.undo, func() {
		if had {
			b.aliases[h] = old
		} else {
			delete(b.aliases, h)
		}
	})
	b.aliases[h] = a
}

// rollback undoes everything since the operation began.
func (b *batch) rollback() {
	for _, f := range slices.Backward(b.undo) {
		f()
	}
	b.undo = b.undo[:0]
}

// at returns the row at a place, nil when there is none.
func (b *batch) at(p record.Place) (*row, error) {
	if r, ok := b.rows[p]; ok {
		if r.gone {
			return nil, nil
		}
		return r, nil
	}
	if r := b.s.cache.get(p); r != nil {
		return r, nil
	}
	r, err := b.s.readRow(b.txn, p)
	if err != nil {
		b.s.damage(err)
		return nil, err
	}
	if r != nil {
		r.before = r.tally()
	}
	return r, nil
}

// event returns the row of an event, nil when there is none.
func (b *batch) event(id string) (*row, error) {
	h, seq, ok := record.ParseEventID(id)
	if !ok {
		return nil, nil
	}
	return b.find(h, seq)
}

// find returns the row of the event with a sequence under a hash, nil when there is none.
func (b *batch) find(h record.Hash, seq uint64) (*row, error) {
	r, err := b.at(record.Place{Hash: h})
	if err != nil || r != nil && r.rec.Seq == seq {
		return r, err
	}
	return b.at(record.Place{Hash: h, Older: seq})
}

// owner says which event an alias belongs to; ok is false when nobody has it.
func (b *batch) owner(h record.Hash) (a aliasOf, ok bool, err error) {
	if a, ok = b.aliases[h]; ok {
		return a, !a.gone, nil
	}
	return readAlias(b.txn, h)
}

// alias returns the row of the event that an alias belongs to, nil when there is none.
func (b *batch) alias(h record.Hash) (*row, error) {
	a, ok, err := b.owner(h)
	if err != nil || !ok {
		return nil, err
	}
	return b.find(a.Hash, a.Seq)
}

// remove deletes the row with all that belongs to it.
func (b *batch) remove(r *row) error {
	rec, err := r.record()
	if err != nil {
		return err
	}
	next := r.edit()
	next.gone = true
	b.put(next)
	n := len(b.forgotten)
	b.undo = append(b.undo, func() { b.forgotten = b.forgotten[:n] })
	b.forgotten = append(b.forgotten, next)
	b.dropChunks(r)
	if rec.Unaccepted() {
		b.forget(r, dedup.Trace.Without)
	}
	for _, a := range rec.Aliases {
		h := record.HashOf(a)
		if owner, ok, err := b.owner(h); err == nil && ok && owner.Hash == r.place.Hash && owner.Seq == rec.Seq {
			b.putAlias(h, aliasOf{gone: true})
		}
	}
	b.removed += r.event.Size
	return b.unshare(&rec)
}

// unshare takes a record that is removed off those that share the body of its original.
func (b *batch) unshare(rec *dedup.Record) error {
	if rec.Original == "" {
		return nil
	}
	keeper, err := b.event(rec.Original)
	if err != nil || keeper == nil || !slices.Contains(keeper.rec.Sharers, rec.Event) {
		return err
	}
	next := keeper.edit()
	next.rec.Unshare(rec.Event, b.now)
	b.settle(next)
	return nil
}

func (b *batch) dropChunks(r *row) {
	if r.event.Kind != record.BodyChunks {
		return
	}
	n := len(b.chunks)
	b.undo = append(b.undo, func() { b.chunks = b.chunks[:n] })
	for i := range record.ChunkCount(r.event.Size) {
		b.chunks = append(b.chunks, rawWrite{key: r.place.Hash.ChunkKey(r.event.Body, i)})
	}
}

// stage writes everything into the transaction. It reports false when there is nothing to write.
func (b *batch) stage() (bool, error) {
	var err error
	wrote := false
	set := func(key, value []byte) {
		if wrote = true; err != nil {
			return
		}
		if value == nil {
			err = b.txn.Delete(key)
		} else {
			b.bytes += int64(len(key) + len(value))
			err = b.txn.SetEntry(badger.NewEntry(key, value))
		}
	}
	for _, r := range b.rows {
		if r.dirty {
			r.write(set, b.s.gaps)
			b.change.add(r.tally(), 1)
			b.change.add(r.before, -1)
		}
	}
	for h, a := range b.aliases {
		key := h.Key(record.FamilyAlias)
		var value []byte
		if !a.gone {
			value = a.Encode(key)
		}
		b.countAlias(h, value)
		set(key, value)
	}
	for id, t := range b.traces {
		if key := id.Key(); t.gone {
			set(key, nil)
		} else {
			set(key, record.EncodeTrace(key, t.Trace))
		}
	}
	for _, w := range b.chunks {
		if w.passing {
			if wrote = true; err == nil {
				err = b.txn.SetEntry(badger.NewEntry(w.key, w.value).WithTTL(time.Second))
			}
			continue
		}
		set(w.key, w.value)
	}
	if !wrote && !b.always {
		return false, err
	}
	b.next = b.meta()
	set(record.MetaKey, b.next.Encode())
	return true, err
}

// meta is what the commit of the batch makes of the counters.
func (b *batch) meta() record.Meta {
	m := b.s.meta
	m.Commit++
	m.Seq, m.Token, m.Wall, m.Window, m.Evicted = b.seq, b.token, b.now, b.window, b.evicted
	m.Removed += b.removed
	if !b.reclaimed.IsZero() {
		m.Reclaimed, m.Removed = b.reclaimed, b.removed
	}
	m.Census = b.census()
	return m
}

// write stages one row. The state of an event is stored beside it as well, so that a start reads no bodies and a sweep
// no events.
func (r *row) write(set func(key, value []byte), g gaps) {
	rec := g.stored(r.rec)
	older := r.place.Older != 0
	if r.gone {
		set(r.place.Key(), nil)
		if !older {
			set(r.place.Hash.Key(record.FamilyState), nil)
		}
		return
	}
	if r.fresh || older {
		key := r.place.Key()
		value := r.event.Encode(key, &rec)
		r.checksum = record.Checksum(value)
		set(key, value)
	}
	if !older {
		key := r.place.Hash.Key(record.FamilyState)
		value := record.EncodeState(key, &rec, record.OutlineOf(&r.rec, r.event.Size))
		r.checksum = record.Checksum(value)
		set(key, value)
	}
}

// readRow reads a row from the database, nil when there is none. Its window ends when it does by the store's gaps.
func (s *Store) readRow(txn *badger.Txn, p record.Place) (*row, error) {
	r, err := readRow(txn, p)
	if r != nil {
		s.gaps.prolong(&r.rec)
	}
	return r, err
}

// readRow reads a row as it is stored, nil when there is none.
func readRow(txn *badger.Txn, p record.Place) (*row, error) {
	key := p.Key()
	value, err := readValue(txn, key)
	if value == nil || err != nil {
		return nil, err
	}
	r := &row{place: p, checksum: record.Checksum(value)}
	if r.event, err = record.DecodeEvent(key, value, &r.rec); err != nil {
		return nil, err
	}
	if p.Older == 0 {
		if err := r.readState(txn); err != nil {
			return nil, err
		}
	}
	r.rec.Event = record.EventID(p.Hash, r.rec.Seq)
	described := r.rec
	if err := r.event.Describe(p, &described); err != nil {
		return nil, err
	}
	r.rec.Payload.Endpoint = described.Payload.Endpoint
	return r, nil
}

func (r *row) readState(txn *badger.Txn) error {
	key := r.place.Hash.Key(record.FamilyState)
	value, err := readValue(txn, key)
	if value == nil || err != nil {
		return err
	}
	claimed := r.rec.Seq
	r.checksum = record.Checksum(value)
	if _, _, err := record.DecodeState(key, value, &r.rec); err != nil {
		return err
	}
	if r.rec.Seq != claimed {
		return record.Damaged(key, fmt.Sprintf("it is of event %d, not %d", r.rec.Seq, claimed), nil)
	}
	return nil
}

// readTries is how often a value is looked up before it is called damaged: a value log file may be rewritten
// and deleted between finding a value in it and reading it, and then the next look finds the new place.
const readTries = 3

// readValue returns a copy of a value, nil when the key is not there.
func readValue(txn *badger.Txn, key []byte) ([]byte, error) {
	for try := 1; ; try++ {
		item, err := txn.Get(key)
		if errors.Is(err, badger.ErrKeyNotFound) {
			return nil, nil
		}
		if err != nil {
			return nil, record.Damaged(key, "it cannot be found", err)
		}
		value, err := item.ValueCopy(nil)
		switch {
		case err == nil && value == nil:
			return []byte{}, nil
		case err == nil:
			return value, nil
		case try == readTries:
			return nil, record.Damaged(key, "it cannot be read", err)
		}
	}
}

// readAlias reads an alias from the database.
func readAlias(txn *badger.Txn, h record.Hash) (a aliasOf, ok bool, err error) {
	key := h.Key(record.FamilyAlias)
	value, err := readValue(txn, key)
	if value == nil || err != nil {
		return a, false, err
	}
	a.Alias, err = record.DecodeAlias(key, value)
	return a, err == nil, err
}

// readMeta returns the counters; the zero value for a new store.
func readMeta(txn *badger.Txn) (m record.Meta, err error) {
	value, err := readValue(txn, record.MetaKey)
	if value == nil || err != nil {
		return m, err
	}
	return record.DecodeMeta(value)
}
