package badgerstore

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/eyelet-dev/eyelet/dedup"
	"github.com/eyelet-dev/eyelet/dedup/deduptest"
)

// paused is a store whose process can be paused. Its heartbeat and its leases have one clock, as in
// a process: the committer works beside a test.
type paused struct {
	*Store
	*pulse
	clock *deduptest.Clock
	next  atomic.Int64 // the pause when the heartbeat's clock is read again
}

func openPaused(t *testing.T) *paused {
	t.Helper()
	p, o := &paused{clock: deduptest.NewClock()}, quiet()
	o.Clock, p.pulse = p.clock, newPulse(&o)
	start := p.clock.Now()
	passed := o.now
	o.now = func() time.Time {
		p.pause(time.Duration(p.next.Swap(0)))
		return passed().Add(p.clock.Now().Sub(start))
	}
	p.Store = open(t, t.TempDir(), o)
	return p
}

// pause passes time in which the process is paused, live time in which it runs.
func (p *paused) pause(d time.Duration) { p.clock.Advance(d) }

func (p *paused) live(d time.Duration) {
	for ; d > 0; d -= beatEvery {
		rest(p.Store)
		p.clock.Advance(min(d, beatEvery))
		p.beat(p.Store)
	}
}

// given reports whether the task is given out now, which is not expected.
func (p *paused) given(t *testing.T) (dedup.Work, bool) {
	t.Helper()
	return p.take(t, 100*time.Millisecond)
}

// due is the task that is given out now, however slow the disk is.
func (p *paused) due(t *testing.T) (dedup.Work, bool) {
	t.Helper()
	return p.take(t, time.Minute)
}

func (p *paused) take(t *testing.T, within time.Duration) (dedup.Work, bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), within)
	defer cancel()
	work, err := p.Take(ctx, dedup.Want{Tasks: 1, Bytes: 1 << 20, Lease: 30 * time.Second})
	if err != nil && !errors.Is(err, context.DeadlineExceeded) {
		t.Fatal(err)
	}
	if len(work) == 0 {
		return dedup.Work{}, false
	}
	return work[0], true
}

func TestAPauseBeyondTheLeaseStartsNoSecondRun(t *testing.T) {
	t.Parallel()
	p := openPaused(t)
	mustClaim(t, p.Store, claimOf("a"), dedup.New)
	first, ok := p.due(t)
	if !ok {
		t.Fatal("no task")
	}
	for round := range 3 { // whether the heartbeat or the committer notices first
		if round < 2 {
			p.pause(36 * time.Second)
		} else {
			p.next.Store(int64(36 * time.Second)) // the committer is paused before it notices
		}
		if _, ok := p.given(t); ok {
			t.Fatal("the task is given out while it still runs")
		}
		p.pass(p.Store, beatEvery)
		if _, ok := p.given(t); ok {
			t.Fatal("the task is given out while it still runs")
		}
		if err := p.Extend(context.Background(), first.Lease, 30*time.Second); err != nil {
			t.Fatal(err)
		}
		p.live(15 * time.Second)
		if _, ok := p.given(t); ok {
			t.Fatal("the task is given out although its lease was extended")
		}
	}
	p.live(16 * time.Second)
	if again, ok := p.due(t); !ok || again.Task().Attempt != 2 {
		t.Error("the task is not given out when its lease has ended in a running process")
	}
}

func TestAfterAPauseALeaseThatIsNotExtendedEnds(t *testing.T) {
	t.Parallel()
	p := openPaused(t)
	mustClaim(t, p.Store, claimOf("a"), dedup.New)
	if _, ok := p.due(t); !ok {
		t.Fatal("no task")
	}
	p.pause(time.Hour)
	if _, ok := p.given(t); ok {
		t.Fatal("the task is given out at once")
	}
	p.live(11 * time.Second)
	if again, ok := p.due(t); !ok || again.Task().Attempt != 2 {
		t.Error("the task is not given out after a third of its lease")
	}
}

func TestAPauseDoesNotFreeAHeldClaim(t *testing.T) {
	t.Parallel()
	p := openPaused(t)
	c := claimOf("a")
	c.Hold, c.Response, c.Lease, c.Tasks = true, dedup.Response{}, 30*time.Second, []dedup.NewTask{{Handler: "a"}}
	lease := mustClaim(t, p.Store, c, dedup.New).Lease
	p.pause(36 * time.Second)
	mustClaim(t, p.Store, c, dedup.Known)
	if err := p.Extend(context.Background(), lease, 30*time.Second); err != nil {
		t.Fatal(err)
	}
	p.live(29 * time.Second)
	mustClaim(t, p.Store, c, dedup.Known)
	p.live(2 * time.Second)
	mustClaim(t, p.Store, c, dedup.New)
}
