// Package taskqueue orders the open tasks of an embedded store: which one is due next, and
// which one waits for an earlier task of its lane. It holds references only, about 120 bytes a
// task besides the store's own reference. The records stay in the store.
package taskqueue

import (
	"iter"
	"maps"
	"math"
	"slices"
	"time"
)

// Item refers to one open task. E is how the store finds its event.
type Item[E any] struct {
	Event E
	Seq   uint64 // the order of acceptance; identifies the event, and decides within a lane
	Task  int
	// Handler is who can run the task.
	Handler string
	Lane    string // empty, or the lane with its scope (endpoint and handler)
	// Yields marks every task of a lane in which one that is not due yet lets later ones go first.
	Yields   bool
	Due      time.Time
	Accepted time.Time // when the event was accepted
	Bytes    int64     // size of the payload
	// Suspect marks a task whose last attempt was interrupted: it may have killed the process.
	// One suspect runs at a time, so a task that kills every process uses up its own attempts,
	// not those of the tasks that run beside it.
	Suspect bool
}

// entry is an open task, packed because a backlog has millions. Times are nanoseconds since 1970.
type entry[E any] struct {
	event         E
	task          int32
	handler       uint32 // index into Queue.handlers
	seq           uint64
	due, accepted int64
	lane          *lane[E]  // nil outside of lanes
	next          *entry[E] // the next task of the event
	bytes         uint32    // capped
	dueIndex      int32     // in the heap that in names
	laneIndex     int32     // among the tasks of its lane
	in            heapName
	yields        bool
	suspect       bool
	running       bool
}

// heapName is the heap of the queue that an entry is in.
type heapName int8

const (
	inNone heapName = iota
	inDue
	inSuspects
	inLeases
)

// Queue orders open tasks. It is not safe for concurrent use.
type Queue[E any] struct {
	events  map[uint64]*entry[E] // the first task of each event, by sequence
	lanes   map[string]*lane[E]
	leases  Heap[*entry[E]] // running tasks by the end of their lease
	open    int
	running int
	oldest  Heap[uint64] // sequences of the events, and of some that are gone

	handlers []*handler[E]
	byName   map[string]uint32 // their indexes
	wants    uint64            // how many there were
	free     []*entry[E]       // memory of removed tasks, of at most maxStale

	suspect      *entry[E] // the one that runs
	suspectUntil int64     // when it stops holding the others back
}

// New returns an empty queue.
func New[E any]() *Queue[E] {
	return &Queue[E]{
		events: map[uint64]*entry[E]{}, lanes: map[string]*lane[E]{}, byName: map[string]uint32{},
		leases: newTimes[E](), oldest: NewHeap(func(a, b uint64) bool { return a < b }, nil),
	}
}

// newTimes returns an empty heap of tasks in the order of their times.
func newTimes[E any]() Heap[*entry[E]] {
	return NewHeap(before[E], func(e *entry[E], i int) {
		e.dueIndex = int32(i) //nolint:gosec // 2^31 entries do not fit the memory
	})
}

// Len returns the number of open tasks, and how many of them run.
func (q *Queue[E]) Len() (open, running int) { return q.open, q.running }

// Events returns the events with open tasks, and their sequences. It may be used while methods run
// other than Schedule and Remove.
func (q *Queue[E]) Events() iter.Seq2[uint64, E] {
	return func(yield func(uint64, E) bool) {
		for seq, e := range q.events {
			if !yield(seq, e.event) {
				return
			}
		}
	}
}

// Schedule adds a waiting task or changes when a known one is due. A running task stops
// running, and queues behind an earlier task of its lane that was added meanwhile.
func (q *Queue[E]) Schedule(it Item[E]) {
	e := q.find(it.Seq, it.Task)
	if e == nil {
		if n := len(q.free) - 1; n >= 0 {
			e, q.free = q.free[n], q.free[:n]
		} else {
			e = new(entry[E])
		}
		*e = entry[E]{
			event: it.Event, task: int32(it.Task), seq: it.Seq, //nolint:gosec // an event has few tasks
			handler: q.handler(it.Handler),
			due:     nanos(it.Due), accepted: nanos(it.Accepted),
			bytes: uint32(min(max(it.Bytes, 0), math.MaxUint32)), yields: it.Yields,
		}
		q.add(e)
		q.enter(e, it.Lane)
	}
	q.change(e, func() {
		q.stop(e)
		e.due, e.suspect = nanos(it.Due), it.Suspect
	})
}

