// Package series counts what a receiver does over time, in memory of a fixed size: per minute for
// a day, per hour for 30 days, and in the steps between that are drawn.
package series

import (
	"sync"
	"time"
)

// Step is the length of the points of one series.
type Step int

// The steps. A day has points of a minute and of a quarter of an hour, 30 days have points of an
// hour and of six.
const (
	Minute Step = iota
	Quarter
	Hour
	SixHours
	steps
)

// rings are where the points of each step are in [state].
var rings = [steps]struct{ seconds, first, size int64 }{
	{60, 0, 1440}, {900, 1440, 96}, {3600, 1536, 720}, {21600, 2256, 120},
}

const allPoints = 2376

// Seconds is the length of the step.
func (s Step) Seconds() int64 { return rings[s].seconds }

// Size is how many points are kept.
func (s Step) Size() int { return int(rings[s].size) }

// Point is what happened in one step.
type Point struct {
	Number uint32 // of the step since 1970; 0 means that nothing is known of it
	// Accepted, Repeated and Refused count deliveries, Attempts and Failed runs of handlers.
	Accepted, Repeated, Refused uint32
	Attempts, Failed            uint32
	// Waiting is the most tasks that waited, and Oldest the longest time of one, in seconds.
	Waiting, Oldest uint32
	// Accept is how long accepted deliveries took, and Run how long attempts took. Both are zero
	// without any.
	Accept, Run Quantiles
}

// Start returns when the step began.
func (p *Point) Start(s Step) time.Time {
	return time.Unix(int64(p.Number)*s.Seconds(), 0).UTC()
}

// state is the whole of a series, and its form in a file.
type state struct {
	Points [allPoints]Point
	Open   [steps]open
}

// open has the durations of the step that a ring counts now.
type open struct {
	Number      uint32
	Accept, Run histogram
}

// Series are counted at once by any number of goroutines. The zero value is empty.
type Series struct {
	mu sync.Mutex
	state
	// minute was counted since it was last added to the rings.
	minute Point
	times  open
}

// Outcome is the result of a delivery.
type Outcome int

// The outcomes.
const (
	Accepted Outcome = iota
	Repeated
	Refused
)

// Deliver counts a delivery at t, and how long an accepted one took.
func (s *Series) Deliver(t time.Time, o Outcome, took time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.turn(t)
	switch o {
	case Accepted:
		s.minute.Accepted++
		s.times.Accept.add(took)
	case Repeated:
		s.minute.Repeated++
	case Refused:
		s.minute.Refused++
	}
}

// Run counts an attempt of a handler that ended at t.
func (s *Series) Run(t time.Time, failed bool, took time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.turn(t)
	s.minute.Attempts++
	if failed {
		s.minute.Failed++
	}
	s.times.Run.add(took)
}

// Sample notes how many tasks wait at t, and when the oldest of their events was accepted. A step
// without deliveries thus differs from one in which the process did not run.
func (s *Series) Sample(t time.Time, waiting int64, oldest time.Time) {
	age := int64(0)
	if !oldest.IsZero() {
		age = int64(t.Sub(oldest) / time.Second)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.turn(t)
	s.minute.Waiting = max(s.minute.Waiting, bounded(waiting))
	s.minute.Oldest = max(s.minute.Oldest, bounded(age))
}

func bounded(n int64) uint32 { return uint32(max(0, min(n, 1<<32-1))) } //nolint:gosec // it is

// turn makes the minute of t the one that is counted.
func (s *Series) turn(t time.Time) {
	if n := number(Minute, t); n != s.minute.Number {
		s.settle()
		s.minute.Number = n
	}
}

// settle adds what was counted to the rings. A clock before 1970 has no points.
func (s *Series) settle() {
	for step := range steps {
		if s.minute.Number == 0 {
			break
		}
		s.at(step, s.minute.Start(Minute)).add(&s.minute)
		s.Open[step].Accept.addAll(&s.times.Accept)
		s.Open[step].Run.addAll(&s.times.Run)
	}
	s.minute, s.times = Point{Number: s.minute.Number}, open{}
}

// at returns the point of t, whose durations the ring counts from now on. The number of a point
// decides whether it is that of t or one of another time: a clock that jumps leaves the others as
// they are.
func (s *state) at(step Step, t time.Time) *Point {
	n, now := number(step, t), &s.Open[step]
	if now.Number != n {
		now.close(s.point(step, now.Number))
		*now = open{Number: n}
	}
	p := s.point(step, n)
	if p.Number != n {
		*p = Point{Number: n}
	}
	return p
}

func number(step Step, t time.Time) uint32 { return bounded(t.Unix() / rings[step].seconds) }

func (s *state) point(step Step, number uint32) *Point {
	r := rings[step]
	return &s.Points[r.first+int64(number)%r.size]
}

func (p *Point) add(m *Point) {
	p.Accepted += m.Accepted
	p.Repeated += m.Repeated
	p.Refused += m.Refused
	p.Attempts += m.Attempts
	p.Failed += m.Failed
	p.Waiting, p.Oldest = max(p.Waiting, m.Waiting), max(p.Oldest, m.Oldest)
}

// close sets the durations of the point that was counted.
func (o *open) close(p *Point) {
	if q, ok := o.Accept.quantiles(); ok {
		p.Accept = q
	}
	if q, ok := o.Run.quantiles(); ok {
		p.Run = q
	}
}

// Last returns the last n points before now, the oldest first. The number of a point is 0 if the
// process did not run then.
func (s *Series) Last(step Step, n int, now time.Time) []Point {
	points := make([]Point, min(n, step.Size()))
	s.mu.Lock()
	defer s.mu.Unlock()
	s.settle()
	first := int64(number(step, now)) - int64(len(points)) + 1
	for i := range points {
		at := uint32(max(0, first+int64(i))) //nolint:gosec // not above that of now
		if p := *s.point(step, at); p.Number == at {
			if now := &s.Open[step]; now.Number == at {
				now.close(&p)
			}
			points[i] = p
		}
	}
	return points
}
