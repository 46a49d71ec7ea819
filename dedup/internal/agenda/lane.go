package agenda

import "container/heap"

// lane is the tasks that run one after another. Only its first one can be due or run: whoever runs, else the first
// of those that wait. It is a heap because a start puts the tasks of a lane in no order at all, and thousands may wait
// in one.
type lane[E any] struct {
	name    string
	running *entry[E]
	waits   laneHeap[E]
}

// first returns who runs, or is next; nil of an empty lane.
func (l *lane[E]) first() *entry[E] {
	switch {
	case l.running != nil:
		return l.running
	case len(l.waits) > 0:
		return l.waits[0]
	}
	return nil
}

// join puts e, which waits, into its lane, by Seq or, where tasks yield, by when they are due. A task that is
// reopened behind a later one that already runs waits for it, in front of all others: two tasks of a lane never run at once.
func (a *Agenda[E]) join(e *entry[E], name string) {
	if name == "" {
		return
	}
	l := a.lanes[name]
	if l == nil {
		l = &lane[E]{name: name}
		a.lanes[name] = l
	}
	e.lane = l
	before := l.first()
	heap.Push(&l.waits, e)
	if before != nil && l.first() != before {
		a.unschedule(before)
	}
}

// leave takes e out of its lane and lets the next one of the lane be due.
func (a *Agenda[E]) leave(e *entry[E]) {
	l := e.lane
	if l == nil {
		return
	}
	e.lane = nil
	if l.running == e {
		l.running = nil
	} else {
		heap.Remove(&l.waits, int(e.place))
	}
	next := l.first()
	if next == nil {
		delete(a.lanes, l.name)
		return
	}
	if next.in == inNone {
		a.schedule(next)
	}
}

// run makes e the one of its lane that runs.
func (a *Agenda[E]) run(e *entry[E]) {
	l := e.lane
	if l == nil || l.running == e {
		return
	}
	before := l.first()
	heap.Remove(&l.waits, int(e.place))
	l.running = e
	if before != e {
		a.unschedule(before)
	}
}

// laneName returns the name of the lane of e, empty without one.
func (e *entry[E]) laneName() string {
	if e.lane == nil {
		return ""
	}
	return e.lane.name
}

// laneHeap orders the tasks of a lane that wait.
type laneHeap[E any] []*entry[E]

func (h laneHeap[E]) Len() int { return len(h) }

func (h laneHeap[E]) Less(i, j int) bool {
	if h[i].yields {
		return before(h[i], h[j])
	}
	return h[i].seq < h[j].seq
}

func (h laneHeap[E]) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].place, h[j].place = int32(i), int32(j) //nolint:gosec // 2^31 entries do not fit the memory
}

func (h *laneHeap[E]) Push(x any) {
	e := x.(*entry[E])
	e.place = int32(len(*h)) //nolint:gosec // as above
	*h = append(*h, e)
}

func (h *laneHeap[E]) Pop() any {
	old := *h
	e := old[len(old)-1]
	old[len(old)-1] = nil
	*h = old[:len(old)-1]
	return e
}
