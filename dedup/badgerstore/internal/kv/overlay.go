package kv

import (
	"strings"
	"sync"

	"github.com/eyelet-dev/eyelet/dedup/badgerstore/internal/redolog"
)

// overlay holds the committed writes that are not at rest yet. Writes enter the live changeset.
// The applier freezes it, puts it at rest, and drops it; meanwhile a new one is live. A key is in
// the live changeset, else the frozen one, else at rest: asking in this order finds the newest
// value.
type overlay struct {
	mu      sync.Mutex
	changed sync.Cond // of the frozen changeset, failed and stalls
	live    *changeset
	frozen  *changeset
	last    uint64 // number of the newest commit
	end     redolog.Position
	applied uint64 // number of the last commit at rest
	at      redolog.Position
	visible uint64         // Badger's version of the last changeset at rest
	views   map[uint64]int // open transactions by their version
	failed  error          // final
	stalls  error          // why the frozen changeset cannot be put at rest at the moment
	fresh   chan struct{}  // receives when there is something to apply
	hurry   chan struct{}  // receives when a reader waits

	filter  *keyFilter // knows the keys before they can be missing here
	watches map[*Watch]struct{}
}

// changeset is a set of writes: the newest of each key.
type changeset struct {
	writes map[string]write
	bytes  int
	last   uint64           // number of its last commit
	end    redolog.Position // of that commit
}

// write is what a key gets. A nil value deletes the key.
type write struct {
	value, content []byte
	keep           bool // the content is that of the key before the changeset
}

// over returns the write that has the effect of one before it and then of w.
func (w write) over(before write) write {
	if w.keep {
		w.content, w.keep = before.content, before.keep
	}
	return w
}

// The bounds of a changeset. At them a commit waits for the applier.
const (
	changesetBytes = 32 << 20
	changesetKeys  = 64 << 10
)

func newOverlay(last uint64, end redolog.Position, version uint64, filter *keyFilter) *overlay {
	o := &overlay{
		live: newChangeset(0), last: last, end: end, applied: last, at: end, visible: version,
		views: map[uint64]int{}, fresh: make(chan struct{}, 1), hurry: make(chan struct{}, 1),
		filter: filter, watches: map[*Watch]struct{}{},
	}
	o.changed.L = &o.mu
	return o
}

// newChangeset returns an empty changeset for about as many keys as the one before.
func newChangeset(keys int) *changeset { return &changeset{writes: make(map[string]write, keys)} }

func (g *changeset) full() bool {
	return g.bytes >= changesetBytes || len(g.writes) >= changesetKeys
}

// get returns the newest write of a key; found is false if the overlay does not have the key. Its
// bytes must not be changed. If it keeps a content, that is at rest.
func (o *overlay) get(key []byte) (w write, found bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if w, found = o.live.writes[string(key)]; (!found || w.keep) && o.frozen != nil {
		if before, frozen := o.frozen.writes[string(key)]; found && frozen {
			w = w.over(before)
		} else if frozen {
			w, found = before, true
		}
	}
	return w, found
}

// add copies the writes of a commit, because their memory is used again. A filter that is begun
// later is filled from a view with this commit, and a watch that begins later has such a view.
func (o *overlay) add(n uint64, entries []Entry, end redolog.Position) {
	size, names := 0, 0
	for i := range entries {
		size += len(entries[i].Value) + len(entries[i].Content)
		names += len(entries[i].Key)
	}
	arena, keys := make([]byte, 0, size), strings.Builder{}
	keys.Grow(names)
	for i := range entries {
		keys.Write(entries[i].Key)
	}
	all := keys.String()
	keep := func(b []byte) []byte {
		if b == nil {
			return nil
		}
		from := len(arena)
		arena = append(arena, b...)
		return arena[from:len(arena):len(arena)]
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	g := o.live
	for i := range entries {
		e := &entries[i]
		key := all[:len(e.Key)]
		all = all[len(e.Key):]
		w := write{keep(e.Value), keep(e.Content), e.Keep}
		if before, found := g.writes[key]; found {
			w = w.over(before)
		}
		g.writes[key] = w
		g.bytes += len(e.Key) + len(e.Value) + len(e.Content)
	}
	o.filter.add(entries)
	for w := range o.watches {
		for i := range entries {
			w.keys[string(entries[i].Key)] = struct{}{}
		}
	}
	g.last, g.end = n, end
	o.last, o.end = n, end
	notify(o.fresh)
}

// notify sends without waiting to a channel that has room for one.
func notify(c chan<- struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// makeRoom waits while the live changeset is full.
func (o *overlay) makeRoom() error {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.wait(func() bool { return !o.live.full() })
}

// settle waits until everything committed is at rest.
func (o *overlay) settle() error {
	o.mu.Lock()
	defer o.mu.Unlock()
	n := o.last
	return o.wait(func() bool { return o.applied >= n })
}

// wait waits until something is done, and returns why it cannot be.
func (o *overlay) wait(done func() bool) error {
	for !done() && o.failed == nil && o.stalls == nil {
		notify(o.hurry)
		o.changed.Wait()
	}
	if o.failed == nil && !done() {
		return o.stalls
	}
	return o.failed
}

// freeze returns the writes to apply next, nil if there are none.
func (o *overlay) freeze() (*changeset, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.failed != nil {
		return nil, o.failed
	}
	if o.frozen == nil && len(o.live.writes) > 0 { // else it stalled
		o.frozen, o.live = o.live, newChangeset(len(o.live.writes))
		o.changed.Broadcast()
	}
	return o.frozen, nil
}

// settled notes how the frozen writes were put at rest at a version of Badger: they are, or they
// fail for good, or they stall.
func (o *overlay) settled(version uint64, failed, stalls error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.failed, o.stalls = failed, stalls; failed == nil && stalls == nil {
		o.applied, o.at, o.visible, o.frozen = o.frozen.last, o.frozen.end, version, nil
	}
	o.changed.Broadcast()
}

func (o *overlay) stalled() error {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.stalls
}

// full reports whether commits wait for the applier.
func (o *overlay) full() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.live.full()
}

// newest returns the number and the end of the newest commit.
func (o *overlay) newest() (n uint64, end redolog.Position) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.last, o.end
}

// atRest returns the number and the end of the newest commit at rest.
func (o *overlay) atRest() (n uint64, end redolog.Position) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.applied, o.at
}

// pass notes that no commit follows up to a position of the log, only marks.
func (o *overlay) pass(at redolog.Position) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.at = at
}

// Watch is the set of keys that commits have changed since it began. A [View] that was opened later
// shows of all other keys what the goroutine of Commit would read.
type Watch struct {
	overlay *overlay
	keys    map[string]struct{}
}

// Changed reports whether a key may have changed. At the end of the watch every key may have.
func (w *Watch) Changed(key []byte) bool {
	w.overlay.mu.Lock()
	defer w.overlay.mu.Unlock()
	_, watched := w.overlay.watches[w]
	_, changed := w.keys[string(key)]
	return changed || !watched
}
