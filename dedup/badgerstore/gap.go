package badgerstore

import (
	"time"

	"github.com/eyelet-dev/eyelet/dedup"
	"github.com/eyelet-dev/eyelet/dedup/badgerstore/internal/record"
)

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
func (g gaps) prolong(r *dedup.Record) { g.move(r, g.rest(r.Finished)) }

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
