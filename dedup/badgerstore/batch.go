package badgerstore

import (
	"slices"
	"time"

	"github.com/eyelet-dev/eyelet/dedup"
	"github.com/eyelet-dev/eyelet/dedup/badgerstore/internal/record"
	"github.com/eyelet-dev/eyelet/dedup/internal/taskqueue"
)

// batch is a set of operations that become durable together. Each sees the effects of those before
// it; nothing else sees any before the commit. A batch reads every key once.
type batch struct {
	c *committer
	*changes
	now       time.Time
	disk      diskState
	seq       uint64
	token     uint64
	moved     []mutation // values of moveOps
	early     []*row     // new, and already in the task queue
	started   int        // tasks
	reads     int        // of events, to start their tasks
	states    int64      // bytes of the states of those that are in memory
	always    bool       // commit even without changes
	reclaimed time.Time  // when space was reclaimed, if it was
	recounted *recount
	revocable

	// Results of stage.
	next   record.Meta
	change tally

	passed []taskqueue.Item[record.Hash] // taken, but not started, because the batch has changed them
}

// revocable is what an operation that fails leaves as it was, beside the changes.
type revocable struct {
	evicted               uint64     // as in record.Meta
	bodies                []mutation // large ones
	forgotten             []*row     // deleted; their place may have a new row
	retired               []*row     // older generations since this batch
	accepted              int64
	removed               int64 // bytes of bodies and keys that were deleted
	waiting, waitingBytes int64 // new events, for the bounds of the backlog
	window                time.Duration
	uncounted             bool // a damaged value is replaced: the census is unknown until everything is counted again
}

// recount is what the store holds, counted again.
type recount struct {
	census record.Census
	counts record.Counts
}

type aliasEntry struct {
	record.Alias
	exists   bool
	dirty    bool
	stored   bool   // in the database
	checksum uint32 // of the stored value
	damaged  bool   // the stored value is
}

type traceEntry struct {
	dedup.Trace
	dirty bool
	gone  bool
}

// changes are what a batch reads and changes. The committer uses their memory for the next batch.
type changes struct {
	rows    map[record.Place]*row // nil for a place without a record
	aliases map[record.Hash]aliasEntry
	traces  map[record.TraceID]traceEntry
	notes   map[record.Hash]noteEntry

	// What the current operation has replaced.
	oldRows    []replaced[record.Place, *row]
	oldAliases []replaced[record.Hash, aliasEntry]
	oldTraces  []replaced[record.TraceID, traceEntry]
	oldNotes   []replaced[record.Hash, noteEntry]
}

func newChanges() changes {
	return changes{
		rows: map[record.Place]*row{}, aliases: map[record.Hash]aliasEntry{}, traces: map[record.TraceID]traceEntry{},
		notes: map[record.Hash]noteEntry{},
	}
}

// replaced is an entry of a map before it was changed.
type replaced[K comparable, V any] struct {
	key K
	old V
	had bool
}

// swap changes a map of the batch until a rollback.
func swap[K comparable, V any](log *[]replaced[K, V], m map[K]V, key K, v V) {
	old, had := m[key]
	*log = append(*log, replaced[K, V]{key, old, had})
	m[key] = v
}

func rollback[K comparable, V any](log []replaced[K, V], m map[K]V) {
	for _, r := range slices.Backward(log) {
		if r.had {
			m[r.key] = r.old
		} else {
			delete(m, r.key)
		}
	}
}

// begin forgets what earlier operations have replaced.
func (c *changes) begin() {
	clear(c.oldRows)
	c.oldRows, c.oldAliases, c.oldTraces = c.oldRows[:0], c.oldAliases[:0], c.oldTraces[:0]
	c.oldNotes = c.oldNotes[:0]
}

// rollback removes the changes of the current operation.
func (c *changes) rollback() {
	rollback(c.oldRows, c.rows)
	rollback(c.oldAliases, c.aliases)
	rollback(c.oldTraces, c.traces)
	rollback(c.oldNotes, c.notes)
	c.begin()
}

func (c *committer) newBatch() *batch {
	clear(c.changes.rows)
	clear(c.changes.aliases)
	clear(c.changes.traces)
	clear(c.changes.notes)
	c.changes.begin()
	return &batch{
		c: c, changes: &c.changes, now: c.now(), disk: c.disk.state(),
		seq: c.meta.Seq, token: c.meta.Token, revocable: revocable{evicted: c.meta.Evicted, window: c.meta.Window},
	}
}

// decide applies the operations; one that fails leaves nothing in the batch.
func (b *batch) decide(ops []op) {
	for _, o := range ops {
		b.begin()
		before := b.revocable
		err := o.apply(b)
		if err != nil {
			b.rollback()
			b.revocable = before
		}
		o.self().err = err
	}
}

func (b *batch) put(r *row) { swap(&b.oldRows, b.rows, r.place, r) }

