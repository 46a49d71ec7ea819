package badgerstore

import (
	"sync"
	"time"

	"github.com/eyelet-dev/eyelet/dedup"
)

// clockOf returns the clock that a store lives by. The machine's clock may be set while the store is open, so it
// is read once only.
func clockOf(given dedup.Clock) dedup.Clock {
	if given == nil || given == dedup.SystemClock() {
		return newElapsed()
	}
	return &steady{clock: given}
}

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

// steady is a clock that never goes back over one that may be set back: time then goes on from where it was, so
// that what is due in a second does not wait for an hour. Nothing tells a step ahead from time that has passed.
type steady struct {
	clock dedup.Clock
	mu    sync.Mutex
	last  time.Time
	ahead time.Duration // of the clock below, because that was set back by so much
}

// steadyLook is how long an alarm of a steady clock goes without a look at the clock below, which may have been
// set back since.
const steadyLook = time.Second

// Now implements dedup.Clock.
func (s *steady) Now() time.Time {
	now, _ := s.read()
	return now
}

func (s *steady) read() (now time.Time, ahead time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now = s.clock.Now().Round(0).Add(s.ahead)
	if now.Before(s.last) {
		s.ahead += s.last.Sub(now)
		now = s.last
	}
	s.last = now
	return now, s.ahead
}

// Alarm implements dedup.Clock, but that it may ring early.
func (s *steady) Alarm(at time.Time) (rings <-chan struct{}, stop func()) {
	_, ahead := s.read()
	below, stopBelow := s.clock.Alarm(at.Add(-ahead))
	c, gone := make(chan struct{}), make(chan struct{})
	go func() {
		look := time.NewTimer(steadyLook)
		defer look.Stop()
		defer stopBelow()
		select {
		case <-below:
			close(c)
		case <-look.C:
			close(c)
		case <-gone:
		}
	}()
	return c, func() { close(gone) }
}

// setBack makes the pending tasks of a record wait no longer than they had to when the clock was set back by so
// much between two processes. It reports whether there were any.
func setBack(r *dedup.Record, now time.Time, by time.Duration) bool {
	changed := false
	for i := range r.Tasks {
		t := &r.Tasks[i]
		if t.State == dedup.Pending && t.Due.After(now) {
			changed = true
			if t.Due = t.Due.Add(-by); t.Due.Before(now) {
				t.Due = now
			}
		}
	}
	return changed
}
