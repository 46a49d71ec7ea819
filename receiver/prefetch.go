package receiver

import (
	"sync"
	"time"
)

const (
	// prefetchFor is how long prefetched tasks may take to start, by the estimate, and
	// prefetchMax bounds their number. A crash counts an attempt of each.
	prefetchFor = 50 * time.Millisecond
	prefetchMax = 512
	// prefetchBytes bounds the payloads of all running and prefetched tasks, give or take one:
	// a handful of the largest bodies that presets allow (25 MiB).
	prefetchBytes = 128 << 20
	// workerPatience is how long a prefetched task waits for a worker before it returns to the
	// store.
	workerPatience = time.Second
	// unrecordedMax bounds the outcomes that the store has not recorded yet.
	unrecordedMax = 1024
)

// prefetcher bounds the tasks that the dispatcher takes. Only the taking goroutine adds, so
// capacity stays available until it adds again.
type prefetcher struct {
	workers int

	mu       sync.Mutex
	tasks    int   // that run or wait for a worker
	bytes    int64 // of their payloads
	open     int   // tasks without a recorded outcome
	estimate runEstimate
	freed    chan struct{} // signals that capacity grew
}

// capacity returns how many more tasks and bytes may be taken. Neither is negative.
func (p *prefetcher) capacity() (tasks int, bytes int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.free(), max(0, prefetchBytes-p.bytes)
}

// free returns how many more tasks may be taken. While all workers are busy it is zero until half
// of what may be prefetched is free: a Take of a few tasks costs as much as one of many, and lets
// the others wait for the next.
func (p *prefetcher) free() int {
	ahead := p.estimate.ahead(p.workers)
	n := min(p.workers+ahead-p.tasks, p.workers+unrecordedMax-p.open)
	if p.tasks >= p.workers && 2*n < ahead {
		return 0
	}
	return max(0, n)
}

// unfinished returns the number of tasks without a recorded outcome.
func (p *prefetcher) unfinished() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.open
}

func (p *prefetcher) add(bytes int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.tasks++
	p.bytes += bytes
	p.open++
}

// release removes a task whose handler has returned or will not run.
func (p *prefetcher) release(bytes int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.tasks--
	p.bytes -= bytes
	p.signal()
}

// finish removes a task whose outcome is recorded or abandoned.
func (p *prefetcher) finish() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.open--
	p.signal()
}

// observeRun records how long a handler ran.
func (p *prefetcher) observeRun(took time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.estimate.add(took)
}

// observeWait records that a task waited so long for a worker in vain.
func (p *prefetcher) observeWait(waited time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.estimate.mean = max(p.estimate.mean, waited)
}

func (p *prefetcher) signal() {
	if p.free() == 0 {
		return
	}
	select {
	case p.freed <- struct{}{}:
	default:
	}
}

// runEstimate estimates how long handlers run. Tasks are prefetched only where they start
// almost at once: when the process dies, a prefetched task has used an attempt, and runs only
// after the interrupted tasks before it.
type runEstimate struct {
	mean  time.Duration // of the last dozen or so
	known bool
}

// ahead returns how many tasks the workers finish in prefetchFor, at most prefetchMax; none
// before the first handler has returned.
func (e *runEstimate) ahead(workers int) int {
	if !e.known {
		return 0
	}
	return int(min(int64(workers)*int64(prefetchFor)/max(1, int64(e.mean)), prefetchMax))
}

func (e *runEstimate) add(took time.Duration) {
	if !e.known {
		e.mean, e.known = took, true
		return
	}
	e.mean += (took - e.mean) / 16
}
