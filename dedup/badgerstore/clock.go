package badgerstore

import "time"

// elapsed is the system's clock at the start and the time that has passed since then, so that a step of the
// system's clock neither ends nor prolongs a window while the process runs.
type elapsed struct{ start, wall time.Time }

func newElapsed() elapsed {
	now := time.Now()
	return elapsed{start: now, wall: now.Round(0)}
}

// Now implements dedup.Clock.
func (e elapsed) Now() time.Time { return e.wall.Add(time.Since(e.start)) }

// Alarm implements dedup.Clock.
func (e elapsed) Alarm(at time.Time) (rings <-chan struct{}, stop func()) {
	c := make(chan struct{})
	timer := time.AfterFunc(at.Sub(e.Now()), func() { close(c) })
	return c, func() { timer.Stop() }
}
