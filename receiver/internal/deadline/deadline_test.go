package deadline

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

func TestAContextEndsAfterTheTimeoutAlone(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const timeout = 16 * time.Second
		type name struct{}
		timeouts, began := New(timeout), time.Now()
		var made []context.Context
		at := func(i int) time.Time { return began.Add(time.Duration(i) * 300 * time.Millisecond) }
		for i := range 40 {
			parent, cancel := context.WithCancelCause(context.WithValue(t.Context(), name{}, i))
			ctx := timeouts.Context(parent)
			cancel(errors.New("the client is gone"))
			if ctx.Value(name{}) != i || ctx.Err() != nil || context.Cause(ctx) != nil {
				t.Fatal(ctx.Value(name{}), ctx.Err(), context.Cause(ctx))
			}
			made = append(made, ctx)
			time.Sleep(time.Until(at(i + 1)))
		}
		for i, ctx := range made {
			time.Sleep(time.Until(at(i).Add(timeout*15/16 - 1)))
			if ctx.Err() != nil {
				t.Errorf("%d ended too early", i)
			}
		}
		for i, ctx := range made {
			time.Sleep(time.Until(at(i).Add(timeout)))
			synctest.Wait()
			if err := context.Cause(ctx); !errors.Is(err, context.DeadlineExceeded) || !errors.Is(err, ctx.Err()) {
				t.Errorf("%d has not ended: %v, %v", i, err, ctx.Err())
			}
		}
	})
}

func TestDerivedContextsEndWithTheirParent(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		child, cancel := context.WithCancel(New(time.Second).Context(t.Context()))
		defer cancel()
		time.Sleep(2 * time.Second)
		if err := child.Err(); !errors.Is(err, context.DeadlineExceeded) {
			t.Error(err)
		}
	})
}

func TestContextsShareATimer(t *testing.T) {
	timeouts, values := New(time.Hour), t.Context()
	var ctx context.Context
	if n := testing.AllocsPerRun(100, func() { ctx = timeouts.Context(values) }); n > 1 {
		t.Errorf("%v allocations", n)
	}
	select {
	case <-ctx.Done():
		t.Error("ended")
	default:
	}
}
