package taskqueue

// lane holds tasks that run one after another. Only the first of them can be due or run. They are a
// heap, because a store adds thousands of them in no order when it starts.
type lane[E any] struct {
	name  string
	tasks Heap[*entry[E]]
}

func newLane[E any](name string) *lane[E] {
	return &lane[E]{name: name, tasks: NewHeap(beforeInLane[E], func(e *entry[E], i int) {
		e.laneIndex = int32(i) //nolint:gosec // 2^31 entries do not fit the memory
	})}
}

// beforeInLane orders the running task first, the others by acceptance or, where tasks yield, by
// when they are due. A reopened task so waits for a later one that runs, ahead of all others.
func beforeInLane[E any](a, b *entry[E]) bool {
	switch {
	case a.running != b.running:
		return a.running
	case a.yields:
		return before(a, b)
	}
	return a.seq < b.seq
}

// head returns the first task of the lane of e, or e outside of lanes.
func (e *entry[E]) head() *entry[E] {
	if e.lane == nil {
		return e
	}
	return e.lane.tasks.First()
}

// enter adds a new task to its lane.
func (q *Queue[E]) enter(e *entry[E], name string) {
	if name == "" {
		return
	}
	l := q.lanes[name]
	if l == nil {
		l = newLane[E](name)
		q.lanes[name] = l
	}
	if l.tasks.Len() > 0 && beforeInLane(e, l.tasks.First()) {
		q.withdraw(l.tasks.First())
	}
	l.tasks.Push(e)
	e.lane = l
}

// leave takes e out of its lane and offers the next task of the lane.
func (q *Queue[E]) leave(e *entry[E]) {
	l := e.lane
	if l == nil {
		return
	}
	if l.tasks.Remove(int(e.laneIndex)); l.tasks.Len() == 0 {
		delete(q.lanes, l.name)
	} else {
		q.offer(l.tasks.First())
	}
}

// change changes a task, which may move it in its lane, and offers the one that is first then.
func (q *Queue[E]) change(e *entry[E], f func()) {
	head := e.head()
	q.withdraw(e)
	f()
	if e.lane != nil {
		e.lane.tasks.Replace(int(e.laneIndex), e)
	}
	if e.head() != head {
		q.withdraw(head)
	}
	q.offer(e.head())
}
