// Package agenda is the in-memory order of work that embedded stores share: which task is due next, and
// which must wait for an earlier one of its lane. It holds references only, about 120 bytes a task besides the
// reference of its store; the records stay in the store.
package agenda

import (
	"container/heap"
	"math"
	"time"
)

// Item refers to one open task. E is how the store finds its event.
type Item[E any] struct {
	Event E
	Seq   uint64 // the order of acceptance; identifies the event, and decides within a lane
	Task  int
	Lane  string // empty, or the lane with its scope (endpoint and handler)
	// Yields marks every task of a lane in which one that is not due yet lets later ones go first.
	Yields   bool
	Due      time.Time
	Accepted time.Time // when the event was accepted
	Bytes    int64     // size of the payload
	// Suspect marks a task whose last attempt was interrupted: it may be the one that killed the process. Only
	// one suspect runs at a time, so that a task which kills every process that runs it uses up its own
	// attempts and not those of its neighbours.
	Suspect bool
}

// suspectTime is how long a running suspect keeps the others waiting; one that hangs does not for ever.
const suspectTime = 30 * time.Second

// entry is an open task, packed: a backlog has millions of them. Times are nanoseconds since 1970.
type entry[E any] struct {
	event         E
	task          int32
	seq           uint64
	due, accepted int64
	lane          *lane[E]  // nil outside of lanes
	next          *entry[E] // of the other tasks of the event
	bytes         uint32    // at most so many; a larger payload counts as that
	index         int32     // the place in the heap that it is in
	place         int32     // the place among those of its lane that wait
	in            heapName
	yields        bool
	suspect       bool
	running       bool
}

// heapName says in which heap an entry is.
type heapName int8

const (
	inNone heapName = iota
	inDue
	inSuspects
)

// Agenda orders open tasks. It is not safe for concurrent use: the store's lock guards it.
type Agenda[E any] struct {
	events  map[uint64]*entry[E] // the first task of each event, by sequence
	lanes   map[string]*lane[E]
	due     dueHeap[E] // what waits, and what runs under the end of its lease
	open    int
	running int
	oldest  seqHeap // of the events, and of not many more that are gone

	suspects     dueHeap[E] // those that wait
	suspect      *entry[E]  // the one that runs
	suspectUntil int64
}

// New returns an empty agenda.
func New[E any]() *Agenda[E] {
	return &Agenda[E]{events: map[uint64]*entry[E]{}, lanes: map[string]*lane[E]{}}
}

// Len returns the number of open tasks, and of those the running ones.
func (a *Agenda[E]) Len() (open, running int) { return a.open, a.running }

// Put adds a waiting task, or changes when a known one is due; a running one stops running, and lets an
// earlier task of its lane go first that was put meanwhile.
func (a *Agenda[E]) Put(it Item[E]) {
	e := a.find(it.Seq, it.Task)
	if e == nil {
		e = &entry[E]{
			event: it.Event, task: int32(it.Task), seq: it.Seq, due: nanos(it.Due), accepted: nanos(it.Accepted), //nolint:gosec // an event has few tasks
			bytes: uint32(min(max(it.Bytes, 0), math.MaxUint32)), yields: it.Yields,
		}
		a.add(e)
		a.join(e, it.Lane)
	} else if e.running || e.yields {
		name := e.laneName()
		a.leave(e)
		a.stop(e)
		e.due = nanos(it.Due) // a place in a lane that yields depends on it
		a.join(e, name)
	}
	a.unschedule(e)
	e.due, e.suspect = nanos(it.Due), it.Suspect
	a.schedule(e)
}

// find returns the entry of a task, nil when there is none.
func (a *Agenda[E]) find(seq uint64, task int) *entry[E] {
	e := a.events[seq]
	for e != nil && int(e.task) != task {
		e = e.next
	}
	return e
}

// add makes e known.
func (a *Agenda[E]) add(e *entry[E]) {
	a.open++
	first := a.events[e.seq]
	if first != nil {
		e.next, first.next = first.next, e
		return
	}
	a.events[e.seq] = e
	heap.Push(&a.oldest, e.seq)
	if len(a.oldest) > 2*len(a.events)+seqsMost {
		a.forget()
	}
}

// Drop removes a task that has its outcome, which lets the next one of its lane start.
func (a *Agenda[E]) Drop(seq uint64, task int) {
	e := a.find(seq, task)
	if e == nil {
		return
	}
	a.open--
	if first := a.events[seq]; first != e {
		for first.next != e {
			first = first.next
		}
		first.next = e.next
	} else if e.next != nil {
		a.events[seq] = e.next
	} else {
		delete(a.events, seq)
	}
	a.leave(e)
	a.stop(e)
}

// Next returns up to n tasks that are due at now, of at most bytes in all but at least one, and marks them
// as running until the given time, which must be after now. A running task whose time has passed is due again.
func (a *Agenda[E]) Next(now time.Time, n int, bytes int64, until time.Time) []Item[E] {
	var out []Item[E]
	bytes = max(bytes, 0) // far below it the sum would turn over
	at := nanos(now)
	for len(out) < n {
		e := a.first(at)
		if e == nil || e.due > at {
			break
		}
		if len(out) > 0 && bytes < int64(e.bytes) {
			break
		}
		bytes -= int64(e.bytes)
		out = append(out, Item[E]{Event: e.event, Seq: e.seq, Task: int(e.task), Bytes: int64(e.bytes)})
		if e.suspect {
			a.suspect, a.suspectUntil = e, nanos(now.Add(suspectTime))
		}
		a.start(e, nanos(until))
	}
	return out
}