// at returns the row at a place, nil if there is none.
func (b *batch) at(p record.Place) (*row, error) {
	r, known := b.rows[p]
	if !known {
		if r := b.c.cache.rows[p]; r != nil {
			return r, nil
		}
		if b.c.db.Lacks(p.Key()) {
			b.rows[p] = nil
			return nil, nil
		}
		var err error
		if r, err = b.c.readRow(b.c.db, p); err != nil {
			b.c.damage(err)
			return nil, err
		}
		if r != nil {
			r.before = r.tally()
		}
		b.rows[p] = r
	}
	if r == nil || r.gone {
		return nil, nil
	}
	return r, nil
}

// event returns the row of an event, nil if there is none.
func (b *batch) event(id string) (*row, error) {
	h, seq, ok := record.ParseEventID(id)
	if !ok {
		return nil, nil
	}
	return b.find(h, seq)
}

// find returns the row of the event with a sequence under a hash, nil if there is none.
func (b *batch) find(h record.Hash, seq uint64) (*row, error) {
	r, err := b.at(record.Place{Hash: h})
	if err != nil || r != nil && r.rec.Seq == seq {
		return r, err
	}
	return b.at(record.Place{Hash: h, Older: seq})
}

// alias returns an alias as it is in the batch, else as it is stored.
func (b *batch) alias(h record.Hash) (aliasEntry, error) {
	a, known := b.aliases[h]
	if known {
		return a, nil
	}
	if b.c.db.Lacks(h.Key(record.FamilyAlias)) {
		b.aliases[h] = a
		return a, nil
	}
	a, err := readAlias(b.c.db, h)
	if err != nil {
		return aliasEntry{damaged: true}, err
	}
	b.aliases[h] = a
	return a, nil
}

func (b *batch) putAlias(h record.Hash, a record.Alias) { b.setAlias(h, a, true) }

func (b *batch) dropAlias(h record.Hash) { b.setAlias(h, record.Alias{}, false) }

func (b *batch) setAlias(h record.Hash, a record.Alias, exists bool) {
	next, _ := b.alias(h) // a damaged one is replaced
	next.Alias, next.exists, next.dirty = a, exists, true
	swap(&b.oldAliases, b.aliases, h, next)
}

// aliased returns the row of the event that an alias belongs to, nil if there is none.
func (b *batch) aliased(h record.Hash) (*row, error) {
	a, err := b.alias(h)
	if err != nil || !a.exists {
		return nil, err
	}
	return b.find(a.Hash, a.Seq)
}

func (b *batch) trace(id record.TraceID) dedup.Trace {
	if t, known := b.traces[id]; known {
		return t.Trace
	}
	if b.c.db.Lacks(id.Key()) {
		b.traces[id] = traceEntry{}
		return dedup.Trace{}
	}
	t, err := readTrace(b.c.db, id.Key())
	if err != nil {
		b.c.damage(err)
		return assumedTrace(b.now)
	}
	b.traces[id] = traceEntry{Trace: t}
	return t
}

func (b *batch) putTrace(id record.TraceID, t dedup.Trace) {
	swap(&b.oldTraces, b.traces, id, traceEntry{Trace: t, dirty: true, gone: t.Count == 0})
}

func (b *batch) firstDay() dedup.Day { return b.c.firstDay(b.c.meta.Since, b.evicted, b.now) }

// forget changes the trace of a deleted row's key. That of an older generation is the newer one's.
func (b *batch) forget(r *row, change func(dedup.Trace) dedup.Trace) {
	if r.place.Older != 0 {
		return
	}
	id := r.place.Hash.TraceID()
	if before := b.trace(id); before.Count > 0 {
		b.putTrace(id, change(before))
	}
}

// remove removes a row with those of its aliases that it still owns, and forgets it if it was never
// accepted.
func (b *batch) remove(r *row) error {
	rec, err := r.record()
	if err != nil {
		return err
	}
	if r.rec.Unaccepted() {
		b.forget(r, dedup.Trace.Without)
	}
	b.discard(r, rec.Aliases)
	return nil
}

// discard removes a row. The trace of its key stays as it is.
func (b *batch) discard(r *row, aliases []dedup.Key) {
	rec, next := &r.rec, r.edit()
	next.gone = true
	b.put(next)
	b.forgotten = append(b.forgotten, next)
	b.dropBody(r)
	b.dropAliases(record.Alias{Hash: r.place.Hash, Seq: rec.Seq}, aliases)
	b.removed += r.event.Size
}

// putTrimmed puts a changed row, without its body if the record no longer needs it.
func (b *batch) putTrimmed(next *row) {
	if next.rec.Dropped() && next.event.Kind != record.BodyDropped {
		b.dropBody(next)
		next.event, next.fresh = next.event.WithoutBody(record.BodyDropped), true
		b.removed += next.event.Size
	}
	b.put(next)
}

