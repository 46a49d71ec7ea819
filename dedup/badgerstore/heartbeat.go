package badgerstore

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/eyelet-dev/eyelet/dedup"
)

// The times of a heartbeat: how often it looks, after how long a commit counts as hanging, and after how long the
// store has failed.
const (
	beatEvery = 500 * time.Millisecond
	hangAfter = 4 * time.Second // with a look before and one after, readiness is red within 5 seconds
	failAfter = time.Minute
)

// heartbeat watches the committer from outside. A disk that does not answer returns no error: the commit blocks, and
// Badger tries for ever to write a memory table that cannot be written.
//
// Time is what passes from look to look, and never more than two looks at once: a process that was paused must not
// take the pause for a hanging disk.
type heartbeat struct {
	now    func() time.Time
	epoch  time.Time
	work   atomic.Uint64 // odd while the committer works, another number for every piece of work
	last   atomic.Int64  // when the last look was, after epoch
	missed atomic.Int64  // how late it was, until paused has told
	hang   atomic.Pointer[dedup.ErrUnavailable]
	hangs  signal

	// The watching goroutine's own.
	seen     uint64
	working  time.Duration // for how long the piece of work seen has been under way
	flushing time.Duration // for how long a memory table cannot be written
}

func newHeartbeat(now func() time.Time) *heartbeat {
	return &heartbeat{now: now, epoch: now(), hangs: signal{on: make(chan struct{})}}
}

// begin and end enclose a piece of work of the committer.
func (h *heartbeat) begin() { h.work.Store(h.work.Load()&^1 + 3) }

func (h *heartbeat) end() { h.work.Store(h.work.Load()&^1 + 2) }

// err is why nothing new is accepted; nil while the disk answers.
func (h *heartbeat) err() error {
	if u := h.hang.Load(); u != nil {
		return u
	}
	return nil
}

// pauseAfter is after how long without a look the process may have stood still.
const pauseAfter = 4 * beatEvery

// paused returns for how long the process, or its machine, stood still since the call before: nothing was looked at for
// much longer than it should be. Who goes on first, the caller or the watching goroutine, does not matter.
func (h *heartbeat) paused() time.Duration {
	gap := h.now().Sub(h.epoch) - time.Duration(h.last.Load())
	if gap > pauseAfter {
		h.since()
	}
	if gap = max(gap, time.Duration(h.missed.Swap(0))); gap > pauseAfter {
		return gap
	}
	return 0
}

// since returns the time since it was called last.
func (h *heartbeat) since() time.Duration {
	now := h.now().Sub(h.epoch)
	return now - time.Duration(h.last.Swap(int64(now)))
}

// look notes how the committer stands. flush is why a memory table cannot be written, nil while it can. It returns
// why the store has failed, once it has.
func (h *heartbeat) look(flush error) (failed error) {
	step := h.since()
	if step > pauseAfter {
		h.missed.Store(int64(step))
	}
	step = min(step, 2*beatEvery)
	if work := h.work.Load(); work != h.seen || work&1 == 0 {
		h.seen, h.working = work, 0
	} else {
		h.working += step
	}
	if flush == nil {
		h.flushing = 0
	} else {
		h.flushing += step
	}
	var cause error
	switch {
	case flush != nil:
		cause = fmt.Errorf("a memory table cannot be written: %w", flush)
	case h.working >= hangAfter:
		cause = fmt.Errorf("a commit has been under way for %v", h.working.Round(time.Second))
	}
	h.note(cause)
	if h.working >= failAfter || h.flushing >= failAfter {
		return cause
	}
	return nil
}

// note makes known why the disk does not answer, or that it does.
func (h *heartbeat) note(cause error) {
	if cause == nil {
		h.hang.Store(nil)
	} else {
		h.hang.Store(&dedup.ErrUnavailable{Reason: "the disk does not answer", RetryAfter: 5 * time.Second, Err: cause})
	}
	h.hangs.set(cause != nil)
}

// watch watches the committer until the store is closed.
func (h *heartbeat) watch(c *core) {
	beats := c.options.beats
	if beats == nil {
		tick := time.NewTicker(beatEvery)
		defer tick.Stop()
		beats = tick.C
	}
	for {
		select {
		case <-c.ended:
			return
		case <-c.failed:
			return
		case <-beats:
			h.beat(c)
		}
	}
}

// beat looks once, and tells what has changed.
func (h *heartbeat) beat(c *core) {
	before := h.err()
	failed := h.look(c.logger.flushing.current())
	after := h.err()
	switch {
	case failed != nil:
		_ = c.fail("the disk does not answer", failed)
	case before == nil && after != nil:
		c.log.Error("the disk does not answer: new events are refused", "dir", c.dir, "error", errors.Unwrap(after))
	case before != nil && after == nil:
		c.log.Info("the disk answers again", "dir", c.dir)
	}
}

// signal is a state that can be waited for.
type signal struct {
	mu sync.Mutex
	on chan struct{} // closed while the state is on
}

// wait returns a channel that is closed once the state is on.
func (s *signal) wait() <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.on
}

func (s *signal) set(on bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	select {
	case <-s.on:
		if !on {
			s.on = make(chan struct{})
		}
	default:
		if on {
			close(s.on)
		}
	}
}
