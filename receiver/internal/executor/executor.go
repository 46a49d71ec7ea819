// Package executor runs items in a bounded number of goroutines.
package executor

import (
	"slices"
	"sync"
	"time"
)

// Config configures a [Pool]. All fields are required.
type Config[T any] struct {
	// Goroutines is how many items run at once.
	Goroutines int
	// Run runs an item. It may block, or end its goroutine with runtime.Goexit.
	Run func(T)
	// Ended is called in place of the rest of Run after runtime.Goexit.
	Ended func(T)
	// Patience is how long an item waits for a goroutine. Expired is called for those that waited
	// longer, with how long, and they do not run.
	Patience time.Duration
	Expired  func(item T, waited time.Duration)
}

// Pool runs items in the order in which they were added. Create one with [New].
type Pool[T any] struct {
	config Config[T]

	mu      sync.Mutex
	waiting []entry[T] // oldest first
	running int
	stopped bool
	timer   *time.Timer // fires when the first item expires, or before
}

type entry[T any] struct {
	item  T
	since time.Time
}

// New returns a pool without goroutines.
func New[T any](c Config[T]) *Pool[T] {
	p := &Pool[T]{config: c}
	p.timer = time.AfterFunc(time.Hour, p.expire)
	p.timer.Stop()
	return p
}

// Add adds an item, which waits while as many run as may. It returns false, and does not add the
// item, after Stop.
func (p *Pool[T]) Add(item T) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.stopped {
		return false
	}
	if p.running < p.config.Goroutines {
		p.running++
		go p.work(item)
		return true
	}
	if p.waiting = append(p.waiting, entry[T]{item, time.Now()}); len(p.waiting) == 1 {
		p.timer.Reset(p.config.Patience)
	}
	return true
}

// Stop makes the pool accept no more items, and returns those that wait and will not run.
func (p *Pool[T]) Stop() []T {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.stopped = true
	p.timer.Stop()
	var left []T
	for _, e := range p.waiting {
		left = append(left, e.item)
	}
	p.waiting = nil
	return left
}

// work runs an item and then those that wait.
func (p *Pool[T]) work(item T) {
	ended := true
	defer func() {
		if !ended {
			return
		}
		if next, ok := p.next(); ok { // after runtime.Goexit
			go p.work(next)
		}
		p.config.Ended(item)
	}()
	for ok := true; ok; item, ok = p.next() {
		p.config.Run(item)
	}
	ended = false
}

// next removes the oldest item that waits; without one, ok is false and a goroutine ends.
func (p *Pool[T]) next() (item T, ok bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.waiting) == 0 {
		p.running--
		return item, false
	}
	item, p.waiting[0] = p.waiting[0].item, entry[T]{}
	p.waiting = p.waiting[1:]
	return item, true
}

func (p *Pool[T]) expire() {
	for _, e := range p.expired(time.Now()) {
		p.config.Expired(e.item, time.Since(e.since))
	}
}

// expired removes the items that have waited too long, and sets the timer for the next one.
func (p *Pool[T]) expired(now time.Time) []entry[T] {
	p.mu.Lock()
	defer p.mu.Unlock()
	n := 0
	for n < len(p.waiting) && now.Sub(p.waiting[n].since) >= p.config.Patience {
		n++
	}
	out := slices.Clone(p.waiting[:n])
	if p.waiting = slices.Delete(p.waiting, 0, n); len(p.waiting) > 0 {
		p.timer.Reset(time.Until(p.waiting[0].since.Add(p.config.Patience)))
	}
	return out
}