// find returns the entry of a task, nil when there is none.
func (q *Queue[E]) find(seq uint64, task int) *entry[E] {
	e := q.events[seq]
	for e != nil && int(e.task) != task {
		e = e.next
	}
	return e
}

// add registers e under its event.
func (q *Queue[E]) add(e *entry[E]) {
	q.open++
	first := q.events[e.seq]
	if first != nil {
		e.next, first.next = first.next, e
		return
	}
	q.events[e.seq] = e
	q.oldest.Push(e.seq)
	if q.oldest.Len() > 2*len(q.events)+maxStale {
		q.oldest.Reset(slices.Collect(maps.Keys(q.events)))
	}
}

// maxStale is how many sequences of finished events are kept before they are pruned: one event
// that waits for long must not keep those of all that finish meanwhile.
const maxStale = 512

// Remove removes a finished task. The next one of its lane may start.
func (q *Queue[E]) Remove(seq uint64, task int) {
	e := q.find(seq, task)
	if e == nil {
		return
	}
	q.open--
	if first := q.events[seq]; first != e {
		for first.next != e {
			first = first.next
		}
		first.next = e.next
	} else if e.next != nil {
		q.events[seq] = e.next
	} else {
		delete(q.events, seq)
	}
	q.withdraw(e)
	q.stop(e)
	q.leave(e)
	if len(q.free) < maxStale { // else a backlog would keep its memory
		*e = entry[E]{}
		q.free = append(q.free, e)
	}
}

// Oldest returns when the oldest event with an open task was accepted, false without any.
func (q *Queue[E]) Oldest() (time.Time, bool) {
	for q.oldest.Len() > 0 {
		if e := q.events[q.oldest.First()]; e != nil {
			return time.Unix(0, e.accepted), true
		}
		q.oldest.Remove(0)
	}
	return time.Time{}, false
}

// start marks e as running until the end of its lease.
func (q *Queue[E]) start(e *entry[E], until int64) {
	q.change(e, func() {
		if !e.running {
			q.running++
		}
		e.running, e.due = true, until
	})
}

// stop takes e out of the count of running tasks.
func (q *Queue[E]) stop(e *entry[E]) {
	if e.running {
		q.running--
	}
	if q.suspect == e {
		q.suspect = nil
	}
	e.running = false
}

// offer puts e, which is the first of its lane, into a heap, unless it is in one.
func (q *Queue[E]) offer(e *entry[E]) {
	switch {
	case e.in != inNone:
		return
	case e.running:
		e.in = inLeases
	case e.suspect:
		e.in = inSuspects
	default:
		e.in = inDue
	}
	q.heap(e).Push(e)
}

// withdraw takes e out of its heap.
func (q *Queue[E]) withdraw(e *entry[E]) {
	if e.in != inNone {
		q.heap(e).Remove(int(e.dueIndex))
		e.in = inNone
	}
}

// heap returns the heap that e is in.
func (q *Queue[E]) heap(e *entry[E]) *Heap[*entry[E]] {
	switch e.in {
	case inLeases:
		return &q.leases
	case inSuspects:
		return &q.handlers[e.handler].suspects
	}
	return &q.handlers[e.handler].due
}

// before orders by the time when a task is due, then by acceptance.
func before[E any](a, b *entry[E]) bool {
	if a.due != b.due {
		return a.due < b.due
	}
	return a.seq < b.seq
}

// nanos returns nanoseconds since 1970, clamped to the range of int64.
func nanos(t time.Time) int64 {
	switch {
	case t.After(time.Unix(0, math.MaxInt64)):
		return math.MaxInt64
	case t.Before(time.Unix(0, math.MinInt64)):
		return math.MinInt64
	}
	return t.UnixNano()
}
