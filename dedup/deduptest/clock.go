package deduptest

import (
	"sync"
	"time"

	"github.com/eyelet-dev/eyelet/dedup"
)

// Clock is a [dedup.Clock] that only moves when a test moves it. It starts at the current second,
// so that real time below the store, such as the expiry of a database, does not interfere.
type Clock struct {
	mu     sync.Mutex
	now    time.Time
	alarms map[*alarm]struct{}
}

type alarm struct {
	at    time.Time
	rings chan struct{}
}

var _ dedup.Clock = (*Clock)(nil)

// NewClock returns a clock at the current second.
func NewClock() *Clock {
	return &Clock{now: time.Now().UTC().Truncate(time.Second), alarms: map[*alarm]struct{}{}}
}

// Now implements [dedup.Clock].
func (c *Clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

// Alarm implements [dedup.Clock].
func (c *Clock) Alarm(at time.Time) (<-chan struct{}, func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	a := &alarm{at: at, rings: make(chan struct{})}
	if !at.After(c.now) {
		close(a.rings)
		return a.rings, func() {}
	}
	c.alarms[a] = struct{}{}
	return a.rings, func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		delete(c.alarms, a)
	}
}

// Advance moves the clock by d and rings the alarms that are due.
func (c *Clock) Advance(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
	for a := range c.alarms {
		if !a.at.After(c.now) {
			close(a.rings)
			delete(c.alarms, a)
		}
	}
}
