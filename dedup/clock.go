package dedup

import "time"

// Clock is the time of a store. Stores take one so that tests can move it.
type Clock interface {
	// Now returns the time. While the process runs it should never go back ([SystemClock] carries the
	// monotonic reading).
	Now() time.Time
	// Alarm returns a channel that is closed once Now has reached at, which may be in the past, and a function
	// that gives the alarm up. The moment is absolute, so a clock that moves between Now and Alarm wakes the
	// caller all the same.
	Alarm(at time.Time) (rings <-chan struct{}, stop func())
}

// SystemClock returns the clock of the machine.
func SystemClock() Clock { return systemClock{} }

type systemClock struct{}

func (systemClock) Now() time.Time { return time.Now() }

func (systemClock) Alarm(at time.Time) (<-chan struct{}, func()) {
	rings := make(chan struct{})
	timer := time.AfterFunc(time.Until(at), func() { close(rings) })
	return rings, func() { timer.Stop() }
}
