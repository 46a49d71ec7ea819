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

// run is the committer: the only goroutine that writes. Badger flushes the disk once and again for every
// transaction, however many run at a time, so many operations share one.
func (s *Store) run() {
	defer close(s.stopped)
	var ops []op
	last, closed := 0, false
	for !closed {
		due, alarm, stop := s.nextWork()
		ops, closed = s.queue.wait(ops, last, due, alarm)
		stop()
		s.heart.begin()
		last = s.process(ops)
		s.heart.end()
		clear(ops)
	}
	for _, o := range s.parked {
		s.answerTake(o, dedup.ErrClosed)
	}
	s.commitTime()
}

// commitTime makes the end of the process the time of the last commit, as far as the disk takes it.
func (s *Store) commitTime() {
	if s.failure.Load() != nil || s.disk.state().frozen() {
		return
	}
	if err := s.commitDirect(func(*batch) {}); err != nil {
		s.note("time", err)
	}
}

// frozenPoll is how often a store that writes nothing looks for space.
const frozenPoll = time.Second

// nextWork says when there is something for the blocked Takes: since when it has been due, or what rings
// when it will be. It is nothing when no Take is blocked.
func (s *Store) nextWork() (due time.Time, alarm <-chan struct{}, stop func()) {
	stop = func() {}
	next, ok := s.agenda.NextDue()
	if len(s.parked) == 0 || !ok {
		return due, nil, stop
	}
	if s.disk.state().frozen() {
		alarm, stop = newElapsed().Alarm(time.Now().Add(frozenPoll))
		return due, alarm, stop
	}
	if !next.After(s.now()) {
		return time.Now(), nil, stop
	}
	alarm, stop = s.clock.Alarm(next)
	return due, alarm, stop
}

// process decides the operations, commits what they changed, and answers them. It returns how many of them
// somebody waits for in a request.
func (s *Store) process(ops []op) (eager int) {
	for _, o := range ops {
		if t, ok := o.(*takeOp); ok {
			s.parked = append(s.parked, t)
		}
		if o.self().eager {
			eager++
		}
	}
	if f := s.failure.Load(); f != nil {
		s.answerAll(ops, s.parked, f)
		s.parked = nil
		return eager
	}
	b := s.newBatch(len(ops))
	defer b.txn.Discard()
	s.grace.resume(b.now, s.heart.paused())
	s.decide(b, ops)
	s.announce(b)
	served := s.serveTakes(b)
	err := s.commit(b)
	if err != nil {
		s.withdraw(b)
	}
	switch {
	case errors.Is(err, badger.ErrTxnTooBig):
		s.split(b, ops, served)
		if f := s.failure.Load(); f != nil {
			s.answerAll(nil, s.parked, f)
			s.parked = nil
		}
		return eager
	case errors.As(err, new(*notWritten)):
		s.giveBack(b, served)
		s.answerAll(ops, served, errors.Unwrap(err))
		return eager
	case err != nil:
		s.answerAll(ops, append(served, s.parked...), err)
		s.parked = nil
		return eager
	}
	s.options.step(stepAnswer)
	for _, o := range ops {
		if _, isTake := o.(*takeOp); !isTake {
			o.self().done <- struct{}{}
		}
	}
	for _, o := range served {
		o.answer(nil)
	}
	return eager
}

// decide applies the operations; one that fails leaves nothing in the batch.
func (s *Store) decide(b *batch, ops []op) {
	for _, o := range ops {
		b.undo = b.undo[:0]
		before := b.sums
		err := o.apply(b)
		if err != nil {
			b.rollback()
			b.sums = before
			if c, ok := o.(*claimOp); ok {
				c.refused(b)
			}
		}
		o.self().err = err
	}
}

