package kv

// Watch is the set of keys that commits have changed since it began. A [View] that was opened later
// shows of all other keys what the goroutine of Commit would read.
type Watch struct {
	overlay *overlay
	keys    map[string]struct{}
}

// Watch calls use with a watch, which grows with every key that is changed meanwhile.
func (d *DB) Watch(use func(w *Watch) error) error {
	o, w := d.overlay, &Watch{d.overlay, map[string]struct{}{}}
	o.mu.Lock()
	o.watches[w] = struct{}{}
	o.mu.Unlock()
	defer func() {
		o.mu.Lock()
		defer o.mu.Unlock()
		delete(o.watches, w)
	}()
	return use(w)
}

// Changed reports whether a key may have changed. At the end of the watch every key may have.
func (w *Watch) Changed(key []byte) bool {
	w.overlay.mu.Lock()
	defer w.overlay.mu.Unlock()
	_, watched := w.overlay.watches[w]
	_, changed := w.keys[string(key)]
	return changed || !watched
}
