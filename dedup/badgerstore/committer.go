package badgerstore

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/eyelet-dev/eyelet/dedup"
	"github.com/eyelet-dev/eyelet/dedup/badgerstore/internal/record"
	"github.com/eyelet-dev/eyelet/dedup/badgerstore/internal/redolog"
	"github.com/eyelet-dev/eyelet/dedup/badgerstore/internal/storedir"
	"github.com/eyelet-dev/eyelet/dedup/internal/taskqueue"
)

// committer is the only writer of a store. It turns queued operations into batches, makes each
// durable and publishes it. A batch costs one flush of the disk, so many operations share one. Only
// the goroutine of run, with its batches, can reach a committer.
type committer struct {
	*core
	meta      record.Meta // of the last commit
	tasks     *taskqueue.Queue[record.Hash]
	cache     rowCache
	older     generations
	grace     grace
	parked    []*takeOp              // Takes that wait for tasks
	unqueued  map[uint64]record.Hash // other events with open tasks, by sequence
	inFlight  []record.Place         // of the rows that the commit in progress changes
	published uint64                 // the newest sequence that is in recent
	added     []record.Recent        // memory for those after it
	unmarked  bool                   // no mark follows the last commit
	writes    []mutation             // of the batch that is staged
	memory    arena                  // of the writes
	changes   changes                // of the batch
	claiming  claiming               // the claim that is decided
	noting    rowNotes               // those of the task that is finished
	step      dedup.Step[*row]
}

func newCommitter(c *core) *committer {
	return &committer{
		core: c, tasks: taskqueue.New[record.Hash](), older: generations{}, changes: newChanges(),
		unqueued: map[uint64]record.Hash{},
		cache:    rowCache{rows: map[record.Place]*row{}, max: c.options.rowBytes},
	}
}

func (c *committer) run() {
	defer close(c.stopped)
	var ops []op
	last, closed := 0, false
	for !closed {
		due, alarm, stop := c.nextWork()
		ops, closed = c.queue.wait(ops, last, due, alarm)
		stop()
		c.heart.work.Begin()
		commits := c.stats.Commits
		if last = c.process(ops); len(ops) == 0 && c.unmarked && c.stats.Commits == commits {
			c.markDurable()
		}
		c.heart.work.End()
		clear(ops)
	}
	c.dropParked(dedup.ErrClosed)
	c.commitTime()
}

// commitTime makes the end of the process the time of the last commit, if the disk accepts it.
func (c *committer) commitTime() {
	if c.failure.Load() != nil || c.disk.state().frozen() {
		return
	}
	if err := c.commitDirect(func(*batch) {}); err != nil {
		c.warn("time", err)
	}
}

// markAfter is how long no commit is made before the log notes that the last one is durable.
const markAfter = 100 * time.Millisecond

// markDurable marks the last commit as durable: without it a start takes damage for a torn write.
func (c *committer) markDurable() {
	c.unmarked = false
	if c.lock.Probe() != nil {
		return
	}
	err := c.db.Mark()
	if err != nil && !errors.As(err, new(*storedir.NotWrittenError)) && !errors.Is(err, redolog.ErrFull) {
		_ = c.fail("the log could not be written", err)
	}
}

// frozenPoll is how often a store that writes nothing checks for space.
const frozenPoll = time.Second

// nextWork reports since when a task has been due for the parked Takes, or an alarm for when there
// will be something to do. Both are empty if there is nothing.
func (c *committer) nextWork() (due time.Time, alarm <-chan struct{}, stop func()) {
	stop = func() {}
	now := c.now()
	next, waits := c.nextDue(now)
	wait := next.Sub(now)
	switch {
	case waits && c.disk.state().frozen():
		alarm, stop = newElapsed().Alarm(time.Now().Add(frozenPoll))
	case waits && wait <= 0:
		due = time.Now()
	case c.unmarked && (!waits || wait > markAfter):
		alarm, stop = newElapsed().Alarm(time.Now().Add(markAfter))
	case waits:
		alarm, stop = c.clock.Alarm(next)
	}
	return due, alarm, stop
}

// nextDue returns when there is a task for a parked Take, false if there is none.
func (c *committer) nextDue(now time.Time) (first time.Time, ok bool) {
	for _, o := range c.parked {
		next, found := c.tasks.NextDue(now, o.wanted(c.opened))
		if found && (!ok || next.Before(first)) {
			first, ok = next, true
		}
	}
	return first, ok
}

