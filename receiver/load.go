package receiver

import (
	"sync"
	"time"
)

const (
	// aheadFor is how long the tasks that are taken ahead of the workers may take to start, as far as can be
	// told, and aheadMost is how many there are at most. A crash counts an attempt of each.
	aheadFor  = 50 * time.Millisecond
	aheadMost = 256
	// aheadPatience is how long a task that was taken waits for a worker before it is given back.
	aheadPatience = time.Second
	// unrecordedMost is how many outcomes may be on their way to the store at once.
	unrecordedMost = 1024
)

// load counts the tasks that the dispatcher has. Only the taking goroutine adds, so what was free stays free
// until it adds again.
type load struct {
	workers int

	mu    sync.Mutex
	tasks int   // whose handlers have not returned yet, those that wait for a worker included
	bytes int64 // of the payloads of these
	open  int   // without an outcome that the store knows of
	pace  pace
	less  chan struct{} // holds a signal after something was removed
}

// room returns how many more tasks, of how many bytes, there is room for. Neither is negative.
func (l *load) room() (tasks int, bytes int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	tasks = min(l.workers+l.pace.ahead(l.workers)-l.tasks, l.workers+unrecordedMost-l.open)
	return max(0, tasks), max(0, loadBytes-l.bytes)
}

// withoutOutcome returns the number of tasks that have no outcome yet.
func (l *load) withoutOutcome() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.open
}

func (l *load) add(bytes int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.tasks++
	l.bytes += bytes
	l.open++
}

// leave takes out a task whose handler has returned, or does not run.
func (l *load) leave(bytes int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.tasks--
	l.bytes -= bytes
	l.signal()
}

// end takes out a task that has its outcome.
func (l *load) end() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.open--
	l.signal()
}

// ran notes how long a worker was busy with a task, and waited that a task has waited so long for one.
func (l *load) ran(took time.Duration)      { l.note(func(p *pace) { p.ran(took) }) }
func (l *load) waited(waited time.Duration) { l.note(func(p *pace) { p.waited(waited) }) }

func (l *load) note(change func(*pace)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	change(&l.pace)
}

func (l *load) signal() {
	select {
	case l.less <- struct{}{}:
	default:
	}
}

// pace estimates how long handlers take. Tasks are taken ahead of the workers only where they start almost at
// once: a task that waits here has used an attempt if the process dies, and then runs only when its turn
// among the interrupted ones has come.
type pace struct {
	mean  time.Duration // of the last dozen or so
	known bool
}

// ahead returns how many tasks the workers get through in aheadFor, at most aheadMost; none while no handler
// has returned yet.
func (p *pace) ahead(workers int) int {
	if !p.known {
		return 0
	}
	return int(min(int64(workers)*int64(aheadFor)/max(1, int64(p.mean)), aheadMost))
}

func (p *pace) ran(took time.Duration) {
	if !p.known {
		p.mean, p.known = took, true
		return
	}
	p.mean += (took - p.mean) / 16
}

// waited says that the estimate was wrong: in all that time no worker was free.
func (p *pace) waited(long time.Duration) { p.mean = max(p.mean, long) }
