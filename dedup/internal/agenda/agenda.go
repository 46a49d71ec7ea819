// Package agenda is the in-memory order of work that embedded stores share: which task is due next, and
// which must wait for an earlier one of its lane. It holds references only, about a hundred bytes a task; the
// records stay in the store.
package agenda

import (
	"container/heap"
	"slices"
	"sort"
	"time"
)

// Item refers to one open task.
type Item struct {
	Event string
	Task  int
	Seq   uint64 // the order of acceptance; decides within a lane
	Lane  string // empty, or the lane with its scope (endpoint and handler)
	Due   time.Time
	Bytes int64 // size of the payload
}

type ref struct {
	event string
	task  int
}

type entry struct {
	Item
	index   int // in the heap; -1 while not there
	running bool
}

// Agenda orders open tasks. It is not safe for concurrent use: the store's lock guards it.
type Agenda struct {
	entries map[ref]*entry
	lanes   map[string][]*entry // by Seq behind the running one; only the first can be in the heap or running
	due     dueHeap
	running int
}

// New returns an empty agenda.
func New() *Agenda {
	return &Agenda{entries: map[ref]*entry{}, lanes: map[string][]*entry{}}
}

// Len returns the number of open tasks, and of those the running ones.
func (a *Agenda) Len() (open, running int) { return len(a.entries), a.running }

// Put adds a waiting task, or changes when a known one is due; a running one stops running, and lets an
// earlier task of its lane go first that was put meanwhile.
func (a *Agenda) Put(it Item) {
	r := ref{it.Event, it.Task}
	e := a.entries[r]
	if e == nil {
		e = &entry{Item: it, index: -1}
		a.entries[r] = e
		a.join(e)
	} else if e.running {
		a.leave(e)
		a.stop(e)
		a.join(e)
	}
	e.Due = it.Due
	a.schedule(e)
}

// PutRunning adds a task that runs already; it is due again when its lease ends, at until. No other task of
// its lane may run.
func (a *Agenda) PutRunning(it Item, until time.Time) {
	a.Put(it)
	e := a.entries[ref{it.Event, it.Task}]
	if lane := a.lanes[e.Lane]; e.Lane != "" && lane[0] != e {
		a.unschedule(lane[0])
		at := slices.Index(lane, e)
		copy(lane[1:at+1], lane[:at])
		lane[0] = e
	}
	a.start(e, until)
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
	for len(out) < n && len(a.due) > 0 {
		e := a.due[0]
		if e.Due.After(now) {
			break
		}
		if len(out) > 0 && bytes < e.Bytes {
			break
		}
		bytes -= e.Bytes
		out = append(out, e.Item)
		a.start(e, until)
	}
	return out
}

// Extend moves the end of a running task's lease.
func (a *Agenda) Extend(event string, task int, until time.Time) {
	if e := a.entries[ref{event, task}]; e != nil && e.running {
		a.start(e, until)
	}
}

// NextDue returns when the next task is due; false when nothing waits.
func (a *Agenda) NextDue() (time.Time, bool) {
	if len(a.due) == 0 {
		return time.Time{}, false
	}
	return a.due[0].Due, true
}

// start marks e as running: it stays in the heap under the end of its lease, so that a lost one comes back.
func (a *Agenda) start(e *entry, until time.Time) {
	if !e.running {
		a.running++
	}
	e.running, e.Due = true, until
	if e.index >= 0 {
		heap.Fix(&a.due, e.index)
	} else {
		heap.Push(&a.due, e)
	}
}

// stop takes e out of the heap and the count of running tasks.
func (a *Agenda) stop(e *entry) {
	if e.running {
		a.running--
	}
	e.running = false
	a.unschedule(e)
}

// schedule puts e into the heap when it is the first of its lane, and else takes it out.
func (a *Agenda) schedule(e *entry) {
	first := e.Lane == "" || a.lanes[e.Lane][0] == e
	switch {
	case first && e.index >= 0:
		heap.Fix(&a.due, e.index)
	case first:
		heap.Push(&a.due, e)
	default:
		a.unschedule(e)
	}
}

func (a *Agenda) unschedule(e *entry) {
	if e.index >= 0 {
		heap.Remove(&a.due, e.index)
	}
}

// join puts e into its lane by Seq. A task that is reopened behind a later one that already runs waits
// for it, in front of all others: two tasks of a lane never run at once.
func (a *Agenda) join(e *entry) {
	if e.Lane == "" {
		return
	}
	lane := a.lanes[e.Lane]
	from := 0
	if len(lane) > 0 && lane[0].running {
		from = 1
	}
	at := from + sort.Search(len(lane)-from, func(i int) bool { return lane[from+i].Seq > e.Seq })
	if at == 0 && len(lane) > 0 {
		a.unschedule(lane[0])
	}
	a.lanes[e.Lane] = slices.Insert(lane, at, e)
}

// leave takes e out of its lane and lets the next one of the lane be due.
func (a *Agenda) leave(e *entry) {
	if e.Lane == "" {
		return
	}
	lane := a.lanes[e.Lane]
	if lane[0] == e { // mostly; it keeps long lanes cheap
		lane[0], lane = nil, lane[1:]
	} else {
		at := slices.Index(lane, e)
		lane = slices.Delete(lane, at, at+1)
	}
	if len(lane) == 0 {
		delete(a.lanes, e.Lane)
		return
	}
	a.lanes[e.Lane] = lane
	if lane[0].index < 0 {
		a.schedule(lane[0])
	}
}

type dueHeap []*entry

func (h dueHeap) Len() int { return len(h) }
func (h dueHeap) Less(i, j int) bool {
	if !h[i].Due.Equal(h[j].Due) {
		return h[i].Due.Before(h[j].Due)
	}
	return h[i].Seq < h[j].Seq
}
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
	e.index = -1
	return e
}