// process decides, commits and answers the operations. It returns how many a request waits for.
func (c *committer) process(ops []op) (eager int) {
	ops = slices.DeleteFunc(ops, func(o op) bool {
		if o.self().eager {
			eager++
		}
		t, take := o.(*takeOp)
		if take {
			c.parked = append(c.parked, t)
		}
		return take
	})
	var served []*takeOp
	err := c.failure.err()
	if err == nil {
		b := c.newBatch()
		pause := c.heart.paused()
		c.grace.resume(c.now(), pause) // b.now may be before it
		b.decide(ops)
		c.scheduleEarly(b)
		served = c.serveTakes(b)
		if err = c.commit(b); err != nil {
			c.unscheduleEarly(b)
		}
		if refused, ok := errors.AsType[*notWritten](err); ok {
			c.makeDue(b, served)
			err = refused.error
		}
	}
	switch {
	case err == nil:
		c.options.step(stepAnswer)
	case c.failure.Load() != nil:
		c.dropParked(err)
	}
	for _, o := range ops {
		o.self().answer(err)
	}
	for _, o := range served {
		o.answer(err)
	}
	return eager
}

// serveTakes assigns due tasks to the parked Takes, in order of their arrival.
func (c *committer) serveTakes(b *batch) (served []*takeOp) {
	waiting := c.parked[:0]
	for _, o := range c.parked {
		switch {
		case o.state.Load() == takeGone:
		case b.disk.frozen() || b.started >= startsMost || b.reads > readsMost || b.states > batchBytes || !b.anyDue(o):
			waiting = append(waiting, o)
		case !o.state.CompareAndSwap(takeWaits, takeServed):
		case b.serve(o):
			served = append(served, o)
		default:
			waiting = o.park(waiting)
		}
	}
	clear(c.parked[len(waiting):])
	c.parked = waiting
	return served
}

// scheduleEarly queues the tasks of the batch's new events if a Take waits: accepting and starting
// them is one write, and both become visible with the commit. unscheduleEarly reverses it.
func (c *committer) scheduleEarly(b *batch) {
	if len(c.parked) == 0 || b.accepted == 0 {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, r := range b.rows {
		if r.changed() && !r.gone && r.rec.Seq > c.meta.Seq {
			c.schedule(r)
			b.early = append(b.early, r)
		}
	}
}

func (c *committer) unscheduleEarly(b *batch) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, r := range b.early {
		for i := range r.rec.Tasks {
			c.tasks.Remove(r.rec.Seq, i)
		}
	}
}

func (c *committer) dropParked(err error) {
	for _, o := range c.parked {
		if o.state.CompareAndSwap(takeWaits, takeServed) {
			o.answer(err)
		}
	}
	c.parked = nil
}

// makeDue makes the tasks due again that Takes of a batch got that was not written.
func (c *committer) makeDue(b *batch, served []*takeOp) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, it := range b.passed {
		c.tasks.Extend(it.Seq, it.Task, b.now)
	}
	for _, o := range served {
		for i, w := range o.work {
			if o.was[i].dirty { // its lease has to count as expired
				c.tasks.Extend(w.Record.Seq, w.Lease.Task, b.now)
			} else {
				c.schedule(o.was[i])
			}
		}
	}
}

// commitDirect commits a change outside of run: before it starts and after it has ended.
func (c *committer) commitDirect(change func(b *batch)) error {
	b := c.newBatch()
	change(b)
	b.always = true
	return c.commit(b)
}

// commit makes the batch durable and then publishes it. Its errors are those of write.
func (c *committer) commit(b *batch) error {
	c.options.step(stepStage)
	if !b.stage() {
		return nil
	}
	defer clear(c.writes) // they hold the bodies
	c.announce(b)
	began := time.Now()
	if err := c.write(b.next.Commit); err != nil {
		return err
	}
	c.unmarked = true
	took := time.Since(began)
	c.options.step(stepPublish)
	c.publish(b, took)
	c.removed.Store(c.meta.Removed)
	c.reclaimed.Store(c.meta.Reclaimed.UnixNano())
	return nil
}

// announce notes which events a commit is about to change.
func (c *committer) announce(b *batch) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.inFlight = c.inFlight[:0] // a refused commit leaves its own
	for _, r := range b.rows {
		if r.changed() {
			c.inFlight = append(c.inFlight, r.place)
		}
	}
}

