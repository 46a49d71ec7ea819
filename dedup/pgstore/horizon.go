package pgstore

import (
	"slices"
	"time"
)

// horizon is where looks for work begin. While somebody holds a snapshot open, as a dump does,
// vacuum cannot remove the entries of tasks that ended from the indexes of times, and a look passes
// all of them. So it begins where the last one found nothing more.
//
// Tasks whose transaction took longer than lag, and those that another process had locked, are then
// found by the next look from the beginning.
type horizon struct {
	names []string             // of the handlers that the last look was for
	due   map[string]time.Time // by handler: none that is due earlier was left
	lost  time.Time            // no lease that ended earlier was left

	at   time.Time     // of the last look from the beginning
	took time.Duration // by that
}

const (
	// lookAgain is how often a look begins at the beginning. Such looks take a twentieth of the
	// time at most: they are rarer where they are slow.
	lookAgain = time.Second
	// lag is how long a transaction may take so that the next look finds its tasks.
	lag = time.Second
)

// look is one look for work.
type look struct {
	names []string     // of handlers, each once
	each  int          // tasks of each
	since []*time.Time // where it begins, by name
	lost  time.Time    // the same for leases that ended
	whole bool         // it begins at the beginning
	began time.Time
	took  time.Duration

	most      map[string]int // tasks that are left of handlers with a limit
	exhausted []string       // those of which none is wanted

	none   bool                 // no lease ended
	counts map[string]int       // of tasks that it found, by handler
	left   map[string]time.Time // when the first that it left is due
}

// look returns a look for tasks of handlers.
func (h *horizon) look(names []string, each int) *look {
	l := &look{
		names: names, each: each, since: make([]*time.Time, len(names)), began: time.Now(),
		counts: map[string]int{}, left: map[string]time.Time{},
	}
	if !slices.Equal(names, h.names) || l.began.Sub(h.at) >= max(lookAgain, 20*h.took) {
		l.whole = true
		return l
	}
	for i, name := range names {
		l.since[i] = moment(h.due[name])
	}
	l.lost = h.lost
	return l
}

// limit says how many tasks of handlers are wanted at most.
func (l *look) limit(most map[string]int) {
	l.most, l.exhausted = make(map[string]int, len(most)), []string{}
	for name, n := range most {
		if name = text(name); n == 0 {
			l.exhausted = append(l.exhausted, name)
		}
		l.most[name] = n
	}
}

// found notes a task, which is given out or left. The longest due come first.
func (l *look) found(handler string, due time.Time, left bool) {
	l.counts[handler]++
	if _, ok := l.left[handler]; !ok && (left || l.counts[handler] == l.each) {
		l.left[handler] = due
	}
}

// looked notes a look, once nobody else can get what was given out.
func (h *horizon) looked(l *look, now time.Time) {
	if l.whole {
		h.at, h.took, h.lost = l.began, l.took, time.Time{}
	}
	now = now.Add(-lag)
	before := h.due
	h.names, h.due = l.names, map[string]time.Time{}
	for _, name := range l.names {
		if slices.Contains(l.exhausted, name) { // nobody looked
			if !l.whole {
				h.due[name] = before[name]
			}
			continue
		}
		h.due[name] = now
		if due, ok := l.left[name]; ok && due.Before(now) {
			h.due[name] = due
		}
	}
	if l.none && len(l.exhausted) == 0 {
		h.lost = now
	}
}
