package kv

import (
	"sync"

	"github.com/eyelet-dev/eyelet/dedup/badgerstore/internal/redolog"
)

// overlay holds the committed writes that are not at rest yet. Writes enter the live changeset.
// The applier freezes it, puts it at rest, and drops it; meanwhile a new one is live. A key is in
// the live changeset, else the frozen one, else at rest: asking in this order finds the newest
// value.
type overlay struct {
	mu     sync.Mutex
	room   sync.Cond
	live   *changeset
	frozen *changeset
	last   uint64 // number of the newest commit
	end    redolog.Position
	failed error
	stalls error         // why the frozen changeset cannot be put at rest at the moment
	fresh  chan struct{} // receives when there is something to apply
}

// changeset is a set of writes with the newest value of each key; nil is a deleted one.
type changeset struct {
	values map[string][]byte
	bytes  int
	last   uint64           // number of its last commit
	end    redolog.Position // of that commit
}

// The bounds of a changeset. At them a commit waits for the applier.
const (
	changesetBytes = 32 << 20
	changesetKeys  = 64 << 10
)

func newOverlay(last uint64, end redolog.Position) *overlay {
	o := &overlay{live: newChangeset(0), last: last, end: end, fresh: make(chan struct{}, 1)}
	o.room.L = &o.mu
	return o
}

// newChangeset returns an empty changeset for about as many keys as the one before.
func newChangeset(keys int) *changeset { return &changeset{values: make(map[string][]byte, keys)} }

func (g *changeset) full() bool {
	return g.bytes >= changesetBytes || len(g.values) >= changesetKeys
}

// get returns the newest value of a key. found is false if the overlay does not have the key; a
// deleted key is found and nil. The value must not be changed.
func (o *overlay) get(key []byte) (value []byte, found bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if value, found = o.live.values[string(key)]; !found && o.frozen != nil {
		value, found = o.frozen.values[string(key)]
	}
	return value, found
}

// add copies the writes of a commit, because their memory is used again.
func (o *overlay) add(entries []Entry, n uint64, end redolog.Position) {
	size := 0
	for _, e := range entries {
		size += len(e.Value)
	}
	arena := make([]byte, 0, size)
	o.mu.Lock()
	defer o.mu.Unlock()
	g := o.live
	for _, e := range entries {
		var value []byte
		if e.Value != nil {
			from := len(arena)
			arena = append(arena, e.Value...)
			value = arena[from:len(arena):len(arena)]
		}
		g.values[string(e.Key)] = value
		g.bytes += len(e.Key) + len(value)
	}
	g.last, g.end = n, end
	o.last, o.end = n, end
	select {
	case o.fresh <- struct{}{}:
	default:
	}
}

// makeRoom waits while the live changeset is full.
func (o *overlay) makeRoom() error {
	o.mu.Lock()
	defer o.mu.Unlock()
	for o.live.full() && o.failed == nil && o.stalls == nil {
		o.room.Wait()
	}
	if o.failed == nil && o.live.full() {
		return o.stalls
	}
	return o.failed
}

// freeze returns the writes to apply next, nil if there are none.
func (o *overlay) freeze() *changeset {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.frozen != nil { // it stalled
		return o.frozen
	}
	if len(o.live.values) == 0 {
		return nil
	}
	o.frozen, o.live = o.live, newChangeset(len(o.live.values))
	o.room.Broadcast()
	return o.frozen
}

// drop forgets the frozen writes, which are at rest.
func (o *overlay) drop() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.frozen, o.stalls = nil, nil
}

// stall lets commits that wait for the applier fail until it continues.
func (o *overlay) stall(err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.stalls = err
	o.room.Broadcast()
}

func (o *overlay) fail(err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.failed = err
	o.room.Broadcast()
}

// full reports whether commits wait for the applier.
func (o *overlay) full() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.live.full()
}

// committed returns the number of the newest commit.
func (o *overlay) committed() uint64 {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.last
}

// position returns the end of the newest commit.
func (o *overlay) position() redolog.Position {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.end
}