// serveTakes gives due tasks to the blocked Takes, first come, first served.
func (s *Store) serveTakes(b *batch) (served []*takeOp) {
	waiting := s.parked[:0]
	for _, o := range s.parked {
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
	clear(s.parked[len(waiting):])
	s.parked = waiting
	return served
}

// announce puts the tasks of the batch's new events into the agenda before they are durable, when a Take waits for
// work: accepting and starting them is then one durable step and one write, not two. Nobody hears of them before
// the commit, and one that fails withdraws them.
func (s *Store) announce(b *batch) {
	if len(s.parked) == 0 || b.news == 0 {
		return
	}
	for _, r := range b.rows {
		if r.dirty && !r.gone && r.rec.Seq > s.meta.Seq {
			s.schedule(r)
			b.announced = append(b.announced, r)
		}
	}
}

// withdraw undoes announce.
func (s *Store) withdraw(b *batch) {
	for _, r := range b.announced {
		for i := range r.rec.Tasks {
			s.agenda.Remove(r.rec.Seq, i)
		}
	}
}

func (b *batch) anyDue() bool {
	next, ok := b.s.agenda.NextDue()
	return ok && !next.After(b.now)
}

// split commits the operations of a batch that was too large one by one.
func (s *Store) split(b *batch, ops []op, served []*takeOp) {
	s.giveBack(b, served)
	for _, o := range ops {
		if _, isTake := o.(*takeOp); isTake {
			continue
		}
		s.heart.begin() // another one of many commits
		b := s.newBatch(1)
		s.decide(b, []op{o})
		if err := s.commitAlone(b); err != nil {
			o.self().err = err
		}
		o.self().done <- struct{}{}
	}
	for _, o := range served {
		s.serveAlone(o)
	}
}

// commitAlone commits the batch of one operation.
func (s *Store) commitAlone(b *batch) error {
	defer b.txn.Discard()
	err := s.commit(b)
	if errors.Is(err, badger.ErrTxnTooBig) {
		err = fmt.Errorf("%w: %w", dedup.ErrTooLarge, err)
	}
	if errors.As(err, new(*notWritten)) {
		err = errors.Unwrap(err)
	}
	return err
}

// serveAlone serves a Take whose batch was too large in a batch of its own. It waits on when nothing is due any more.
func (s *Store) serveAlone(o *takeOp) {
	o.work, o.rows = nil, nil
	if f := s.failure.Load(); f != nil {
		s.answerTake(o, f)
		return
	}
	s.heart.begin()
	b := s.newBatch(o.n)
	if b.disk.frozen() || !b.serve(o) {
		b.txn.Discard()
		o.state.Store(takeWaits)
		s.parked = append(s.parked, o)
		return
	}
	err := s.commitAlone(b)
	if err != nil {
		s.giveBack(b, []*takeOp{o})
	}
	s.answerTake(o, err)
}

func (s *Store) answerAll(ops []op, takes []*takeOp, err error) {
	for _, o := range ops {
		if _, isTake := o.(*takeOp); !isTake {
			o.self().err = err
			o.self().done <- struct{}{}
		}
	}
	for _, o := range takes {
		s.answerTake(o, err)
	}
}

func (s *Store) answerTake(o *takeOp, err error) {
	if o.state.CompareAndSwap(takeWaits, takeServed) || o.state.Load() == takeServed {
		o.err = err
		o.done <- struct{}{}
	}
}

// step is a step of a commit. Tests end the process before each of them.
type step int

// The steps, in their order. A batch whose commit step is over is durable; what comes after it tells others.
const (
	stepStage step = iota
	stepCommit
	stepHighWater
	stepPublish
	stepAnswer
	stepEnd
)

// notWritten says that a batch was not tried because the file system takes no writes.
type notWritten struct{ err error }

func (e *notWritten) Error() string { return e.err.Error() }
func (e *notWritten) Unwrap() error { return e.err }

// giveBack makes tasks due again that were given to Takes whose batch was not written.
func (s *Store) giveBack(b *batch, served []*takeOp) {
	for _, o := range served {
		for _, w := range o.work {
			s.agenda.Extend(w.Record.Seq, w.Lease.Task, b.now)
		}
	}
}

// commit makes the batch durable and then visible to the committer's own memory. badger.ErrTxnTooBig and
// notWritten leave everything as it was; any other error poisons the store.
func (s *Store) commit(b *batch) error {
	s.options.step(stepStage)
	wrote, err := b.stage()
	if errors.Is(err, badger.ErrTxnTooBig) {
		return err
	}
	if err != nil {
		return s.fail("a write was refused", err)
	}
	if !wrote {
		return nil
	}
	if !s.spare.fill() {
		return &notWritten{errNoDescriptors}
	}
	if err := s.water.probe(); err != nil {
		s.disk.doubt()
		return &notWritten{diskState{unwritable: err}.err()}
	}
	if s.unopened {
		s.spare.release(spareOpens)
	}
	s.options.step(stepCommit)
	err = s.commitTxn(b.txn)
	if s.unopened = err != nil && unopened(err); s.unopened {
		return &notWritten{errNoDescriptors}
	}
	if err != nil {
		return s.fail("a commit failed", err)
	}
	if text := s.logger.unsynced.Load(); text != nil {
		return s.fail("the value log could not be synced", errors.New(*text))
	}
	s.options.step(stepHighWater)
	s.meta = b.next
	if err := s.water.write(s.meta.Commit); err != nil {
		return s.fail("the high-water file could not be written", err)
	}
	s.options.step(stepPublish)
	s.publish(b)
	s.removed.Store(s.meta.Removed)
	s.reclaimed.Store(s.meta.Reclaimed.UnixNano())
	if s.growth += b.bytes; s.growth >= growth {
		s.growth = 0
		select {
		case s.grown <- struct{}{}:
		default:
		}
	}
	return nil
}

// publish tells agenda, cache and statistics what was committed.
func (s *Store) publish(b *batch) {
	var added []listed
	for _, r := range b.forgotten {
		s.schedule(r)
	}
	for _, r := range b.rows {
		if !r.dirty {
			continue
		}
		s.schedule(r)
		s.cache.keep(r)
		s.older.note(r)
		if r.rec.Seq > s.published {
			added = append(added, listed{r.rec.Seq, r.place})
		}
	}
	slices.SortFunc(added, func(a, b listed) int { return cmp.Compare(a.seq, b.seq) })
	s.published = b.seq
	oldest, _ := s.agenda.Oldest()
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, l := range added {
		s.recent.add(l.seq, l.place.Hash)
	}
	s.stats.Oldest = oldest
	s.stats.Commits++
	s.stats.Accepted += b.news
	s.count(b.change)
}

func (t *tally) add(other tally, by int64) {
	t.records += by * other.records
	t.pending += by * other.pending
	t.running += by * other.running
	t.dead += by * other.dead
	t.backlog += by * other.backlog
	t.waiting += by * other.waiting
	t.waitingBytes += by * other.waitingBytes
	t.sum += uint64(by) * other.sum //nolint:gosec // modulo 2^64, as the sum is
	t.quarantined = addQuarantined(t.quarantined, other.quarantined, by)
}

// addQuarantined adds one count of quarantined deliveries to another, which it changes and returns. Kinds without any
// are left out.
func addQuarantined(to, other map[dedup.QuarantineGroup]int64, by int64) map[dedup.QuarantineGroup]int64 {
	if to == nil && len(other) > 0 {
		to = map[dedup.QuarantineGroup]int64{}
	}
	for kind, n := range other {
		if to[kind] += by * n; to[kind] == 0 {
			delete(to, kind)
		}
	}
	return to
}

// count changes the statistics; s.mu is held.
func (s *Store) count(t tally) {
	s.stats.Records += t.records
	s.stats.Pending += t.pending
	s.stats.Running += t.running
	s.stats.Dead += t.dead
	s.stats.Backlog += t.backlog
	s.stats.Quarantined = addQuarantined(s.stats.Quarantined, t.quarantined, 1)
	s.backlog.add(t.waitingBytes, t.waiting)
}

// schedule tells the agenda how the tasks of a row stand.
func (s *Store) schedule(r *row) {
	for i := range r.rec.Tasks {
		t := &r.rec.Tasks[i]
		switch {
		case r.gone || r.rec.Hold || !t.Open():
			s.agenda.Remove(r.rec.Seq, i)
		case t.State == dedup.Pending:
			s.agenda.Schedule(taskqueue.Item[record.Hash]{
				Event: r.place.Hash, Task: i, Seq: r.rec.Seq, Lane: r.rec.LaneOf(i), Yields: r.rec.Yields(i), Due: t.Due,
				Accepted: r.rec.Accepted, Bytes: r.event.Size, Suspect: t.Interrupted(),
			})
		default:
			s.agenda.Extend(r.rec.Seq, i, t.Until)
		}
	}
}

// rowCache keeps rows with open tasks, so that taking and finishing them reads nothing.
type rowCache struct {
	rows  map[record.Place]*row
	bytes int64
	max   int64
}

func (c *rowCache) get(p record.Place) *row { return c.rows[p] }

func (c *rowCache) keep(r *row) {
	if old := c.rows[r.place]; old != nil {
		c.bytes -= old.weight()
		delete(c.rows, r.place)
	}
	if r.gone || !r.event.Loaded() || !r.rec.Open() || c.bytes+r.weight() > c.max {
		return
	}
	r.settled()
	c.rows[r.place] = r
	c.bytes += r.weight()
}

// settled makes the row what the database has.
func (r *row) settled() { r.dirty, r.fresh, r.before = false, false, r.tally() }

func (r *row) weight() int64 { return r.event.Memory() + 768 }
