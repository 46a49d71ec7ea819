package badgerstore

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/dgraph-io/badger/v4"

	"github.com/eyelet-dev/eyelet/dedup"
	"github.com/eyelet-dev/eyelet/dedup/badgerstore/internal/record"
	"github.com/eyelet-dev/eyelet/dedup/internal/taskqueue"
)

// committer is the only writer of a store. It turns queued operations into batches, hands each to
// the journal and publishes it. Badger flushes the disk at least once per transaction, so many
// operations share one. Only the goroutine of run, with its batches, can reach a committer.
type committer struct {
	*core
	journal   journal
	meta      record.Meta // of the last commit
	tasks     *taskqueue.Queue[record.Hash]
	cache     rowCache
	older     generations
	grace     grace
	parked    []*takeOp  // Takes that wait for tasks
	published uint64     // the newest sequence that is in recent
	growth    int64      // bytes written since the maintenance looked at the logs
	writes    []mutation // of the batch that is staged
}

func newCommitter(c *core) *committer {
	return &committer{
		core: c, journal: journal{core: c}, tasks: taskqueue.New[record.Hash](), older: generations{},
		cache: rowCache{rows: map[record.Place]*row{}, max: c.options.CacheBytes},
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
		c.heart.begin()
		last = c.process(ops)
		c.heart.end()
		clear(ops)
	}
	for _, o := range c.parked {
		o.finish(dedup.ErrClosed)
	}
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

// frozenPoll is how often a store that writes nothing checks for space.
const frozenPoll = time.Second

// nextWork reports since when a task has been due for the parked Takes, or an alarm for when it
// will be. Both are empty if no Take is parked.
func (c *committer) nextWork() (due time.Time, alarm <-chan struct{}, stop func()) {
	stop = func() {}
	next, ok := c.tasks.NextDue()
	if len(c.parked) == 0 || !ok {
		return due, nil, stop
	}
	if c.disk.state().frozen() {
		alarm, stop = newElapsed().Alarm(time.Now().Add(frozenPoll))
		return due, alarm, stop
	}
	if !next.After(c.now()) {
		return time.Now(), nil, stop
	}
	alarm, stop = c.clock.Alarm(next)
	return due, alarm, stop
}

// process decides, commits and answers the operations. It returns how many a request waits for.
func (c *committer) process(ops []op) (eager int) {
	for _, o := range ops {
		if t, ok := o.(*takeOp); ok {
			c.parked = append(c.parked, t)
		}
		if o.self().eager {
			eager++
		}
	}
	if f := c.failure.Load(); f != nil {
		c.answerAll(ops, f)
		c.dropParked(f)
		return eager
	}
	b := c.newBatch(len(ops))
	defer b.txn.Discard()
	c.grace.resume(b.now, c.heart.paused())
	b.decide(ops)
	c.scheduleEarly(b)
	served := c.serveTakes(b)
	err := c.commit(b)
	if err != nil {
		c.unscheduleEarly(b)
	}
	switch {
	case errors.Is(err, badger.ErrTxnTooBig):
		c.split(b, ops, served)
		if f := c.failure.Load(); f != nil {
			c.dropParked(f)
		}
	case errors.As(err, new(*notWritten)):
		c.makeDue(b, served)
		c.answerAll(ops, errors.Unwrap(err))
		c.answerTakes(served, errors.Unwrap(err))
	case err != nil:
		c.answerAll(ops, err)
		c.answerTakes(served, err)
		c.dropParked(err)
	default:
		c.options.step(stepAnswer)
		for _, o := range ops {
			if _, isTake := o.(*takeOp); !isTake {
				o.self().done <- struct{}{}
			}
		}
		for _, o := range served {
			o.answer(nil)
		}
	}
	return eager
}

// serveTakes assigns due tasks to the parked Takes, in order of their arrival.
func (c *committer) serveTakes(b *batch) (served []*takeOp) {
	waiting := c.parked[:0]
	for _, o := range c.parked {
		switch {
		case o.state.Load() == takeGone:
		case b.disk.frozen() || !b.anyDue():
			waiting = append(waiting, o)
		case !o.state.CompareAndSwap(takeWaits, takeServed):
		case b.serve(o):
			served = append(served, o)
		default:
			o.state.Store(takeWaits)
			waiting = append(waiting, o)
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
	for _, r := range b.rows {
		if r.changed() && !r.gone && r.rec.Seq > c.meta.Seq {
			c.schedule(r)
			b.early = append(b.early, r)
		}
	}
}

func (c *committer) unscheduleEarly(b *batch) {
	for _, r := range b.early {
		for i := range r.rec.Tasks {
			c.tasks.Remove(r.rec.Seq, i)
		}
	}
}

// split commits the operations of a batch that was too large one by one.
func (c *committer) split(b *batch, ops []op, served []*takeOp) {
	c.makeDue(b, served)
	for _, o := range ops {
		if _, isTake := o.(*takeOp); isTake {
			continue
		}
		c.heart.begin() // one of several commits
		b := c.newBatch(1)
		b.decide([]op{o})
		if err := c.commitAlone(b); err != nil {
			o.self().err = err
		}
		o.self().done <- struct{}{}
	}
	for _, o := range served {
		c.serveAlone(o)
	}
}

func (c *committer) commitAlone(b *batch) error {
	defer b.txn.Discard()
	err := c.commit(b)
	if errors.Is(err, badger.ErrTxnTooBig) {
		err = fmt.Errorf("%w: %w", dedup.ErrTooLarge, err)
	}
	if errors.As(err, new(*notWritten)) {
		err = errors.Unwrap(err)
	}
	return err
}

// serveAlone serves a Take in a batch of its own, or parks it again if nothing is due any more.
func (c *committer) serveAlone(o *takeOp) {
	o.work, o.rows = nil, nil
	if f := c.failure.Load(); f != nil {
		o.finish(f)
		return
	}
	c.heart.begin()
	b := c.newBatch(o.n)
	if b.disk.frozen() || !b.serve(o) {
		b.txn.Discard()
		o.state.Store(takeWaits)
		c.parked = append(c.parked, o)
		return
	}
	err := c.commitAlone(b)
	if err != nil {
		c.makeDue(b, []*takeOp{o})
	}
	o.finish(err)
}

func (c *committer) answerAll(ops []op, err error) {
	for _, o := range ops {
		if _, isTake := o.(*takeOp); !isTake {
			o.self().answer(err)
		}
	}
}

func (c *committer) answerTakes(takes []*takeOp, err error) {
	for _, o := range takes {
		o.finish(err)
	}
}

func (c *committer) dropParked(err error) {
	c.answerTakes(c.parked, err)
	c.parked = nil
}

// makeDue makes the tasks due again that Takes of a batch got that was not written.
func (c *committer) makeDue(b *batch, served []*takeOp) {
	for _, o := range served {
		for _, w := range o.work {
			c.tasks.Extend(w.Record.Seq, w.Lease.Task, b.now)
		}
	}
}

// commitDirect commits a change outside of run: before it starts and after it has ended.
func (c *committer) commitDirect(change func(b *batch)) error {
	b := c.newBatch(0)
	defer b.txn.Discard()
	change(b)
	b.always = true
	return c.commit(b)
}

// commit makes the batch durable and then publishes it. Its errors are those of journal.commit.
func (c *committer) commit(b *batch) error {
	c.options.step(stepStage)
	if !b.stage() {
		return nil
	}
	defer clear(c.writes) // they hold the bodies
	if err := c.journal.commit(b.txn, c.writes, b.next.Commit); err != nil {
		return err
	}
	c.meta = b.next
	c.options.step(stepPublish)
	c.publish(b)
	c.removed.Store(c.meta.Removed)
	c.reclaimed.Store(c.meta.Reclaimed.UnixNano())
	if c.growth += b.bytes; c.growth >= growth {
		c.growth = 0
		select {
		case c.grown <- struct{}{}:
		default:
		}
	}
	return nil
}

func (c *committer) publish(b *batch) {
	var added []listed
	for _, r := range b.forgotten {
		c.schedule(r)
	}
	for _, r := range b.rows {
		if !r.changed() {
			continue
		}
		c.schedule(r)
		c.cache.keep(r)
		c.older.note(r)
		if r.rec.Seq > c.published {
			added = append(added, listed{r.rec.Seq, r.place})
		}
	}
	slices.SortFunc(added, func(a, b listed) int { return cmp.Compare(a.seq, b.seq) })
	c.published = b.seq
	oldest, _ := c.tasks.Oldest()
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, l := range added {
		c.recent.add(l.seq, l.place.Hash)
	}
	c.stats.Oldest = oldest
	c.stats.Commits++
	c.stats.Accepted += b.accepted
	c.count(b.change)
}

// count changes the statistics; c.mu is held.
func (c *committer) count(t tally) {
	c.stats.Records += t.records
	c.stats.Pending += t.pending
	c.stats.Running += t.running
	c.stats.Dead += t.dead
	c.stats.Backlog += t.backlog
	c.stats.Quarantined = addQuarantined(c.stats.Quarantined, t.quarantined, 1)
	c.backlog.add(t.waitingBytes, t.waiting)
}

func (c *committer) schedule(r *row) {
	for i := range r.rec.Tasks {
		t := &r.rec.Tasks[i]
		switch {
		case r.gone || r.rec.Hold || !t.Open():
			c.tasks.Remove(r.rec.Seq, i)
		case t.State == dedup.Pending:
			c.tasks.Schedule(taskqueue.Item[record.Hash]{
				Event: r.place.Hash, Task: i, Seq: r.rec.Seq, Lane: r.rec.LaneOf(i), Yields: r.rec.Yields(i),
				Due: t.Due, Accepted: r.rec.Accepted, Bytes: r.event.Size, Suspect: t.Interrupted(),
			})
		default:
			c.tasks.Extend(r.rec.Seq, i, t.Until)
		}
	}
}
