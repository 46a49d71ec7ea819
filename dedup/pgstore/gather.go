package pgstore

import (
	"context"
	"sync"
)

// maxBatch is how many operations one statement carries.
const maxBatch = 256

// gatherer passes operations to a few workers. Those that arrive while all are busy go together
// in the next batch, so batches grow with the load.
type gatherer[T any] struct {
	queue chan T
}

// start starts the workers. run is called with at most most operations.
func (g *gatherer[T]) start(wg *sync.WaitGroup, workers, most int, run func([]T)) {
	g.queue = make(chan T, 16*most)
	for range workers {
		wg.Go(func() {
			for op := range g.queue {
				batch := []T{op}
				for more := true; more && len(batch) < most; {
					select {
					case next, ok := <-g.queue:
						if more = ok; ok {
							batch = append(batch, next)
						}
					default:
						more = false
					}
				}
				run(batch)
			}
		})
	}
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
