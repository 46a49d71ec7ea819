package deduptest

import (
	"sync"
	"time"

	"github.com/eyelet-dev/eyelet/dedup"
)

// SteppedClock is a [dedup.Clock] that goes with the machine's clock, by an offset that a test sets while others
// read the clock and wait for it. It stands for a clock that somebody sets forward or back: unlike [Clock] it moves
// by itself, so that leases run out and tasks become due, and it may go back. Use it to show that your store and
// what is built on it lose nothing and hold nothing up when that happens; use [Clock] for everything else.
//
// Alarms follow every step: one rings as soon as Now has reached its time by the offset of that moment, and waits
// longer when the clock is set back. Make one with [NewSteppedClock]; its methods may be called concurrently.
type SteppedClock struct {
	mu     sync.Mutex
	off    time.Duration
	alarms map[*steppedAlarm]struct{}
	asked  chan struct{}
}

type steppedAlarm struct {
	at    time.Time
	rings chan struct{}
	timer *time.Timer
}

var _ dedup.Clock = (*SteppedClock)(nil)

// NewSteppedClock returns a clock that says what the machine's says, until it is set.
func NewSteppedClock() *SteppedClock {
	return &SteppedClock{alarms: map[*steppedAlarm]struct{}{}, asked: make(chan struct{}, 1)}
}

// Set makes the clock go ahead of the machine's by off, or behind it by a negative off. It is no sum: each call
// takes the place of the one before, and Set(0) puts the clock right.
func (c *SteppedClock) Set(off time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.off = off
	for a := range c.alarms {
		c.look(a)
	}
}

// Now implements [dedup.Clock]. It carries no monotonic reading, which would hide the steps.
func (c *SteppedClock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now()
}

func (c *SteppedClock) now() time.Time { return time.Now().Round(0).Add(c.off) }

// Alarm implements [dedup.Clock].
func (c *SteppedClock) Alarm(at time.Time) (<-chan struct{}, func()) {
	a := &steppedAlarm{at: at, rings: make(chan struct{})}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.alarms[a] = struct{}{}
	c.look(a)
	select {
	case c.asked <- struct{}{}:
	default:
	}
	return a.rings, func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.drop(a)
	}
}

// Asked returns a channel that gets a value when Alarm was called since the last one was received: a test that
// receives from it before it calls Set steps the clock under somebody who waits.
func (c *SteppedClock) Asked() <-chan struct{} { return c.asked }

// look rings an alarm whose time has come, and lets others be looked at again when it should.
func (c *SteppedClock) look(a *steppedAlarm) {
	if _, waits := c.alarms[a]; !waits {
		return // it rang, or was given up, while its timer waited for the lock
	}
	if a.timer != nil {
		a.timer.Stop()
	}
	left := a.at.Sub(c.now())
	if left <= 0 {
		c.drop(a)
		close(a.rings)
		return
	}
	a.timer = time.AfterFunc(left, func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.look(a)
	})
}

func (c *SteppedClock) drop(a *steppedAlarm) {
	delete(c.alarms, a)
	if a.timer != nil {
		a.timer.Stop()
	}
}