func (c *committer) publish(b *batch, took time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.meta, c.inFlight = b.next, c.inFlight[:0]
	added := c.added[:0]
	for _, r := range b.forgotten {
		c.schedule(r)
	}
	for _, r := range b.rows {
		if !r.changed() {
			continue
		}
		c.schedule(r)
		c.cache.keep(r)
		c.older.update(r)
		if r.rec.Seq > c.published {
			added = append(added, record.Recent{Seq: r.rec.Seq, Hash: r.place.Hash})
		}
	}
	slices.SortFunc(added, func(a, b record.Recent) int { return cmp.Compare(a.Seq, b.Seq) })
	c.published, c.added = b.seq, added
	for _, l := range added {
		c.recent.add(l)
	}
	c.stats.Oldest, _ = c.tasks.Oldest()
	c.stats.Commits++
	c.stats.Flush = took
	c.stats.Accepted += b.accepted
	c.count(&c.meta.Counts)
}

// schedule queues the open tasks of a row, or removes them; c.mu is held.
func (c *committer) schedule(r *row) {
	for i := range r.rec.Tasks {
		t := &r.rec.Tasks[i]
		switch {
		case r.gone || r.rec.Hold || !t.Open():
			c.tasks.Remove(r.rec.Seq, i)
		case t.State == dedup.Pending:
			c.tasks.Schedule(taskqueue.Item[record.Hash]{
				Event: r.place.Hash, Task: i, Seq: r.rec.Seq, Handler: t.Handler,
				Lane: r.rec.LaneOf(i), Yields: r.rec.Yields(i), Due: t.Due,
				Accepted: r.rec.Accepted, Bytes: r.event.Size, Suspect: t.Interrupted(),
			})
		default:
			c.tasks.Extend(r.rec.Seq, i, t.Until)
		}
	}
	if delete(c.unqueued, r.rec.Seq); !r.gone && r.rec.Hold && r.rec.Open() {
		c.unqueued[r.rec.Seq] = r.place.Hash
	}
}

// unqueue removes a task from the queue whose event cannot be read.
func (c *committer) unqueue(it taskqueue.Item[record.Hash]) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.tasks.Remove(it.Seq, it.Task)
	c.unqueued[it.Seq] = it.Event
}

// summarize returns the summary after the last commit, which the one in progress may follow. There
// is none while damage is known, so that the next start reads, and reports, all of it again.
func (c *committer) summarize() (commit uint64, content []byte) {
	if c.damages.err() != nil {
		return 0, nil
	}
	c.mu.Lock()
	s := record.Summary{Older: map[record.Place]int{}, Recent: c.recent.events, Truncated: c.recent.truncated}
	s.Open = slices.Collect(maps.Values(c.unqueued))
	for _, h := range c.tasks.Events() {
		s.Open = append(s.Open, h)
	}
	for h, all := range c.older {
		for _, old := range all {
			s.Older[record.Place{Hash: h, Older: old.seq}] = old.number
		}
	}
	for _, p := range c.inFlight {
		s.Open = append(s.Open, p.Hash)
		if p.Older != 0 {
			s.Older[p] = 0
		}
	}
	commit = c.meta.Commit
	c.mu.Unlock()
	return commit, s.Encode()
}

// notWritten reports a batch that was not tried or whose write the file system refused.
type notWritten struct{ error }

func (e *notWritten) Unwrap() error { return e.error }

// write makes the staged writes durable as commit n. notWritten leaves everything as it was; any
// other error is final.
func (c *committer) write(n uint64) error {
	if err := c.db.Descriptors(); err != nil {
		return &notWritten{err}
	}
	size := 0
	for i := range c.writes {
		size += len(c.writes[i].Value) + len(c.writes[i].Content)
	}
	c.heart.expect(int64(size))
	c.options.step(stepCommit)
	err := c.lock.Probe() // a failed write of the log would be final
	if err != nil {
		err = &storedir.NotWrittenError{Err: err}
	} else {
		err = c.db.Commit(n, c.writes)
	}
	switch {
	case err == nil:
		return nil
	case errors.Is(err, redolog.ErrTooLarge): // 4 GiB
		return &notWritten{fmt.Errorf("%w: %w", dedup.ErrTooLarge, err)}
	case errors.As(err, new(*storedir.NotWrittenError)):
		c.disk.recheck()
		return &notWritten{diskState{unwritable: err}.err()}
	}
	return c.fail("a commit failed", err)
}
