package dedup

import "time"

// Clock is the clock of a store. Tests use their own.
type Clock interface {
	// Now returns the time. It should never go back while the process runs ([SystemClock] has a
	// monotonic reading).
	Now() time.Time
	// Alarm returns a channel that is closed once Now has reached at, and a function that
	// cancels the alarm. at may be in the past: a clock that moves between Now and Alarm still
	// wakes the caller.
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