// putBody stores the large body of a claim, if it has one, for the event with a sequence.
func (b *batch) putBody(p *prepared, seq uint64) {
	if p.body.Len() > 0 {
		key := p.hash.BodyKey(seq)
		b.bodies = append(b.bodies, mutation{Key: key, Value: p.body.Encode(key)})
	}
}

// dropBody deletes the large body of an event, if it has one.
func (b *batch) dropBody(r *row) {
	if r.event.Kind == record.BodyApart {
		b.bodies = append(b.bodies, mutation{Key: r.place.Hash.BodyKey(r.rec.Seq)})
	}
}

// lastGeneration returns the highest number among the older generations of a key, or 0.
func (b *batch) lastGeneration(h record.Hash) int {
	last := 0
	for _, old := range b.c.older[h] {
		if r := b.rows[record.Place{Hash: h, Older: old.seq}]; r == nil || !r.gone {
			last = max(last, old.number)
		}
	}
	for _, r := range b.retired {
		if r.place.Hash == h && !b.rows[r.place].gone {
			last = max(last, r.rec.Generation)
		}
	}
	return last
}

// keyBytes is about what a deleted key takes in the tables, with its deletion.
const keyBytes = 64

// stage collects the writes in committer.writes. It reports false if there is nothing to write.
func (b *batch) stage() bool {
	writes, memory := b.c.writes[:0], &b.c.memory
	memory.reset()
	for _, r := range b.rows {
		if r.changed() {
			writes = append(writes, r.write(b.c.gaps, memory))
			b.change.add(r.tally(), 1)
			b.change.add(r.before, -1)
		}
	}
	var aliases record.Census
	for h, a := range b.aliases {
		if a.dirty {
			writes = append(writes, a.mutation(h, memory))
			b.uncounted = b.uncounted || a.damaged
			a.count(h, &aliases, writes[len(writes)-1].Value)
		}
	}
	for id, t := range b.traces {
		if t.dirty {
			w := mutation{Key: memory.keep(id.AppendKey(memory.rest()))}
			if !t.gone {
				w.Value = memory.keep(record.EncodeTrace(memory.rest(), w.Key, t.Trace))
			}
			writes = append(writes, w)
		}
	}
	for h, n := range b.notes {
		if n.dirty {
			writes = append(writes, n.mutation(h, memory))
		}
	}
	writes = append(writes, b.bodies...)
	writes = append(writes, b.unstaged(writes)...)
	b.c.writes = writes
	if len(writes) == 0 && !b.always {
		return false
	}
	for i := range writes {
		if writes[i].Value == nil {
			b.removed += keyBytes
		}
	}
	b.next = b.meta(aliases)
	b.c.writes = append(writes, mutation{Key: record.MetaKey, Value: b.next.Encode()})
	return true
}

// unstaged returns the moved values whose keys the batch does not change.
func (b *batch) unstaged(writes []mutation) []mutation {
	if len(b.moved) == 0 {
		return nil
	}
	staged := make(map[string]bool, len(writes))
	for _, w := range writes {
		staged[string(w.Key)] = true
	}
	return slices.DeleteFunc(b.moved, func(w mutation) bool { return staged[string(w.Key)] })
}

func (a *aliasEntry) mutation(h record.Hash, memory *arena) mutation {
	w := mutation{Key: memory.keep(h.AppendKey(memory.rest(), record.FamilyAlias))}
	if a.exists {
		w.Value = memory.keep(a.Encode(memory.rest(), w.Key))
	}
	return w
}

// count adds to the census what writing the alias changes.
func (a *aliasEntry) count(h record.Hash, change *record.Census, value []byte) {
	p := record.Place{Hash: h}
	if a.stored {
		change.Add(^uint64(0), -record.Digest(record.FamilyAlias, p, a.checksum))
	}
	if value != nil {
		change.Add(1, record.Digest(record.FamilyAlias, p, record.Checksum(value)))
	}
}

func (b *batch) meta(aliases record.Census) record.Meta {
	m := b.c.meta
	m.Commit++
	m.Seq, m.Token, m.Wall, m.Window, m.Evicted = b.seq, b.token, b.now, b.window, b.evicted
	m.Removed = max(0, m.Removed+b.removed)
	if !b.reclaimed.IsZero() {
		m.Reclaimed = b.reclaimed
	}
	if b.recounted != nil {
		m.Census, m.Counts = b.recounted.census, b.recounted.counts
	}
	m.Counts.Add(&b.change.Counts, 1)
	if b.uncounted {
		m.Census = record.Census{}
	} else if m.Census.Known {
		m.Census.Add(uint64(b.change.Records), b.change.sum) //nolint:gosec // a negative number subtracts, modulo 2^64
		m.Census.Add(aliases.Entries, aliases.Sum)
	}
	return m
}
