package receiver

import "sync"

// pendingAnswers are the Answer handlers that run in this process, as far as somebody watches them.
type pendingAnswers struct {
	mu    sync.Mutex
	byKey map[[32]byte]*pendingAnswer
}

// pendingAnswer is one key that is watched.
type pendingAnswer struct {
	of       *pendingAnswers
	key      [32]byte
	watchers int
	done     chan struct{} // closed and replaced at each landing
}

// watch begins to watch a key; leave must follow.
func (fs *pendingAnswers) watch(key [32]byte) *pendingAnswer {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	f := fs.byKey[key]
	if f == nil {
		f = &pendingAnswer{of: fs, key: key, done: make(chan struct{})}
		if fs.byKey == nil {
			fs.byKey = map[[32]byte]*pendingAnswer{}
		}
		fs.byKey[key] = f
	}
	f.watchers++
	return f
}

// next returns the channel that is closed by the next landing. Who gets it before he asks the store misses
// none that the store did not know of.
func (f *pendingAnswer) next() <-chan struct{} {
	f.of.mu.Lock()
	defer f.of.mu.Unlock()
	return f.done
}

// leave stops watching.
func (f *pendingAnswer) leave() {
	f.of.mu.Lock()
	defer f.of.mu.Unlock()
	if f.watchers--; f.watchers == 0 {
		delete(f.of.byKey, f.key)
	}
}

// land tells all watchers of a key that its handler has ended and that the store knows how.
func (fs *pendingAnswers) notify(key [32]byte) {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	if f := fs.byKey[key]; f != nil {
		close(f.done)
		f.done = make(chan struct{})
	}
}
