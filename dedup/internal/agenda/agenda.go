// Package agenda is the in-memory order of work that embedded stores share: which task is due next, and
// which must wait for an earlier one of its lane. It holds references only, about a hundred bytes a task; the
// records stay in the store.
package agenda

import (
	"container/heap"
	"time"
)

// Item refers to one open task.
type Item struct {
	Event string
	Task  int
	Seq   uint64 // the order of acceptance; decides within a lane
	Lane  string // empty, or the lane with its scope (endpoint and handler)
	// Yields marks every task of a lane in which one that is not due yet lets later ones go first.
	Yields bool
	Due    time.Time
	Bytes  int64 // size of the payload
	// Suspect marks a task whose last attempt was interrupted: it may be the one that killed the process. Only
	// one suspect runs at a time, so that a task which kills every process that runs it uses up its own
	// attempts and not those of its neighbours.
	Suspect bool
}

// suspectTime is how long a running suspect keeps the others waiting; one that hangs does not for ever.
const suspectTime = 30 * time.Second

type ref struct {
	event string
	task  int
}

type entry struct {
	Item
	in      *dueHeap // the heap that it is in; nil while it is in none
	index   int      // its place there
	place   int      // its place among those of its lane that wait
	running bool
}

// Agenda orders open tasks. It is not safe for concurrent use: the store's lock guards it.
type Agenda struct {
	entries map[ref]*entry
	lanes   map[string]*lane
	due     dueHeap // what waits, and what runs under the end of its lease
	running int

	suspects     dueHeap // those that wait
	suspect      *entry  // the one that runs
	suspectUntil time.Time
}

// New returns an empty agenda.
func New() *Agenda {
	return &Agenda{entries: map[ref]*entry{}, lanes: map[string]*lane{}}
}

// Len returns the number of open tasks, and of those the running ones.
func (a *Agenda) Len() (open, running int) { return len(a.entries), a.running }

// Put adds a waiting task, or changes when a known one is due; a running one stops running, and lets an
// earlier task of its lane go first that was put meanwhile.
func (a *Agenda) Put(it Item) {
	r := ref{it.Event, it.Task}
	e := a.entries[r]
	if e == nil {
		e = &entry{Item: it}
		a.entries[r] = e
		a.join(e)
	} else if e.running || e.Yields {
		a.leave(e)
		a.stop(e)
		e.Due = it.Due // a place in a lane that yields depends on it
		a.join(e)
	}
	a.unschedule(e)
	e.Due, e.Suspect = it.Due, it.Suspect
	a.schedule(e)
}

// Drop removes a task that has its outcome, which lets the next one of its lane start.
func (a *Agenda) Drop(event string, task int) {
	r := ref{event, task}
	e := a.entries[r]
	if e == nil {
		return
	}
	delete(a.entries, r)
	a.leave(e)
	a.stop(e)
}

// Next returns up to n tasks that are due at now, of at most bytes in all but at least one, and marks them
// as running until the given time, which must be after now. A running task whose time has passed is due again.
func (a *Agenda) Next(now time.Time, n int, bytes int64, until time.Time) []Item {
	var out []Item
	bytes = max(bytes, 0) // far below it the sum would turn over
	for len(out) < n {
		e := a.first(now)
		if e == nil || e.Due.After(now) {
			break
		}
		if len(out) > 0 && bytes < e.Bytes {
			break
		}
		bytes -= e.Bytes
		out = append(out, e.Item)
		if e.Suspect {
			a.suspect, a.suspectUntil = e, now.Add(suspectTime)
		}
		a.start(e, until)
	}
	return out
}

// first returns the task that is due next, if there is one: a suspect only while no other runs.
func (a *Agenda) first(now time.Time) *entry {
	var e *entry
	if len(a.due) > 0 {
		e = a.due[0]
	}
	if len(a.suspects) == 0 || a.suspect != nil && now.Before(a.suspectUntil) {
		return e
	}
	if s := a.suspects[0]; e == nil || before(s, e) {
		return s
	}
	return e
}

// Extend moves the end of a running task's lease.
func (a *Agenda) Extend(event string, task int, until time.Time) {
	if e := a.entries[ref{event, task}]; e != nil && e.running {
		a.start(e, until)
	}
}

// NextDue returns when the next task is due; false when nothing waits.
func (a *Agenda) NextDue() (time.Time, bool) {
	var next time.Time
	if len(a.due) > 0 {
		next = a.due[0].Due
	}
	if len(a.suspects) > 0 {
		at := a.suspects[0].Due
		if a.suspect != nil && at.Before(a.suspectUntil) {
			at = a.suspectUntil
		}
		if next.IsZero() || at.Before(next) {
			next = at
		}
	}
	return next, len(a.due)+len(a.suspects) > 0
}

// start marks e as running: it stays in the heap under the end of its lease, so that a lost one comes back.
func (a *Agenda) start(e *entry, until time.Time) {
	if !e.running {
		a.running++
	}
	a.run(e)
	a.unschedule(e)
	e.running, e.Due = true, until
	a.schedule(e)
}

// stop takes e out of the heap and the count of running tasks.
func (a *Agenda) stop(e *entry) {
	if e.running {
		a.running--
	}
	if a.suspect == e {
		a.suspect = nil
	}
	e.running = false
	a.unschedule(e)
}

// schedule puts e, which is in no heap, into one when it is the first of its lane.
func (a *Agenda) schedule(e *entry) {
	if e.Lane != "" && a.lanes[e.Lane].first() != e {
		return
	}
	e.in = &a.due
	if e.Suspect && !e.running {
		e.in = &a.suspects
	}
	heap.Push(e.in, e)
}

func (a *Agenda) unschedule(e *entry) {
	if e.in != nil {
		heap.Remove(e.in, e.index)
		e.in = nil
	}
}

// before orders by the time when a task is due, then by acceptance.
func before(a, b *entry) bool {
	if !a.Due.Equal(b.Due) {
		return a.Due.Before(b.Due)
	}
	return a.Seq < b.Seq
}

type dueHeap []*entry

func (h dueHeap) Len() int { return len(h) }

func (h dueHeap) Less(i, j int) bool { return before(h[i], h[j]) }

func (h dueHeap) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].index, h[j].index = i, j
}
func (h *dueHeap) Push(x any) {
	e := x.(*entry)
	e.index = len(*h)
	*h = append(*h, e)
}
func (h *dueHeap) Pop() any {
	old := *h
	e := old[len(old)-1]
	old[len(old)-1] = nil
	*h = old[:len(old)-1]
	return e
}
