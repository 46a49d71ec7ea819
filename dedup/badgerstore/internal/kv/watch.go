package kv

import "sync"

// watches are those that have not ended.
type watches struct {
	mu  sync.Mutex
	all map[*Watch]struct{}
}

// Watch is the set of keys that commits have changed since it began. A [View] that was opened later
// shows of all other keys what the goroutine of Commit would read.
type Watch struct {
	of   *watches
	keys map[string]struct{}
}

func (w *watches) begin(one *Watch) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.all == nil {
		w.all = map[*Watch]struct{}{}
	}
	w.all[one] = struct{}{}
}

func (w *watches) end(one *Watch) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.all, one)
}

// Changed reports whether a key may have changed. At the end of the watch every key may have.
func (w *Watch) Changed(key []byte) bool {
	w.of.mu.Lock()
	defer w.of.mu.Unlock()
	if _, watched := w.of.all[w]; !watched {
		return true
	}
	_, changed := w.keys[string(key)]
	return changed
}

// note adds the keys of a commit that is in the overlay: a watch that begins later misses it, but a
// view in that watch shows it.
func (w *watches) note(entries []Entry) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for watch := range w.all {
		for i := range entries {
			watch.keys[string(entries[i].Key)] = struct{}{}
		}
	}
}
