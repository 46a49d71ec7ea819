package receiver

import (
	"context"
	"errors"
	"sync"
)

// door counts what is under way and lets nobody in once it is closed.
type door struct {
	mu     sync.Mutex
	closed bool
	inside sync.WaitGroup
}

// enter reports whether work may begin; then leave must follow.
func (d *door) enter() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
		return false
	}
	d.inside.Add(1)
	return true
}

// stay counts work that outlasts the work which starts it. The caller is inside.
func (d *door) stay() { d.inside.Add(1) }

func (d *door) leave() { d.inside.Done() }

func (d *door) shut() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.closed
}

var errUnderWay = errors.New("requests were still under way")

// close lets nobody in any more and waits until everybody has left or ctx ends.
func (d *door) close(ctx context.Context) error {
	d.mu.Lock()
	d.closed = true
	d.mu.Unlock()
	empty := make(chan struct{})
	go func() {
		d.inside.Wait()
		close(empty)
	}()
	select {
	case <-empty:
		return nil
	case <-ctx.Done():
		return errors.Join(errUnderWay, ctx.Err())
	}
}