// first returns the task that is due next, if there is one: a suspect only while no other runs.
func (a *Agenda[E]) first(now int64) *entry[E] {
	var e *entry[E]
	if len(a.due) > 0 {
		e = a.due[0]
	}
	if len(a.suspects) == 0 || a.suspect != nil && now < a.suspectUntil {
		return e
	}
	if s := a.suspects[0]; e == nil || before(s, e) {
		return s
	}
	return e
}

// Extend moves the end of a running task's lease.
func (a *Agenda[E]) Extend(seq uint64, task int, until time.Time) {
	if e := a.find(seq, task); e != nil && e.running {
		a.start(e, nanos(until))
	}
}

// NextDue returns when the next task is due; false when nothing waits.
func (a *Agenda[E]) NextDue() (time.Time, bool) {
	next := int64(math.MaxInt64)
	if len(a.due) > 0 {
		next = a.due[0].due
	}
	if len(a.suspects) > 0 {
		at := a.suspects[0].due
		if a.suspect != nil {
			at = max(at, a.suspectUntil)
		}
		next = min(next, at)
	}
	if len(a.due)+len(a.suspects) == 0 {
		return time.Time{}, false
	}
	return time.Unix(0, next), true
}

// Oldest returns when the oldest event was accepted that has a task here, false when there is none.
func (a *Agenda[E]) Oldest() (time.Time, bool) {
	for len(a.oldest) > 0 {
		if e := a.events[a.oldest[0]]; e != nil {
			return time.Unix(0, e.accepted), true
		}
		heap.Pop(&a.oldest)
	}
	return time.Time{}, false
}

// seqsMost is how many sequences of events that are gone are kept at least: one event that waits for long must not keep
// those of all that ended since.
const seqsMost = 512

// forget leaves the sequences of events that are here.
func (a *Agenda[E]) forget() {
	a.oldest = a.oldest[:0]
	for seq := range a.events {
		a.oldest = append(a.oldest, seq)
	}
	heap.Init(&a.oldest)
}

// start marks e as running: it stays in the heap under the end of its lease, so that a lost one comes back.
func (a *Agenda[E]) start(e *entry[E], until int64) {
	if !e.running {
		a.running++
	}
	a.run(e)
	a.unschedule(e)
	e.running, e.due = true, until
	a.schedule(e)
}

// stop takes e out of the heap and the count of running tasks.
func (a *Agenda[E]) stop(e *entry[E]) {
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
func (a *Agenda[E]) schedule(e *entry[E]) {
	if e.lane != nil && e.lane.first() != e {
		return
	}
	e.in = inDue
	if e.suspect && !e.running {
		e.in = inSuspects
	}
	heap.Push(a.heap(e.in), e)
}

func (a *Agenda[E]) unschedule(e *entry[E]) {
	if e.in != inNone {
		heap.Remove(a.heap(e.in), int(e.index))
		e.in = inNone
	}
}

func (a *Agenda[E]) heap(name heapName) *dueHeap[E] {
	if name == inSuspects {
		return &a.suspects
	}
	return &a.due
}

// before orders by the time when a task is due, then by acceptance.
func before[E any](a, b *entry[E]) bool {
	if a.due != b.due {
		return a.due < b.due
	}
	return a.seq < b.seq
}

// nanos is a time as nanoseconds since 1970, with the times that do not fit at the ends.
func nanos(t time.Time) int64 {
	switch {
	case t.After(time.Unix(0, math.MaxInt64)):
		return math.MaxInt64
	case t.Before(time.Unix(0, math.MinInt64)):
		return math.MinInt64
	}
	return t.UnixNano()
}

type dueHeap[E any] []*entry[E]

func (h dueHeap[E]) Len() int { return len(h) }

func (h dueHeap[E]) Less(i, j int) bool { return before(h[i], h[j]) }

func (h dueHeap[E]) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].index, h[j].index = int32(i), int32(j) //nolint:gosec // 2^31 entries do not fit the memory
}

func (h *dueHeap[E]) Push(x any) {
	e := x.(*entry[E])
	e.index = int32(len(*h)) //nolint:gosec // as above
	*h = append(*h, e)
}

func (h *dueHeap[E]) Pop() any {
	old := *h
	e := old[len(old)-1]
	old[len(old)-1] = nil
	*h = old[:len(old)-1]
	return e
}

type seqHeap []uint64

func (h seqHeap) Len() int           { return len(h) }
func (h seqHeap) Less(i, j int) bool { return h[i] < h[j] }
func (h seqHeap) Swap(i, j int)      { h[i], h[j] = h[j], h[i] }
func (h *seqHeap) Push(x any)        { *h = append(*h, x.(uint64)) }
func (h *seqHeap) Pop() any {
	last := (*h)[len(*h)-1]
	*h = (*h)[:len(*h)-1]
	return last
}
