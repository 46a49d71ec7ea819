package receiver

import "sync"

// pendingAnswers wakes the duplicates that wait for an Answer handler of this process.
type pendingAnswers struct {
	mu    sync.Mutex
	byKey map[[32]byte]*pendingAnswer
}

// pendingAnswer is one key for which duplicates wait.
type pendingAnswer struct {
	of      *pendingAnswers
	key     [32]byte
	waiters int
	stored  chan struct{} // closed and replaced each time a result is stored
}

// watch begins to wait for a key; unwatch must follow.
func (ps *pendingAnswers) watch(key [32]byte) *pendingAnswer {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	p := ps.byKey[key]
	if p == nil {
		p = &pendingAnswer{of: ps, key: key, stored: make(chan struct{})}
		ps.byKey[key] = p
	}
	p.waiters++
	return p
}

// next returns the channel that is closed when the next result is stored. Call it before
// querying the store, else a result stored in between is missed.
func (p *pendingAnswer) next() <-chan struct{} {
	p.of.mu.Lock()
	defer p.of.mu.Unlock()
	return p.stored
}

func (p *pendingAnswer) unwatch() {
	p.of.mu.Lock()
	defer p.of.mu.Unlock()
	if p.waiters--; p.waiters == 0 {
		delete(p.of.byKey, p.key)
	}
}

// notify wakes the waiters of a key once its result is stored.
func (ps *pendingAnswers) notify(key [32]byte) {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	if p := ps.byKey[key]; p != nil {
		close(p.stored)
		p.stored = make(chan struct{})
	}
}
