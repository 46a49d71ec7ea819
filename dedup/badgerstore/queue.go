package badgerstore

import (
	"cmp"
	"context"
	"sync"
	"time"

	"github.com/eyelet-dev/eyelet/dedup"
)

// The bounds of a batch and of the queue in front of it.
const (
	batchOps   = 1024
	batchBytes = 3 << 20
	queueOps   = 8192
	queueBytes = 64 << 20
	claimBytes = 1 << 30        // of a call with one claim
	largeBytes = queueBytes / 2 // of large bodies at a time, or of one call

	// After a batch of more than gatherAfter eager operations the committer waits up to gatherFor
	// for about as many: the callers just answered are about to return, and flushes are expensive.
	gatherAfter = 8
	gatherFor   = 500 * time.Microsecond

	// lazyFor is how long operations without a request wait to share a commit, unless lazyMost do.
	lazyFor  = 2 * time.Millisecond
	lazyMost = 256
)

// op is an operation of the committer. apply stages its changes in the batch. Its error goes to the
// caller, and the batch continues without the operation.
type op interface {
	apply(b *batch) error
	self() *ticket
}

type ticket struct {
	eager bool // a request waits for it: do not delay
	claim bool // refused if the queue is full
	bytes int
	err   error
	done  chan struct{} // receives when err is final; operations of one call may share it
}

func (t *ticket) self() *ticket { return t }

// answer ends an operation: with err, else with its own error.
func (t *ticket) answer(err error) {
	t.err = cmp.Or(err, t.err)
	t.done <- struct{}{}
}

var errQueueFull = &dedup.ErrUnavailable{Reason: "write queue full", RetryAfter: time.Second}

// ticketBytes is the size of an operation without data.
const ticketBytes = 512

// channels are those of operations that are done.
var channels = sync.Pool{New: func() any { return make(chan struct{}, 1) }}

func newTicket(eager bool) ticket {
	return ticket{eager: eager, bytes: ticketBytes, done: channels.Get().(chan struct{})}
}

type queue struct {
	mu       sync.Mutex
	ops      []op
	bytes    int
	eager    int
	lazyAt   time.Time // when the oldest queued lazy operation was pushed
	want     int       // the committer sleeps until this many eager operations are queued
	sleeping bool
	closed   bool
	wake     chan struct{}
	timer    *time.Timer
}

func newQueue() *queue {
	t := time.NewTimer(time.Hour)
	t.Stop()
	return &queue{wake: make(chan struct{}, 1), want: 1, timer: t}
}

// push adds operations, or returns dedup.ErrClosed or errQueueFull and adds none.
func (q *queue) push(ops ...op) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed {
		return dedup.ErrClosed
	}
	for _, o := range ops {
		t := o.self()
		if t.claim && (len(q.ops) >= queueOps || q.bytes+t.bytes > queueBytes && q.bytes > 0) {
			return errQueueFull
		}
	}
	ring := false
	for _, o := range ops {
		ring = q.add(o) || ring
	}
	if ring {
		q.ring()
	}
	return nil
}

// add adds an operation. It reports whether the committer must wake up.
func (q *queue) add(o op) bool {
	t := o.self()
	q.ops = append(q.ops, o)
	q.bytes += t.bytes
	if t.eager {
		q.eager++
		return q.eager >= q.want
	}
	lazy := len(q.ops) - q.eager
	if lazy == 1 {
		q.lazyAt = time.Now() // the committer sets its timer
	}
	return lazy == 1 || lazy == lazyMost
}

func (q *queue) ring() {
	if !q.sleeping {
		return
	}
	select {
	case q.wake <- struct{}{}:
	default:
	}
}

func (q *queue) close() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.closed = true
	q.ring()
}

