package badgerstore

import (
	"time"

	"github.com/eyelet-dev/eyelet/dedup"
	"github.com/eyelet-dev/eyelet/dedup/badgerstore/internal/record"
)

// elapsed is the system clock at the start plus the time since: setting the clock moves no windows.
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

// shortenWaits corrects the waits of a record's pending tasks after the clock was set back between
// two processes. It reports whether there were any.
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

// clockSlack is how far the clock may be behind the last commit: clocks are corrected by that much.
const clockSlack = time.Minute

// longestIdle is the longest time between commits that counts: an open store commits every hour.
const longestIdle = dedup.DefaultWindow

// gaps are the times between two commits that exceed a window, oldest first. The machine was off or
// its clock jumped, which is unknown, so each one extends all windows that started before it.
type gaps []record.Gap

// gapsMax is how many gaps are kept; beyond it the oldest two are merged.
const gapsMax = 16

// rest returns the time that does not count for a window that started at began.
func (g gaps) rest(began time.Time) (rest time.Duration) {
	for _, one := range g {
		if !began.IsZero() && !began.After(one.From) {
			rest += one.Rest
		}
	}
	return rest
}

// extend moves the end of the record's window from the stored one to the effective one.
func (g gaps) extend(r *dedup.Record) { g.move(r, g.rest(r.Finished)) }

// stored reverses extend for a record that is written.
func (g gaps) stored(r dedup.Record) dedup.Record {
	g.move(&r, -g.rest(r.Finished))
	return r
}

func (gaps) move(r *dedup.Record, by time.Duration) {
	if !r.Expires.IsZero() {
		r.Expires = r.Expires.Add(by)
	}
}

// at returns the gaps that matter at a start, and the new one if there is one, since the commit at
// wall. window is the longest of any claim.
func (g gaps) at(now, wall time.Time, window time.Duration) (all gaps, found *record.Gap) {
	sum := time.Duration(0)
	if idle := now.Sub(wall); !wall.IsZero() && idle > longestIdle {
		found, sum = &record.Gap{From: wall, Rest: idle}, idle // it extends the same windows
	}
	for i := len(g) - 1; i >= 0; i-- {
		one := g[i]
		if one.End().After(now.Add(clockSlack)) { // the clock was wrong then: what is left is right now
			if one.Rest = now.Sub(one.From) - max(0, wall.Sub(one.End())); one.Rest <= longestIdle {
				continue
			}
		}
		sum += one.Rest
		if !now.After(one.From.Add(window + sum)) { // else every window that it extended has ended
			all = append(gaps{one}, all...)
		}
	}
	if found == nil {
		return all, nil
	}
	if all = append(all, *found); len(all) > gapsMax {
		all[1] = record.Gap{From: all[1].From, Rest: all[0].Rest + all[1].Rest}
		all = all[1:]
	}
	return all, found
}

// covers reports whether a time is in the last gap.
func (g gaps) covers(t time.Time) bool {
	return len(g) > 0 && t.After(g[len(g)-1].From) && !t.After(g[len(g)-1].End())
}

func (g gaps) all() (sum time.Duration) {
	for _, one := range g {
		sum += one.Rest
	}
	return sum
}

// holdsSweep suspends deletion for one window after a gap: the clock can still be corrected.
func (g gaps) holdsSweep(now time.Time) bool {
	return len(g) > 0 && now.Before(g[len(g)-1].End().Add(longestIdle))
}

// grace protects running tasks after a pause of the process longer than a lease (SIGSTOP, a frozen
// virtual machine): their workers, paused too, get a third of a lease to extend theirs.
type grace struct {
	lease time.Duration // the longest that was granted
	until time.Time
}

func (g *grace) observe(lease time.Duration) { g.lease = max(g.lease, lease) }

// resume starts the grace after a pause. A short one ends no lease that is extended in time.
func (g *grace) resume(now time.Time, pause time.Duration) {
	if pause == 0 || pause < g.lease/3 {
		return
	}
	if until := now.Add(g.lease / 3); until.After(g.until) {
		g.until = until
	}
}

// spares reports whether an expired lease counts as valid.
func (g *grace) spares(until, now time.Time) bool {
	return now.Before(g.until) && until.Before(g.until)
}

// spared returns a held record with a lease that lasts as long as the grace.
func (g *grace) spared(r dedup.Record, now time.Time) dedup.Record {
	if !r.Hold || len(r.Tasks) != 1 || r.Tasks[0].State != dedup.Running || !g.spares(r.Tasks[0].Until, now) {
		return r
	}
	t := r.Tasks[0]
	t.Until = g.until
	r.Tasks = []dedup.Task{t}
	return r
}
