// Package executor runs items in goroutines that stay, so that starting one costs neither a
// goroutine nor the growth of its stack.
package executor

import (
	"slices"
	"sync"
	"time"
)

// Config configures a [Pool]. All fields are required.
type Config[T any] struct {
	// Goroutines is how many items run at once. They are started when they are first needed.
	Goroutines int
	// Run runs an item. It may block, or end its goroutine with runtime.Goexit.
	Run func(T)
	// Ended is called in place of the rest of Run after runtime.Goexit. Another goroutine has
	// taken the place of the one that ended.
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
	ready   sync.Cond // an item waits, or closed
	queue   []entry[T]
	head    int // of queue: the entries before it are empty
	idle    int // goroutines that wait for an item
	started int
	stopped bool
	closed  bool
	timer   *time.Timer // fires when the first item expires
	armed   bool
}

type entry[T any] struct {
	item  T
	since time.Time
}

// New returns a pool without goroutines.
func New[T any](c Config[T]) *Pool[T] {
	p := &Pool[T]{config: c}
	p.ready.L = &p.mu
	p.timer = time.AfterFunc(time.Hour, p.expire)
	p.timer.Stop()
	return p
}

// Add adds an item, which waits for a goroutine. It returns false, and does not add the item,
// after Stop.
func (p *Pool[T]) Add(item T) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.stopped {
		return false
	}
	if p.head > 0 && len(p.queue) == cap(p.queue) {
		p.queue, p.head = append(p.queue[:0], p.waiting()...), 0
	}
	p.queue = append(p.queue, entry[T]{item, time.Now()})
	switch {
	case len(p.waiting()) <= p.idle:
		p.ready.Signal()
	case p.started < p.config.Goroutines:
		p.started++
		go p.work()
	case !p.armed:
		p.arm()
	}
	return true
}

// Stop makes the pool accept no more items, and returns those that wait and will not run.
func (p *Pool[T]) Stop() []T {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.stopped = true
	var left []T
	for _, e := range p.waiting() {
		left = append(left, e.item)
	}
	p.queue, p.head = nil, 0
	return left
}

// Close ends the goroutines that are idle, and each other one after its item. Stop must come first.
func (p *Pool[T]) Close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closed = true
	p.timer.Stop()
	p.ready.Broadcast()
}

// waiting returns the entries that wait, oldest first.
func (p *Pool[T]) waiting() []entry[T] { return p.queue[p.head:] }

func (p *Pool[T]) work() {
	var item, none T
	running := false
	defer func() {
		if running { // runtime.Goexit
			go p.work()
			p.config.Ended(item)
		}
	}()
	for {
		if item, running = p.next(); !running {
			return
		}
		p.config.Run(item)
		item = none // an idle goroutine keeps nothing alive
	}
}

// next waits for an item; ok is false when the pool is closed.
func (p *Pool[T]) next() (item T, ok bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for len(p.waiting()) == 0 {
		if p.closed {
			return item, false
		}
		p.idle++
		p.ready.Wait()
		p.idle--
	}
	item = p.waiting()[0].item
	p.drop(1)
	return item, true
}

// drop removes the first n entries.
func (p *Pool[T]) drop(n int) {
	clear(p.waiting()[:n])
	if p.head += n; p.head == len(p.queue) {
		p.queue, p.head = p.queue[:0], 0
	}
}

// arm sets the timer for the first item.
func (p *Pool[T]) arm() {
	p.armed = true
	p.timer.Reset(time.Until(p.waiting()[0].since.Add(p.config.Patience)))
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
	waiting, n := p.waiting(), 0
	for n < len(waiting) && now.Sub(waiting[n].since) >= p.config.Patience {
		n++
	}
	out := slices.Clone(waiting[:n])
	p.drop(n)
	if p.armed = len(p.waiting()) > 0 && !p.closed; p.armed {
		p.arm()
	}
	return out
}
