package receiver

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/eyelet-dev/eyelet/dedup"
)

// Two receivers with different handlers share a store. The second opens half a minute later.
func TestReceiversLeaveEachOthersTasksAlone(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		first := newFixture(t, []Handler{On("gh", "*", count(new(atomic.Int64))).Named("first")}, nil)
		var runs atomic.Int64
		hs := []Handler{On("gh", "*", count(&runs)).Named("second")}
		second := newFixture(t, hs, func(c *Config) { c.Store = first.store })
		var events []string
		for i := range 10 {
			events = append(events, first.accept(fmt.Sprint(i), "x",
				dedup.NewTask{Handler: "first"}, dedup.NewTask{Handler: "second"}))
		}
		first.d.start()
		time.Sleep(DefaultOrphanAfterAlone / 2)
		second.d.start()
		time.Sleep(2 * DefaultOrphanAfterAlone)
		for _, event := range events {
			r := first.record(event)
			first.same("state", dedup.Done, r.State())
		}
		first.same("runs of the second receiver", int64(len(events)), runs.Load())
		for _, f := range []*fixture{first, second} {
			if err := f.d.stop(t.Context()); err != nil {
				t.Error(err)
			}
		}
	})
}

func TestTasksOfAMissingHandlerWaitForOrphanAfter(t *testing.T) {
	t.Parallel()
	for _, after := range []time.Duration{-1, time.Second, time.Hour} {
		synctest.Test(t, func(t *testing.T) {
			f := newFixture(t, nil, func(c *Config) { c.OrphanAfter = after })
			event := f.accept("1", "x", dedup.NewTask{Handler: "gone"})
			f.d.start()
			time.Sleep(max(0, after-1))
			synctest.Wait()
			if after > 0 {
				r := f.record(event)
				f.same("state before", dedup.Pending, r.State())
			}
			time.Sleep(2 * time.Nanosecond)
			f.ends(f.outcome(event), dedup.Dead, reasonGone, 1)
			if err := f.d.stop(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
}

func count(runs *atomic.Int64) func(context.Context, Event[[]byte]) error {
	return func(context.Context, Event[[]byte]) error { runs.Add(1); return nil }
}
