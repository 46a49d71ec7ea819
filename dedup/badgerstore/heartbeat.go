package badgerstore

import (
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/eyelet-dev/eyelet/dedup"
	"github.com/eyelet-dev/eyelet/dedup/badgerstore/internal/kv"
	"github.com/eyelet-dev/eyelet/internal/duration"
)

// The interval of a heartbeat, and after which time a commit hangs and the store has failed.
const (
	beatEvery = 500 * time.Millisecond
	hangAfter = 4 * time.Second // with a beat before and one after, readiness turns red within 5 seconds
	failAfter = time.Minute

	// A commit of more than a segment takes longer: a second for each slowest bytes. So does what
	// puts it at rest, soon after.
	slowest    = 8 << 20
	largeLasts = 2 * time.Minute
)

// heartbeat watches the goroutines that write from outside. A disk that does not respond returns
// no error: a write blocks, and Badger retries forever to write a memory table. A beat counts at
// most two intervals: a paused process is not mistaken for a hanging disk.
type heartbeat struct {
	now    func() time.Time
	epoch  time.Time
	work   kv.Work      // of the committer
	last   atomic.Int64 // when the last beat was, after epoch
	missed atomic.Int64 // how late it was, until paused returns it
	hang   outage
	hangs  signal
	longer atomic.Int64 // how much longer a piece of work may take
	until  atomic.Int64 // when that ends, after epoch

	// Used by the watching goroutine only.
	workers  []*worker
	flushing time.Duration // how long a memory table could not be written
}

// worker is a goroutine that writes.
type worker struct {
	what    string
	work    *kv.Work
	piece   uint64
	working time.Duration // how long the current piece takes
}

func (w *worker) look(step time.Duration) {
	if piece, working := w.work.Piece(); piece != w.piece || !working {
		w.piece, w.working = piece, 0
	} else {
		w.working += step
	}
}

func newHeartbeat(now func() time.Time) *heartbeat {
	h := &heartbeat{now: now, epoch: now(), hangs: signal{on: make(chan struct{})}}
	h.workers = []*worker{{what: "a commit", work: &h.work}}
	return h
}

// follow watches the goroutines of the database too.
func (h *heartbeat) follow(db *kv.DB) {
	h.workers = append(h.workers, &worker{what: "putting commits at rest", work: db.Applying()},
		&worker{what: "a checkpoint", work: db.Checkpointing()})
}

// expect allows for the bytes of a commit.
func (h *heartbeat) expect(bytes int64) {
	longer := int64(time.Second) * max(0, bytes-segmentSize) / slowest
	if now := int64(h.now().Sub(h.epoch)); now >= h.until.Load() || longer > h.longer.Load() {
		h.longer.Store(longer)
		h.until.Store(now + longer + int64(largeLasts))
	}
}

func (h *heartbeat) err() error { return h.hang.err() }

// pauseAfter is the time without a beat after which the process counts as paused.
const pauseAfter = 4 * beatEvery

// paused returns how long the process or its machine was paused since the last call, whichever
// goroutine resumes first.
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

func (h *heartbeat) since() time.Duration {
	now := h.now().Sub(h.epoch)
	return now - time.Duration(h.last.Swap(int64(now)))
}

// look measures the progress of the workers. flush is why a memory table cannot be written, or nil.
// It returns the cause once the store has failed.
func (h *heartbeat) look(flush error) (failed error) {
	step := h.since()
	if step > pauseAfter {
		h.missed.Store(int64(step))
	}
	step = min(step, 2*beatEvery)
	busiest := h.workers[0]
	for _, w := range h.workers {
		if w.look(step); w.working > busiest.working {
			busiest = w
		}
	}
	if flush == nil {
		h.flushing = 0
	} else {
		h.flushing += step
	}
	var cause error
	var longer time.Duration
	if h.now().Sub(h.epoch) < time.Duration(h.until.Load()) {
		longer = time.Duration(h.longer.Load())
	}
	switch {
	case flush != nil:
		cause = fmt.Errorf("a memory table cannot be written: %w", flush)
	case busiest.working >= hangAfter+longer:
		cause = fmt.Errorf("%s has been running for %s", busiest.what, duration.Rough(busiest.working))
	}
	h.setCause(cause)
	if busiest.working >= failAfter+longer || h.flushing >= failAfter {
		return cause
	}
	return nil
}

// setCause publishes why the disk does not respond, or that it does.
func (h *heartbeat) setCause(cause error) {
	if cause == nil {
		h.hang.Store(nil)
	} else {
		h.hang.Store(&dedup.ErrUnavailable{Reason: "the disk does not respond", RetryAfter: 5 * time.Second,
			Err: cause})
	}
	h.hangs.set(cause != nil)
}

// signal is a state that goroutines can wait for.
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
