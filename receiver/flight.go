package receiver

import "sync"

// flights are the Answer handlers that run in this process, as far as somebody watches them.
type flights struct {
	mu    sync.Mutex
	byKey map[[32]byte]*flight
}

// flight is one key that is watched.
type flight struct {
	of       *flights
	key      [32]byte
	watchers int
	landed   chan struct{} // closed and replaced at each landing
}

// watch begins to watch a key; leave must follow.
func (fs *flights) watch(key [32]byte) *flight {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	f := fs.byKey[key]
	if f == nil {
		f = &flight{of: fs, key: key, landed: make(chan struct{})}
		if fs.byKey == nil {
			fs.byKey = map[[32]byte]*flight{}
		}
		fs.byKey[key] = f
	}
	f.watchers++
	return f
}

// next returns the channel that is closed by the next landing. Who gets it before he asks the store misses
// none that the store did not know of.
func (f *flight) next() <-chan struct{} {
	f.of.mu.Lock()
	defer f.of.mu.Unlock()
	return f.landed
}

// leave stops watching.
func (f *flight) leave() {
	f.of.mu.Lock()
	defer f.of.mu.Unlock()
	if f.watchers--; f.watchers == 0 {
		delete(f.of.byKey, f.key)
	}
}

// land tells all watchers of a key that its handler has ended and that the store knows how.
func (fs *flights) land(key [32]byte) {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	if f := fs.byKey[key]; f != nil {
		close(f.landed)
		f.landed = make(chan struct{})
	}
}
