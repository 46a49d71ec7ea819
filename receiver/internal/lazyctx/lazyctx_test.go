package lazyctx

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"
)

var errStop = errors.New("stop")

// pair is a context of this package and what it must behave as.
type pair struct {
	lazy     Context
	standard context.Context
	cancel   context.CancelCauseFunc
	stop     context.CancelFunc
}

func newPair(timeout time.Duration) *pair {
	p := &pair{}
	p.lazy.Start(timeout)
	p.standard, p.cancel = context.WithCancelCause(context.Background())
	p.standard, p.stop = context.WithTimeout(p.standard, timeout)
	return p
}

// steps are what can happen to a context, and what its user can ask.
var steps = map[string]func(p *pair){
	"cancel":  func(p *pair) { p.lazy.Cancel(errStop); p.cancel(errStop) },
	"end":     func(p *pair) { p.lazy.Cancel(nil); p.cancel(nil) },
	"pass":    func(*pair) { time.Sleep(time.Minute) },
	"done":    func(p *pair) { p.lazy.Done() },
	"err":     func(p *pair) { _ = p.lazy.Err() },
	"value":   func(p *pair) { p.lazy.Value("key") },
	"nothing": func(*pair) {},
}

// state is all that a user can see of a context.
func state(ctx context.Context) string {
	child, cancel := context.WithCancel(ctx)
	defer cancel()
	synctest.Wait()
	closed := func(done <-chan struct{}) bool {
		select {
		case <-done:
			return true
		default:
			return false
		}
	}
	at, ok := ctx.Deadline()
	return fmt.Sprint(ctx.Err(), context.Cause(ctx), closed(ctx.Done()), ctx.Value("key"), at, ok,
		child.Err(), context.Cause(child), closed(child.Done()))
}

func same(t *testing.T, got, want error, after ...string) {
	t.Helper()
	if got != want { //nolint:errorlint // the very value
		t.Errorf("after %q: %v, want %v", after, got, want)
	}
}

// TestItBehavesAsTheStandardContext compares every sequence of three steps.
func TestItBehavesAsTheStandardContext(t *testing.T) {
	t.Parallel()
	var names []string
	for name := range steps {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, first := range names {
		for _, second := range names {
			for _, third := range names {
				synctest.Test(t, func(t *testing.T) {
					p := newPair(time.Minute)
					for _, name := range []string{first, second, third} {
						steps[name](p)
						synctest.Wait()
						if name == "err" {
							same(t, p.lazy.Err(), p.standard.Err(), first, second, third)
						}
					}
					same(t, p.lazy.Cause(), context.Cause(p.standard), first, second, third)
					if got, want := state(&p.lazy), state(p.standard); got != want {
						t.Errorf("after %s, %s, %s:\n got %s\nwant %s", first, second, third, got, want)
					}
					p.lazy.Cancel(nil)
					p.cancel(nil)
				})
			}
		}
	}
}

func TestDoneIsClosedAtTheDeadline(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var c Context
		c.Start(3 * time.Second)
		start := time.Now()
		<-c.Done()
		if took := time.Since(start); took != 3*time.Second {
			t.Errorf("after %v", took)
		}
		c.Cancel(nil)
	})
}

// Package context links others to it directly: a goroutine would cancel them later.
func TestAChildIsCanceledAtOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var c Context
		c.Start(time.Hour)
		child, cancel := context.WithCancel(&c)
		defer cancel()
		c.Cancel(errStop)
		if !errors.Is(context.Cause(child), errStop) { // at once
			t.Error(context.Cause(child))
		}
	})
}

func TestNothingIsAllocatedBeforeItIsAskedFor(t *testing.T) {
	contexts := make([]Context, 1001)
	next := 0
	n := testing.AllocsPerRun(1000, func() {
		c := &contexts[next]
		next++
		c.Start(time.Hour)
		if _, ok := c.Deadline(); !ok || c.Err() != nil || c.Cause() != nil {
			t.Error("it has ended")
		}
		c.Cancel(nil)
		if !errors.Is(c.Err(), context.Canceled) {
			t.Error("it has not ended")
		}
	})
	if n != 0 {
		t.Errorf("%v allocations", n)
	}
}
