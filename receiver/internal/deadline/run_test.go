package deadline

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

// seen is what a context and a child of it show.
type seen struct {
	err, cause, childErr, childCause error
	done                             bool
}

func look(ctx, child context.Context) seen {
	s := seen{ctx.Err(), context.Cause(ctx), child.Err(), context.Cause(child), false}
	select {
	case <-ctx.Done():
		s.done = true
	default:
	}
	return s
}

// TestARunIsAContextOfPackageContext compares a run with what it replaces, for a child that is made
// in the beginning, after a wait, or after the end.
func TestARunIsAContextOfPackageContext(t *testing.T) {
	t.Parallel()
	for _, wait := range []time.Duration{0, time.Minute - 1, time.Minute, 2 * time.Minute} {
		for _, cause := range []error{nil, errors.New("the lease was lost"), context.DeadlineExceeded} {
			for child := range 3 {
				synctest.Test(t, func(t *testing.T) { compare(t, wait, cause, child) })
			}
		}
	}
}

func compare(t *testing.T, wait time.Duration, cause error, child int) {
	inner, end := context.WithCancelCause(context.Background())
	want, stop := context.WithTimeout(inner, time.Minute)
	defer stop()
	var run Run
	run.Begin(time.Minute)
	type key struct{}
	var children [2]context.Context
	step := func(n int) {
		synctest.Wait()
		if a, b := [2]error{want.Err(), context.Cause(want)}, [2]error{run.Err(), run.Cause()}; a != b {
			t.Errorf("%v, %v, step %d: %v, want %v", wait, cause, n, b, a)
		}
		for i, parent := range []context.Context{want, &run} {
			if n == child {
				ctx, end := context.WithCancel(context.WithValue(parent, key{}, 1))
				t.Cleanup(end)
				children[i] = ctx
			}
		}
		if n >= child {
			if a, b := look(want, children[0]), look(&run, children[1]); a != b {
				t.Errorf("%v, %v, step %d: %v, want %v", wait, cause, n, b, a)
			}
		}
	}
	step(0)
	time.Sleep(wait)
	step(1)
	end(cause)
	run.End(cause)
	step(2)
}

func TestARunOfWhichNothingIsAskedAllocatesNothing(t *testing.T) {
	run := new(Run)
	n := testing.AllocsPerRun(100, func() {
		*run = Run{}
		run.Begin(time.Hour)
		_ = run.Err()
		run.End(nil)
	})
	if n > 0 || run.Err() != context.Canceled { //nolint:errorlint // as package context returns it
		t.Errorf("%v allocations, %v", n, run.Err())
	}
}
