package admission

import (
	"context"
	"errors"
	"sync"
)

// InFlight counts requests in flight and refuses new ones while draining. The zero value is ready.
type InFlight struct {
	mu       sync.Mutex
	draining bool
	wg       sync.WaitGroup
}

// Begin reports whether a request may begin; then Done must follow.
func (f *InFlight) Begin() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.draining {
		return false
	}
	f.wg.Add(1)
	return true
}

// Add counts background work of a request that is itself in flight; Done must follow.
func (f *InFlight) Add() { f.wg.Add(1) }

// Done ends what Begin or Add counted.
func (f *InFlight) Done() { f.wg.Done() }

// Draining reports whether Drain was called.
func (f *InFlight) Draining() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.draining
}

// Drain refuses new requests and waits until all others have ended, or ctx has.
func (f *InFlight) Drain(ctx context.Context) error {
	f.mu.Lock()
	f.draining = true
	f.mu.Unlock()
	empty := make(chan struct{})
	go func() {
		f.wg.Wait()
		close(empty)
	}()
	select {
	case <-empty:
		return nil
	case <-ctx.Done():
		return errors.Join(errors.New("requests were still in flight"), ctx.Err())
	}
}
