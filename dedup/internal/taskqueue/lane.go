package taskqueue

// lane holds tasks that run one after another. Only its head can be due or run. The waiting
// tasks are a heap, because a store adds thousands of them in no order when it starts.
type lane[E any] struct {
	name    string
	running *entry[E]
	waiting Heap[*entry[E]]
}

func newLane[E any](name string) *lane[E] {
	return &lane[E]{name: name, waiting: NewHeap(beforeInLane[E], func(e *entry[E], i int) {
		e.laneIndex = int32(i) //nolint:gosec // 2^31 entries do not fit the memory
	})}
}

// beforeInLane orders by acceptance or, where tasks yield, by when they are due.
func beforeInLane[E any](a, b *entry[E]) bool {
	if a.yields {
		return before(a, b)
	}
	return a.seq < b.seq
}

// head returns the running task, else the next one; nil in an empty lane.
func (l *lane[E]) head() *entry[E] {
	switch {
	case l.running != nil:
		return l.running
	case l.waiting.Len() > 0:
		return l.waiting.First()
	}
	return nil
}

// enqueue adds a waiting task to its lane. A reopened task whose lane has a later one running
// waits for that, ahead of all others.
func (q *Queue[E]) enqueue(e *entry[E], name string) {
	if name == "" {
		return
	}
	l := q.lanes[name]
	if l == nil {
		l = newLane[E](name)
		q.lanes[name] = l
	}
	e.lane = l
	head := l.head()
	l.waiting.Push(e)
	if head != nil && l.head() != head {
		q.withdraw(head)
	}
}

// dequeue takes e out of its lane and offers the next task of the lane.
func (q *Queue[E]) dequeue(e *entry[E]) {
	l := e.lane
	if l == nil {
		return
	}
	e.lane = nil
	if l.running == e {
		l.running = nil
	} else {
		l.waiting.Remove(int(e.laneIndex))
	}
	next := l.head()
	if next == nil {
		delete(q.lanes, l.name)
		return
	}
	if next.in == inNone {
		q.offer(next)
	}
}

// occupy makes e the running task of its lane.
func (q *Queue[E]) occupy(e *entry[E]) {
	l := e.lane
	if l == nil || l.running == e {
		return
	}
	head := l.head()
	l.waiting.Remove(int(e.laneIndex))
	l.running = e
	if head != e {
		q.withdraw(head)
	}
}

// laneName returns the name of the lane of e, empty outside of lanes.
func (e *entry[E]) laneName() string {
	if e.lane == nil {
		return ""
	}
	return e.lane.name
}
