package agenda

import "container/heap"

// lane is the tasks that run one after another. Only its first one can be due or run: whoever runs, else the first
// of those that wait. It is a heap because a start puts the tasks of a lane in no order at all, and thousands may wait
// in one.
type lane struct {
	running *entry
	waits   laneHeap
}

// first returns who runs, or is next; nil of an empty lane.
func (l *lane) first() *entry {
	switch {
	case l == nil:
		return nil
	case l.running != nil:
		return l.running
	case len(l.waits) > 0:
		return l.waits[0]
	}
	return nil
}

// join puts e, which waits, into its lane, by Seq or, where tasks yield, by when they are due. A task that is
// reopened behind a later one that already runs waits for it, in front of all others: two tasks of a lane never run at once.
func (a *Agenda) join(e *entry) {
	if e.Lane == "" {
		return
	}
	l := a.lanes[e.Lane]
	if l == nil {
		l = &lane{}
		a.lanes[e.Lane] = l
	}
	before := l.first()
	heap.Push(&l.waits, e)
	if before != nil && l.first() != before {
		a.unschedule(before)
	}
}

// leave takes e out of its lane and lets the next one of the lane be due.
func (a *Agenda) leave(e *entry) {
	if e.Lane == "" {
		return
	}
	l := a.lanes[e.Lane]
	if l.running == e {
		l.running = nil
	} else {
		heap.Remove(&l.waits, e.place)
	}
	next := l.first()
	if next == nil {
		delete(a.lanes, e.Lane)
		return
	}
	if next.in == nil {
		a.schedule(next)
	}
}

// run makes e the one of its lane that runs.
func (a *Agenda) run(e *entry) {
	l := a.lanes[e.Lane]
	if e.Lane == "" || l.running == e {
		return
	}
	before := l.first()
	heap.Remove(&l.waits, e.place)
	l.running = e
	if before != e {
		a.unschedule(before)
	}
}

// laneHeap orders the tasks of a lane that wait.
type laneHeap []*entry

func (h laneHeap) Len() int { return len(h) }

func (h laneHeap) Less(i, j int) bool {
	if h[i].Yields {
		return before(h[i], h[j])
	}
	return h[i].Seq < h[j].Seq
}

func (h laneHeap) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].place, h[j].place = i, j
}

func (h *laneHeap) Push(x any) {
	e := x.(*entry)
	e.place = len(*h)
	*h = append(*h, e)
}

func (h *laneHeap) Pop() any {
	old := *h
	e := old[len(old)-1]
	old[len(old)-1] = nil
	*h = old[:len(old)-1]
	return e
}
