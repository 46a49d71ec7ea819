package badgerstore

import (
	"sync"
	"time"

	"github.com/eyelet-dev/eyelet/dedup"
	"github.com/eyelet-dev/eyelet/dedup/badgerstore/internal/record"
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

// steadyPoll is how long an alarm of a steady clock goes without a look at the clock below, which may have been
// set back since.
const steadyPoll = time.Second

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
		look := time.NewTimer(steadyPoll)
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
func shortenWaits(r *dedup.Record, now time.Time, by time.Duration) bool {
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

// longest is the time between two commits that counts as time: an open store commits at least once an hour.
const longestIdle = dedup.DefaultWindow

// gaps are the times between two commits that are longer than a window, oldest first. The machine was off, or its
// clock has jumped ahead: nothing tells which. So windows are judged as if the gap had not been: it is added to the end
// of every window that had begun before it.
type gaps []record.Gap

// gapsMax is how many gaps are kept; the oldest two become one.
const gapsMax = 16

// rest returns how much does not count for a window that began at the time.
func (g gaps) rest(began time.Time) (rest time.Duration) {
	for _, one := range g {
		if !began.IsZero() && !began.After(one.From) {
			rest += one.Rest
		}
	}
	return rest
}

// prolong moves the end of the record's window, from what is stored to what counts.
func (g gaps) extend(r *dedup.Record) { g.move(r, g.rest(r.Finished)) }

// stored undoes prolong, for a record that is written.
func (g gaps) stored(r dedup.Record) dedup.Record {
	g.move(&r, -g.rest(r.Finished))
	return r
}

func (gaps) move(r *dedup.Record, by time.Duration) {
	if !r.Expires.IsZero() {
		r.Expires = r.Expires.Add(by)
	}
}

// at returns the gaps that matter at a start, and the new one if there is any. wall is the last commit, and window
// the longest one of any claim.
func (g gaps) at(now, wall time.Time, window time.Duration) (all gaps, found *record.Gap) {
	sum := time.Duration(0)
	for i := len(g) - 1; i >= 0; i-- {
		one := g[i]
		sum += one.Rest
		switch {
		case one.End().After(now.Add(clockSlack)): // the clock was wrong then
		case now.After(one.From.Add(window + sum)): // every window that it moved has ended
		default:
			all = append(gaps{one}, all...)
		}
	}
	if wall.IsZero() || now.Sub(wall) <= longestIdle {
		return all, nil
	}
	found = &record.Gap{From: wall, Rest: now.Sub(wall)}
	if all = append(all, *found); len(all) > gapsMax {
		all[1] = record.Gap{From: all[1].From, Rest: all[0].Rest + all[1].Rest}
		all = all[1:]
	}
	return all, found
}

// all returns how long all gaps were together.
func (g gaps) all() (sum time.Duration) {
	for _, one := range g {
		sum += one.Rest
	}
	return sum
}

// holdsSweep reports whether nothing is deleted yet: for one window after a gap a person can still set the clock.
func (g gaps) holdsSweep(now time.Time) bool {
	return len(g) > 0 && now.Before(g[len(g)-1].End().Add(longestIdle))
}

// grace keeps what runs from being given out again right after the process stood still (SIGSTOP, a frozen virtual
// machine) for longer than a lease: those who run it stood still as well, as the directory has one process, and extend
// their leases as soon as they go on. They have a third of a lease for it. The committer's own.
type grace struct {
	lease time.Duration // the longest that was given out
	until time.Time
}

// note keeps the length of a lease that is given out.
func (g *grace) note(lease time.Duration) { g.lease = max(g.lease, lease) }

// resume begins the grace after a pause. A short one ends no lease that is extended in time, and is what a busy machine
// looks like.
func (g *grace) resume(now time.Time, pause time.Duration) {
	if pause == 0 || pause < g.lease/3 {
		return
	}
	if until := now.Add(g.lease / 3); until.After(g.until) {
		g.until = until
	}
}

// spares reports whether a lease that ended is to be seen as not ended.
func (g *grace) spares(until, now time.Time) bool {
	return now.Before(g.until) && until.Before(g.until)
}

// spared is a held record as a claim should see it: with a lease that lasts as long as the grace does.
func (g *grace) spared(r dedup.Record, now time.Time) dedup.Record {
	if !r.Hold || len(r.Tasks) != 1 || r.Tasks[0].State != dedup.Running || !g.spares(r.Tasks[0].Until, now) {
		return r
	}
	t := r.Tasks[0]
	t.Until = g.until
	r.Tasks = []dedup.Task{t}
	return r
}
