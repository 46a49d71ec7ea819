package badgerstore

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/dgraph-io/badger/v4"

	"github.com/eyelet-dev/eyelet/dedup"
)

// row is a record as the committer sees it. What it says is not changed once it is in a batch or in the cache:
// edit makes the next one.
type row struct {
	place  place
	rec    dedup.Record // stripped: the fixed part has the description
	fix    fixed        // without its bytes where only the outline was read
	fresh  bool         // the event itself has to be written
	dirty  bool
	gone   bool   // deleted
	seal   uint32 // the checksum of the stored value that has the newest state; see census
	before tally
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
		t.backlog = r.fix.size
		if !r.rec.Hold {
			t.waiting, t.waitingBytes = 1, r.fix.size
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
	return rec, r.fix.describe(r.place, &rec)
}

// strip leaves out what the fixed part of the row says, but for what the row itself is asked.
func strip(r dedup.Record) dedup.Record {
	r.Key, r.Aliases = dedup.Key{}, nil
	r.Payload = dedup.Payload{Endpoint: r.Payload.Endpoint}
	return r
}

// aliasOf says which event an alias belongs to.
type aliasOf struct {
	hash hash
	seq  uint64
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
	rows      map[place]*row
	aliases   map[hash]aliasOf
	traces    map[string]traceOf // by their keys
	evicted   uint64             // as in meta
	chunks    []rawWrite
	forgotten []*row // whose place may have a new row
	announced []*row // new ones that the agenda knows already
	retired   generations
	undo      []func()
	bytes     int64
	always    bool      // commit even when nothing changed
	reclaimed time.Time // space was given back; zero when it was not

	next        meta    // what the commit writes
	change      tally   // of all rows
	aliasChange census  // of the aliases
	uncounted   bool    // what it replaces is damaged: the census is unknown until everything is counted anew
	recount     *census // what the store held before the batch, counted anew

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
		s: s, txn: s.db.NewTransaction(true), now: s.now(), seq: s.meta.seq, token: s.meta.token,
		sums: sums{window: s.meta.window}, rows: make(map[place]*row, ops), aliases: make(map[hash]aliasOf, ops), disk: s.disk.state(),
		traces: make(map[string]traceOf, ops), evicted: s.meta.evicted,
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

func (b *batch) putAlias(h hash, a aliasOf) {
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
func (b *batch) at(p place) (*row, error) {
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
	h, seq, ok := parseEventID(id)
	if !ok {
		return nil, nil
	}
	return b.find(h, seq)
}

// find returns the row of the event with a sequence under a hash, nil when there is none.
func (b *batch) find(h hash, seq uint64) (*row, error) {
	r, err := b.at(place{hash: h})
	if err != nil || r != nil && r.rec.Seq == seq {
		return r, err
	}
	return b.at(place{hash: h, older: seq})
}

// owner says which event an alias belongs to; ok is false when nobody has it.
func (b *batch) owner(h hash) (a aliasOf, ok bool, err error) {
	if a, ok = b.aliases[h]; ok {
		return a, !a.gone, nil
	}
	return readAlias(b.txn, h)
}

// alias returns the row of the event that an alias belongs to, nil when there is none.
func (b *batch) alias(h hash) (*row, error) {
	a, ok, err := b.owner(h)
	if err != nil || !ok {
		return nil, err
	}
	return b.find(a.hash, a.seq)
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
		h := hashOf(a)
		if owner, ok, err := b.owner(h); err == nil && ok && owner.hash == r.place.hash && owner.seq == rec.Seq {
			b.putAlias(h, aliasOf{gone: true})
		}
	}
	b.removed += r.fix.size
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
	if r.fix.kind != bodyChunks {
		return
	}
	n := len(b.chunks)
	b.undo = append(b.undo, func() { b.chunks = b.chunks[:n] })
	for i := range chunkCount(r.fix.size) {
		b.chunks = append(b.chunks, rawWrite{key: r.place.hash.chunkKey(r.fix.body, i)})
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
		key := h.key(familyAlias)
		var value []byte
		if !a.gone {
			value = encodeAlias(key, a)
		}
		b.countAlias(h, value)
		set(key, value)
	}
	for name, t := range b.traces {
		if key := []byte(name); t.gone {
			set(key, nil)
		} else {
			set(key, encodeTrace(key, t.Trace))
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
	set(metaKey, encodeMeta(b.next))
	return true, err
}

// meta is what the commit of the batch makes of the counters.
func (b *batch) meta() meta {
	m := b.s.meta
	m.commit++
	m.seq, m.token, m.wall, m.window, m.evicted = b.seq, b.token, b.now, b.window, b.evicted
	m.removed += b.removed
	if !b.reclaimed.IsZero() {
		m.reclaimed, m.removed = b.reclaimed, b.removed
	}
	m.census = b.census()
	return m
}

// write stages one row. The state of an event is stored beside it as well, so that a start reads no bodies and a sweep
// no events.
func (r *row) write(set func(key, value []byte), g gaps) {
	rec := g.stored(r.rec)
	older := r.place.older != 0
	if r.gone {
		set(r.place.key(), nil)
		if !older {
			set(r.place.hash.key(familyState), nil)
		}
		return
	}
	if r.fresh || older {
		key := r.place.key()
		value := encodeEvent(key, r.fix, &rec)
		r.seal = sealOf(value)
		set(key, value)
	}
	if !older {
		key := r.place.hash.key(familyState)
		value := encodeState(key, &rec, outlineOf(r))
		r.seal = sealOf(value)
		set(key, value)
	}
}

// readRow reads a row from the database, nil when there is none. Its window ends when it does by the store's gaps.
func (s *Store) readRow(txn *badger.Txn, p place) (*row, error) {
	r, err := readRow(txn, p)
	if r != nil {
		s.gaps.prolong(&r.rec)
	}
	return r, err
}

// readRow reads a row as it is stored, nil when there is none.
func readRow(txn *badger.Txn, p place) (*row, error) {
	key := p.key()
	value, err := readValue(txn, key)
	if value == nil || err != nil {
		return nil, err
	}
	r := &row{place: p, seal: sealOf(value)}
	if r.fix, err = decodeEvent(key, value, &r.rec); err != nil {
		return nil, err
	}
	if p.older == 0 {
		if err := r.readState(txn); err != nil {
			return nil, err
		}
	}
	r.rec.Event = eventID(p.hash, r.rec.Seq)
	described := r.rec
	if err := r.fix.describe(p, &described); err != nil {
		return nil, err
	}
	r.rec.Payload.Endpoint = described.Payload.Endpoint
	return r, nil
}

func (r *row) readState(txn *badger.Txn) error {
	key := r.place.hash.key(familyState)
	value, err := readValue(txn, key)
	if value == nil || err != nil {
		return err
	}
	claimed := r.rec.Seq
	r.seal = sealOf(value)
	if _, _, err := decodeState(key, value, &r.rec); err != nil {
		return err
	}
	if r.rec.Seq != claimed {
		return damaged(key, fmt.Sprintf("it is of event %d, not %d", r.rec.Seq, claimed), nil)
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
			return nil, damaged(key, "it cannot be found", err)
		}
		value, err := item.ValueCopy(nil)
		switch {
		case err == nil && value == nil:
			return []byte{}, nil
		case err == nil:
			return value, nil
		case try == readTries:
			return nil, damaged(key, "it cannot be read", err)
		}
	}
}

func encodeAlias(key []byte, a aliasOf) []byte {
	b := make([]byte, 1, 1+hashSize+8+sumSize)
	b[0] = codecVersion
	b = append(b, a.hash[:]...)
	return seal(key, binary.LittleEndian.AppendUint64(b, a.seq))
}

func readAlias(txn *badger.Txn, h hash) (a aliasOf, ok bool, err error) {
	key := h.key(familyAlias)
	value, err := readValue(txn, key)
	if value == nil || err != nil {
		return a, false, err
	}
	content, err := unseal(key, value)
	if err != nil {
		return a, false, err
	}
	if len(content) != 1+hashSize+8 {
		return a, false, damaged(key, "it has the wrong length", nil)
	}
	copy(a.hash[:], content[1:])
	a.seq = binary.LittleEndian.Uint64(content[1+hashSize:])
	return a, true, nil
}