// wait blocks until a batch is due and returns its operations, or none when alarm rings. last is
// the number of eager operations of the previous batch. due is since when there has been work for a
// parked Take, or zero; it waits like a lazy operation. closed: the queue is closed and empty.
func (q *queue) wait(buf []op, last int, due time.Time, alarm <-chan struct{}) (ops []op, closed bool) {
	gatherUntil := time.Time{}
	q.mu.Lock()
	defer q.mu.Unlock()
	if last > gatherAfter {
		q.want = max(1, min(last-last/8, batchOps))
		gatherUntil = time.Now().Add(gatherFor)
	}
	defer func() { q.want = 1 }()
	for {
		sleep, ready := q.ready(gatherUntil, due)
		if ready {
			return q.cut(buf), q.closed && len(q.ops) == 0
		}
		if sleep > 0 {
			q.timer.Reset(sleep)
		}
		q.sleeping = true
		q.mu.Unlock()
		rang := false
		select {
		case <-q.wake:
		case <-q.timer.C:
		case <-alarm:
			rang = true
		}
		q.timer.Stop()
		q.mu.Lock()
		q.sleeping = false
		if rang {
			return buf[:0], false
		}
	}
}

// ready reports whether a batch is due now, and otherwise how long to wait at most; 0 is forever.
func (q *queue) ready(gatherUntil, due time.Time) (sleep time.Duration, ready bool) {
	lazy := len(q.ops) - q.eager
	if q.closed || q.eager >= q.want || lazy >= lazyMost || q.bytes >= batchBytes {
		return 0, true
	}
	var until time.Time
	earlier := func(t time.Time) {
		if until.IsZero() || t.Before(until) {
			until = t
		}
	}
	if q.eager > 0 {
		earlier(gatherUntil)
	}
	if lazy > 0 {
		earlier(q.lazyAt.Add(lazyFor))
	}
	if !due.IsZero() {
		earlier(due.Add(lazyFor))
	}
	if until.IsZero() {
		if !gatherUntil.IsZero() && time.Until(gatherUntil) <= 0 {
			q.want = 1
		}
		if q.want > 1 {
			return max(time.Until(gatherUntil), 1), false
		}
		return 0, false
	}
	if sleep = time.Until(until); sleep <= 0 {
		return 0, true
	}
	return sleep, false
}

func (q *queue) cut(buf []op) []op {
	n, bytes := 0, 0
	for n < len(q.ops) && n < batchOps {
		t := q.ops[n].self()
		if n > 0 && bytes+t.bytes > batchBytes {
			break
		}
		bytes += t.bytes
		if t.eager {
			q.eager--
		}
		n++
	}
	buf = append(buf[:0], q.ops[:n]...)
	rest := copy(q.ops, q.ops[n:])
	clear(q.ops[rest:])
	q.ops = q.ops[:rest]
	q.bytes -= bytes
	if rest > q.eager {
		q.lazyAt = time.Now()
	}
	return buf
}

// do hands an operation to the committer and waits for its result.
func (c *core) do(ctx context.Context, o op) error {
	err := cmp.Or(c.usable(), ctx.Err())
	var hangs <-chan struct{}
	if err == nil && o.self().claim {
		err, hangs = c.heart.err(), c.heart.hangs.wait()
	}
	if err == nil {
		err = c.push(ctx, hangs, o)
	}
	if err != nil {
		return err
	}
	channels.Put(o.self().done) // nothing sends to it any more
	return o.self().err
}

// push waits until operations, which share a channel, are done. It returns an error if ctx ends,
// the store has failed, or hangs is closed before: the operations may still happen then.
func (c *core) push(ctx context.Context, hangs <-chan struct{}, ops ...op) error {
	if err := c.queue.push(ops...); err != nil {
		return err
	}
	done := ops[0].self().done
	for left := len(ops); left > 0; {
		select {
		case <-done:
			left--
		case <-ctx.Done():
			return ctx.Err()
		case <-c.failed:
			return c.failure.Load()
		case <-hangs:
			if err := c.heart.err(); err != nil {
				return err
			}
			hangs = nil // the disk responds again
		}
	}
	return nil
}

// submit is do for the background, which waits to the end.
func (c *core) submit(o op) error {
	if err := c.queue.push(o); err != nil {
		return err
	}
	<-o.self().done
	return o.self().err
}
