package receiver

import (
	"sync"
	"time"
)

const (
	// prefetchFor is how long the tasks that are taken ahead of the workers may take to start, as far as can be
	// told, and prefetchMax is how many there are at most. A crash counts an attempt of each.
	prefetchFor = 50 * time.Millisecond
	prefetchMax = 256
	// workerPatience is how long a task that was taken waits for a worker before it is given back.
	workerPatience = time.Second
	// unrecordedMax is how many outcomes may be on their way to the store at once.
	unrecordedMax = 1024
)

// load counts the tasks that the dispatcher has. Only the taking goroutine adds, so what was free stays free
// until it adds again.
type prefetcher struct {
	workers int

	mu       sync.Mutex
	tasks    int   // whose handlers have not returned yet, those that wait for a worker included
	bytes    int64 // of the payloads of these
	open     int   // without an outcome that the store knows of
	estimate runEstimate
	freed    chan struct{} // holds a signal after something was removed
}

// room returns how many more tasks, of how many bytes, there is room for. Neither is negative.
func (p *prefetcher) capacity() (tasks int, bytes int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	tasks = min(p.workers+p.estimate.ahead(p.workers)-p.tasks, p.workers+unrecordedMax-p.open)
	return max(0, tasks), max(0, prefetchBytes-p.bytes)
}

// unfinished returns the number of tasks that have no outcome yet.
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

// leave takes out a task whose handler has returned, or does not run.
func (p *prefetcher) release(bytes int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.tasks--
	p.bytes -= bytes
	p.signal()
}

// end takes out a task that has its outcome.
func (p *prefetcher) finish() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.open--
	p.signal()
}

// ran notes how long a worker was busy with a task, and waited that a task has waited so long for one.
func (p *prefetcher) observeRun(took time.Duration) { p.note(func(p *runEstimate) { p.ran(took) }) }
func (p *prefetcher) observeWait(waited time.Duration) {
	p.note(func(p *runEstimate) { p.waited(waited) })
}

func (p *prefetcher) note(change func(*runEstimate)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	change(&p.estimate)
}

func (p *prefetcher) signal() {
	select {
	case p.freed <- struct{}{}:
	default:
	}
}

// estimate estimates how long handlers take. Tasks are taken ahead of the workers only where they start almost at
// once: a task that waits here has used an attempt if the process dies, and then runs only when its turn
// among the interrupted ones has come.
type runEstimate struct {
	mean  time.Duration // of the last dozen or so
	known bool
}

// ahead returns how many tasks the workers get through in prefetchFor, at most prefetchMax; none while no handler
// has returned yet.
func (p *runEstimate) ahead(workers int) int {
	if !p.known {
		return 0
	}
	return int(min(int64(workers)*int64(prefetchFor)/max(1, int64(p.mean)), prefetchMax))
}

func (p *runEstimate) ran(took time.Duration) {
	if !p.known {
		p.mean, p.known = took, true
		return
	}
	p.mean += (took - p.mean) / 16
}

// waited says that the estimate was wrong: in all that time no worker was free.
func (p *runEstimate) waited(long time.Duration) { p.mean = max(p.mean, long) }
