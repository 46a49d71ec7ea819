package badgerstore

import (
	"slices"

	"github.com/eyelet-dev/eyelet/dedup"
	"github.com/eyelet-dev/eyelet/dedup/badgerstore/internal/kv"
	"github.com/eyelet-dev/eyelet/dedup/badgerstore/internal/record"
)

// mutation changes one key; a nil value deletes it.
type mutation = kv.Entry

// row is a cached record, immutable once it is in a batch or the cache; edit returns a copy. The
// one of a new event may change until its batch is staged, see start.
type row struct {
	place    record.Place
	rec      dedup.Record // without the description, which the event has
	event    record.Event // not loaded if only the state was read
	name     record.Name
	fresh    bool // the event itself has to be written, not only the state
	dirty    bool
	gone     bool          // deleted
	checksum uint32        // of the stored state; see record.Digest
	before   tally         // of the stored record
	given    *prepared     // of a new event, until a worker gets its payload; else nil
	task     [1]dedup.Task // memory for the only task
}

// changed reports whether a batch has changed the row, instead of only reading it.
func (r *row) changed() bool { return r != nil && r.dirty }

// edit returns a copy that may be changed and put into a batch.
func (r *row) edit() *row {
	next := *r
	next.rec.Tasks = append(next.task[:0], r.rec.Tasks...)
	next.dirty = true
	return &next
}

// record returns a copy of the record for a caller, with the description and without the body.
func (r *row) record() (dedup.Record, error) {
	rec := r.rec
	rec.Tasks, rec.Response = dedup.CloneTasks(r.rec.Tasks), r.rec.Response.Clone()
	return rec, r.event.Describe(r.place, &rec)
}

// hand returns a copy of the record for a worker, with the body if its claim gave the payload away,
// which can be handed on once. Then it comes without its response.
func (r *row) hand() (dedup.Record, error) {
	p := r.given
	if r.given = nil; p == nil {
		return r.record()
	}
	rec := r.rec
	rec.Tasks, rec.Response = append(p.tasks[:0], r.rec.Tasks...), dedup.Response{} // without a history yet
	rec.Key, rec.Aliases, rec.Payload = p.claim.Key, p.names, p.claim.Payload
	if len(p.names) == len(p.claim.Aliases) { // the memory of the claimer
		rec.Aliases = slices.Clone(p.names)
	}
	return rec, nil
}

// withoutDescription drops the fields that the encoded event holds, except the endpoint.
func withoutDescription(r dedup.Record) dedup.Record {
	r.Key, r.Aliases = dedup.Key{}, nil
	r.Payload = dedup.Payload{Endpoint: r.Payload.Endpoint}
	return r
}

// write returns what a dirty row writes, in the memory of a batch. The content stays where it is
// while only the state changes.
func (r *row) write(g gaps, memory *arena) mutation {
	w := mutation{Key: memory.keep(r.place.AppendKey(memory.rest()))}
	if r.gone {
		return w
	}
	rec := g.stored(r.rec)
	o := record.OutlineOf(&r.rec, r.event.Size)
	o.Name = r.name
	w.Value = memory.keep(record.EncodeState(memory.rest(), w.Key, &rec, o))
	r.checksum = record.Checksum(w.Value)
	if w.Keep = !r.fresh; r.fresh {
		w.Content = r.event.Encode(w.Key, r.rec.Seq)
	}
	return w
}

func (r *row) digest() uint64 { return record.Digest(r.place.Family(), r.place, r.checksum) }

// tally is what one record adds to the statistics.
type tally struct {
	record.Counts
	sum uint64 // the digest in the census
}

func (r *row) tally() (t tally) {
	if r == nil || r.gone {
		return t
	}
	t.Records, t.sum = 1, r.digest()
	for i := range r.rec.Tasks {
		switch r.rec.Tasks[i].State {
		case dedup.Pending:
			t.Pending++
		case dedup.Running:
			t.Running++
		case dedup.Dead:
			t.Dead++
		}
	}
	if r.rec.Quarantined() {
		group := dedup.QuarantineGroup{Endpoint: r.rec.Payload.Endpoint, Reason: r.rec.QuarantineReason}
		t.Quarantined = map[dedup.QuarantineGroup]int64{group: 1}
	}
	if r.rec.Open() {
		t.Backlog = r.event.Size
		if !r.rec.Hold {
			t.Waiting, t.WaitingBytes = 1, r.event.Size
		}
	}
	return t
}

func (t *tally) add(other tally, by int64) {
	t.Add(&other.Counts, by)
	t.sum += uint64(by) * other.sum //nolint:gosec // modulo 2^64, as the sum is
}

// rowCache keeps rows with open tasks, so that taking and finishing them reads nothing.
type rowCache struct {
	rows  map[record.Place]*row
	bytes int64
	max   int64
}

func (c *rowCache) keep(r *row) {
	if old := c.rows[r.place]; old != nil {
		c.bytes -= old.weight()
		delete(c.rows, r.place)
	}
	if r.gone || !r.event.Loaded() || !r.rec.Open() || c.bytes+r.weight() > c.max {
		return
	}
	if c.bytes > c.max/2 {
		r.given = nil // a backlog needs the room
	}
	r.dirty, r.fresh, r.before = false, false, r.tally()
	c.rows[r.place] = r
	c.bytes += r.weight()
}

func (r *row) weight() int64 {
	n := r.event.Memory() + r.stateSize()
	if r.given != nil {
		n *= 2
	}
	return n
}

// stateSize returns about how many bytes the state occupies in memory.
func (r *row) stateSize() int64 {
	n := 768 + int64(answerSize(r.rec.Response))
	for i := range r.rec.Tasks {
		for _, a := range r.rec.Tasks[i].History {
			n += 128 + int64(len(a.Reason)+len(a.Err)+len(a.Reply))
		}
	}
	return n
}

// generation is an event behind the newest one of its key.
type generation struct {
	seq    uint64
	number int
}

// generations holds the older generations of all keys: few, mostly dead letters whose key was
// accepted again after its window. If the newest event of a key is gone, the next continues their
// numbers. Finding them in the database would cost each new key a search in all tables.
type generations map[record.Hash][]generation

func (g generations) update(r *row) {
	h, seq := r.place.Hash, r.place.Older
	if seq == 0 {
		return
	}
	left := slices.DeleteFunc(g[h], func(old generation) bool { return old.seq == seq })
	if !r.gone {
		left = append(left, generation{seq, r.rec.Generation})
	}
	if g[h] = left; len(left) == 0 {
		delete(g, h)
	}
}

func answerSize(a dedup.Response) int {
	n := len(a.Body)
	for k, vs := range a.Header {
		n += len(k)
		for _, v := range vs {
			n += len(v)
		}
	}
	return n
}

// arena is memory for the keys and small values of a batch, which the next batch uses again.
type arena struct{ b []byte }

const arenaBytes = 64 << 10

func (a *arena) reset() {
	if a.b == nil {
		a.b = make([]byte, 0, arenaBytes)
	}
	a.b = a.b[:0]
}

// rest returns an empty slice with the unused memory behind it.
func (a *arena) rest() []byte { return a.b[len(a.b):] }

// keep marks as used what was appended to rest. If the memory was not enough, b has its own.
func (a *arena) keep(b []byte) []byte {
	if n := len(a.b) + len(b); n <= cap(a.b) {
		a.b = a.b[:n]
	}
	return b[:len(b):len(b)]
}
