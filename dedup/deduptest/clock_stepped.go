package deduptest

import (
	"sync"
	"time"

	"github.com/eyelet-dev/eyelet/dedup"
)

// SteppedClock is a [dedup.Clock] that follows the clock of the machine with an offset. Tests
// set the offset while a store reads the clock and waits for it, as if the clock of the machine
// were set forward or back. Unlike [Clock] it moves by itself and may go back. Use it to test
// that your store loses and delays nothing when that happens, and [Clock] for everything else.
//
// An alarm rings as soon as Now reaches its time with the current offset, and waits longer if
// the clock is set back. Create a clock with [NewSteppedClock]. Its methods are safe for
// concurrent use.
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

// NewSteppedClock returns a clock without an offset.
func NewSteppedClock() *SteppedClock {
	return &SteppedClock{alarms: map[*steppedAlarm]struct{}{}, asked: make(chan struct{}, 1)}
}

// Set sets the offset to the clock of the machine: off ahead, or behind if off is negative.
// Offsets do not add up; Set(0) removes it.
func (c *SteppedClock) Set(off time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.off = off
	for a := range c.alarms {
		c.check(a)
	}
}

// Now implements [dedup.Clock]. It has no monotonic reading, which would hide the steps.
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
	c.check(a)
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

// Asked returns a channel that gets a value when Alarm was called after the last value was
// received. A test that receives from it before it calls Set steps the clock while an alarm waits.
func (c *SteppedClock) Asked() <-chan struct{} { return c.asked }

// check rings an alarm that is due, and schedules the next check otherwise.
func (c *SteppedClock) check(a *steppedAlarm) {
	if _, waits := c.alarms[a]; !waits {
		return // it rang or was cancelled while its timer waited for the lock
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
		c.check(a)
	})
}

func (c *SteppedClock) drop(a *steppedAlarm) {
	delete(c.alarms, a)
	if a.timer != nil {
		a.timer.Stop()
	}
}
