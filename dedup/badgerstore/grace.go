package badgerstore

import (
	"time"

	"github.com/eyelet-dev/eyelet/dedup"
)

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
