package taskqueue

import (
	"math"
	"time"
)

// Want says which tasks Take may return.
type Want struct {
	// Tasks is how many at most. Bytes bounds the sizes of all but the first.
	Tasks int
	Bytes int64
	// Handlers are those of the caller. Nil is all handlers.
	Handlers []string
	// Orphans is when tasks of handlers that no Want has named are taken, too.
	Orphans time.Time
	// Most is how many tasks of some handlers at most.
	Most map[string]int
}

// SuspectTime is how long a running suspect holds the other suspects back. A hanging one must
// not block them.
const SuspectTime = 30 * time.Second

// handler has the waiting tasks of one handler, except those that wait for others of their lane.
type handler[E any] struct {
	wanted   uint64          // the last Want that named it; 0 for none
	limited  uint64          // the last Want that had it in Most
	left     int             // of that, what was not taken yet
	due      Heap[*entry[E]] // by Due
	suspects Heap[*entry[E]] // by Due, and those whose lease ran out by its end
}

// handler returns the index of the handler with a name.
func (q *Queue[E]) handler(name string) uint32 {
	i, known := q.byName[name]
	if !known {
		i = uint32(len(q.handlers)) //nolint:gosec // a store has few handlers
		q.handlers = append(q.handlers, &handler[E]{due: newTimes[E](), suspects: newTimes[E]()})
		q.byName[name] = i
	}
	return i
}

// next begins a Want.
func (q *Queue[E]) next(at int64, w *Want) {
	q.wants++
	for _, name := range w.Handlers {
		q.handlers[q.handler(name)].wanted = q.wants
	}
	for name, most := range w.Most {
		h := q.handlers[q.handler(name)]
		h.limited, h.left = q.wants, most
	}
	q.lapse(at)
}

// heaps calls f with each heap that the last Want may take from, and the time from which it may. A
// running suspect holds the others back.
func (q *Queue[E]) heaps(w *Want, f func(h *Heap[*entry[E]], from int64)) {
	free := int64(math.MinInt64)
	if q.suspect != nil {
		free = q.suspectUntil
	}
	for _, h := range q.handlers {
		from := int64(math.MinInt64)
		if h.limited == q.wants && h.left <= 0 {
			continue
		}
		if w.Handlers != nil && h.wanted != q.wants {
			if h.wanted > 0 {
				continue // another caller has it
			}
			from = nanos(w.Orphans)
		}
		f(&h.due, from)
		f(&h.suspects, max(from, free))
	}
}

// Take returns tasks that are due at now, at least one if there is any, and marks them as running
// until a time after now. A running task whose time has passed is due again. With fits it ends
// before a task that does not fit; the first one always does.
func (q *Queue[E]) Take(now time.Time, w Want, until time.Time, fits func(Item[E]) bool) []Item[E] {
	var out []Item[E]
	bytes := max(w.Bytes, 0) // far below it the sum would overflow
	at := nanos(now)
	q.next(at, &w)
	for len(out) < w.Tasks {
		e := q.first(at, &w)
		if e == nil || len(out) > 0 && bytes < int64(e.bytes) {
			break
		}
		it := Item[E]{Event: e.event, Seq: e.seq, Task: int(e.task), Bytes: int64(e.bytes)}
		if len(out) > 0 && fits != nil && !fits(it) {
			break
		}
		bytes -= it.Bytes
		out = append(out, it)
		q.handlers[e.handler].left--
		if e.suspect {
			q.suspect, q.suspectUntil = e, nanos(now.Add(SuspectTime))
		}
		q.start(e, nanos(until))
	}
	return out
}

// lapse makes running tasks whose lease has ended suspects that wait. They keep their lanes.
func (q *Queue[E]) lapse(at int64) {
	for q.leases.Len() > 0 && q.leases.First().due <= at {
		e := q.leases.First()
		q.withdraw(e)
		e.suspect, e.in = true, inSuspects
		q.heap(e).Push(e)
		if q.suspect == e {
			q.suspect = nil
		}
	}
}

// first returns the task that is due for the longest time, nil when there is none.
func (q *Queue[E]) first(at int64, w *Want) (first *entry[E]) {
	q.heaps(w, func(h *Heap[*entry[E]], from int64) {
		if h.Len() > 0 && max(from, h.First().due) <= at && (first == nil || before(h.First(), first)) {
			first = h.First()
		}
	})
	return first
}

// Spare gives a task that Take has just returned more time, because its lease still counts.
func (q *Queue[E]) Spare(seq uint64, task int, until time.Time) {
	if e := q.find(seq, task); e != nil && e == q.suspect {
		q.suspect = nil
	}
	q.Extend(seq, task, until)
}

// Extend moves the end of a running task's lease.
func (q *Queue[E]) Extend(seq uint64, task int, until time.Time) {
	if e := q.find(seq, task); e != nil && e.running {
		q.start(e, nanos(until))
	}
}

// NextDue returns when Take has something to do next, false if there is nothing. It is not after
// now if a task can be taken now.
func (q *Queue[E]) NextDue(now time.Time, w Want) (time.Time, bool) {
	next := int64(math.MaxInt64)
	q.next(nanos(now), &w)
	note := func(h *Heap[*entry[E]], from int64) {
		if h.Len() > 0 {
			next = min(next, max(from, h.First().due))
		}
	}
	q.heaps(&w, note)
	note(&q.leases, math.MinInt64)
	return time.Unix(0, next), next < math.MaxInt64
}
