package pgstore

import (
	"context"
	"sync"
	"time"
)

// gatherer passes operations to a few workers. Those that arrive while all are busy go together
// in the next batch, so batches grow with the load.
type gatherer[T any] struct {
	queue chan T
	turn  chan struct{} // held while a batch runs
	// rest is how long after the beginning of a worker's batch its next one begins at the earliest.
	rest time.Duration
}

// overlap is how long a batch runs until the next one begins beside it. Batches that take less,
// with a database nearby, run one after the other: twice as many operations share one commit.
const overlap = 5 * time.Millisecond

// maxQueue is how many operations wait before further ones do not even get in.
const maxQueue = 4096

// start starts the workers. A batch is complete when its operations weigh most or more.
func (g *gatherer[T]) start(wg *sync.WaitGroup, workers, most int, weigh func(T) int, run func([]T)) {
	g.queue, g.turn = make(chan T, maxQueue), make(chan struct{}, 1)
	for range workers {
		wg.Go(func() {
			var next time.Time
			for op := range g.queue {
				time.Sleep(time.Until(next))
				free := g.enter()
				next = time.Now().Add(g.rest)
				run(g.gather(op, most, weigh))
				free()
			}
		})
	}
}

// enter waits until no batch runs, or one that takes long.
func (g *gatherer[T]) enter() (free func()) {
	select {
	case g.turn <- struct{}{}:
		return func() { <-g.turn }
	case <-time.After(overlap):
		return func() {}
	}
}

// gather returns the operation with those that wait behind it.
func (g *gatherer[T]) gather(op T, most int, weigh func(T) int) []T {
	batch := []T{op}
	for weight := weigh(op); weight < most; weight += weigh(op) {
		select {
		case next, ok := <-g.queue:
			if !ok {
				return batch
			}
			op = next
			batch = append(batch, op)
		default:
			return batch
		}
	}
	return batch
}

// put queues an operation. It waits while the queue is full.
func (g *gatherer[T]) put(ctx context.Context, op T) error {
	select {
	case g.queue <- op:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// stop ends the workers once the queue is empty. No call may put more.
func (g *gatherer[T]) stop() { close(g.queue) }
