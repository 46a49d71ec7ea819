package receiver

import (
	"context"
	"fmt"
	"net/http"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/eyelet-dev/eyelet/dedup"
	"github.com/eyelet-dev/eyelet/dedup/memstore"
	"github.com/eyelet-dev/eyelet/producer"
)

// watchedStore counts the extensions of leases.
type watchedStore struct {
	dedup.Store
	extended atomic.Int64
}

func (s *watchedStore) Extend(ctx context.Context, l dedup.Lease, d time.Duration) error {
	err := s.Store.Extend(ctx, l, d)
	if err == nil {
		s.extended.Add(1)
	}
	return err
}

// offClock is the clock of the machine with an offset.
type offClock struct{ off atomic.Int64 }

func (c *offClock) Set(off time.Duration) { c.off.Store(int64(off)) }
func (c *offClock) Now() time.Time        { return time.Now().Round(0).Add(time.Duration(c.off.Load())) }

// clocked is a receiver with a settable clock, and a record of its work.
type clocked struct {
	*site
	clock   *offClock
	watched *watchedStore
	release chan struct{} // closed when waiting handlers may return
	stop    chan struct{} // closed when the load has to end
	loads   sync.WaitGroup
	free    func() // closes release
	end     func() // closes stop and waits

	mu       sync.Mutex
	done     map[string]int // successful runs
	accepted map[string]bool
	waiting  map[string]int // runs of waiting handlers
}

// serveClocked opens a receiver. Its store has the default clock.
func serveClocked(t *testing.T, p producer.Producer) *clocked {
	t.Helper()
	c := &clocked{clock: &offClock{}, release: make(chan struct{}), stop: make(chan struct{}),
		done: map[string]int{}, accepted: map[string]bool{}, waiting: map[string]int{}}
	c.free = sync.OnceFunc(func() { close(c.release) })
	c.end = sync.OnceFunc(func() { close(c.stop); c.loads.Wait() })
	c.watched = &watchedStore{Store: memstore.New(memstore.Options{})}
	c.site = serve(t, p, func(config *Config) {
		config.Store, config.Clock = c.watched, c.clock.Now
		config.BackoffBase, config.BackoffCap = 20*time.Millisecond, 50*time.Millisecond
		config.Lease, config.InFlightWait, config.Workers = 2*time.Second, 10*time.Millisecond, 4
		config.AnswerTimeout, config.HandlerTimeout = time.Minute, 5*time.Minute
	}, On("shop", "t", c.second), On("shop", "long", c.long), Answer("shop", "ask", c.ask))
	t.Cleanup(func() {
		c.end()
		c.free()
	})
	return c
}

// second is a handler that succeeds at its second attempt, after a backoff.
func (c *clocked) second(_ context.Context, ev Event[[]byte]) error {
	if ev.Attempt == 1 {
		return errBoom
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.done[ev.ID]++
	return nil
}

func (c *clocked) wait(id string) int {
	c.mu.Lock()
	c.waiting[id]++
	run := c.waiting[id]
	c.mu.Unlock()
	<-c.release
	return run
}

func (c *clocked) long(_ context.Context, ev Event[[]byte]) error {
	c.wait(ev.ID)
	return nil
}

func (c *clocked) ask(_ context.Context, ev Event[[]byte]) (Response, error) {
	return Response{Status: 200, Body: fmt.Appendf(nil, "run %d", c.wait(ev.ID))}, nil
}

func (c *clocked) runs(id string) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.waiting[id]
}

func (c *clocked) taken() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.accepted)
}

// at is a delivery signed at a time, with a body of its own.
func at(signed time.Time, id, typ string) req {
	return req{id: id, body: `{"id":"` + id + `"}`,
		header: http.Header{"Type": {typ}, "Signed-At": {strconv.FormatInt(signed.Unix(), 10)}}}
}

// accept delivers a new event, signed by the receiver's clock.
func (c *clocked) accept(id string) got {
	c.t.Helper()
	g := c.send(at(c.clock.Now(), id, "t"))
	if g.status/100 != 2 || g.replayed() {
		c.t.Fatalf("%s: %+v", id, g)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.accepted[id] = true
	return g
}

// load sends new events, each of them twice, until stop. While the clock steps a delivery may be
// refused, with its reason.
func (c *clocked) load(worker int) {
	for i := 0; ; i++ {
		select {
		case <-c.stop:
			return
		default:
		}
		time.Sleep(20 * time.Millisecond)
		id := fmt.Sprintf("load%d-%d", worker, i)
		known := false
		for range 2 {
			g, err := c.try(at(c.clock.Now(), id, "t"))
			switch {
			case err != nil:
				c.t.Errorf("%s: %v", id, err)
				return
			case g.status/100 == 2:
				if g.replayed() != known {
					c.t.Errorf("%s, known %v: %+v", id, known, g)
				}
				known = true
				c.mu.Lock()
				c.accepted[id] = true
				c.mu.Unlock()
			case g.status != 401:
				c.t.Errorf("%s: %+v", id, g)
			}
		}
	}
}

// checkFreshness checks, with the clock off by a step, a delivery signed by a good clock and one
// that was captured before the step.
func (c *clocked) checkFreshness(step int, off time.Duration, first got) {
	c.t.Helper()
	if g := c.send(at(c.clock.Now(), "first", "t")); !g.replayed() || g.body != first.body || g.status != first.status {
		c.t.Errorf("step %d: a duplicate gets %+v, the first got %+v", step, g, first)
	}
	fresh := c.send(at(time.Now(), fmt.Sprint("honest", step), "t"))
	captured := c.send(at(time.Now(), "first", "t"))
	switch {
	case off > 0:
		wantProblem(c.t, fresh, 401, "timestamp_too_old")
	case off < 0:
		wantProblem(c.t, fresh, 401, "timestamp_too_new")
	}
	switch {
	case off < 0:
		wantProblem(c.t, captured, 401, "timestamp_too_new")
	case !c.p.StaleKnown:
		wantProblem(c.t, captured, 401, "timestamp_too_old")
	case !captured.replayed() || captured.body != first.body:
		c.t.Errorf("step %d: a stale duplicate gets %+v", step, captured)
	}
}

// settled waits until all tasks are done and checks the records: each accepted event exists once
// and is done, was finished at about the right time, and is remembered for its window. Two events
// have waiting handlers.
func (c *clocked) settled() {
	c.t.Helper()
	waitFor(c.t, func() bool {
		stats, err := c.watched.Stats(c.t.Context())
		return err == nil && stats.Pending+stats.Running == 0
	})
	c.mu.Lock()
	defer c.mu.Unlock()
	seen := map[string]bool{}
	for rec, err := range c.watched.List(c.t.Context(), dedup.Filter{}) {
		switch id := rec.Key.ID; {
		case err != nil:
			c.t.Fatal(err)
		case seen[id] || rec.Generation != 1 || rec.State() != dedup.Done || rec.QuarantineReason != "":
			c.t.Errorf("%s: twice %v, generation %d, %v", id, seen[id], rec.Generation, rec.State())
		case c.accepted[id] && c.done[id] != 1:
			c.t.Errorf("%s: %d successful runs", id, c.done[id])
		case rec.Expires.Sub(rec.Finished) != rec.Window || rec.Window < 24*time.Hour:
			c.t.Errorf("%s: finished %v, ends %v", id, rec.Finished, rec.Expires)
		case time.Since(rec.Finished).Abs() > 10*time.Minute:
			c.t.Errorf("%s: finished at %v", id, rec.Finished)
		}
		seen[rec.Key.ID] = true
	}
	if len(seen) != len(c.accepted)+2 {
		c.t.Errorf("%d records, %d accepted", len(seen), len(c.accepted)+2)
	}
}

func TestStepsOfTheMachinesClockDoubleNothingAndHoldUpNothing(t *testing.T) {
	t.Parallel()
	inBubbles(t, func(t *testing.T, p producer.Producer) {
		c := serveClocked(t, p)
		first := c.accept("first")
		if g := c.send(at(c.clock.Now(), "l1", "long")); g.status/100 != 2 {
			t.Fatalf("%+v", g)
		}
		answered := make(chan got, 1)
		held := at(c.clock.Now(), "a1", "ask")
		go func() {
			g, err := c.try(held)
			if err != nil {
				t.Error(err)
			}
			answered <- g
		}()
		waitFor(t, func() bool { return c.runs("l1") == 1 && c.runs("a1") == 1 })
		for worker := range 2 {
			c.loads.Go(func() { c.load(worker) })
		}
		for step, off := range []time.Duration{time.Hour, -time.Hour, time.Hour} {
			c.clock.Set(off)
			extended, taken := c.watched.extended.Load(), c.taken()
			c.accept(fmt.Sprint("step", step))
			c.checkFreshness(step, off, first)
			if g := c.send(at(c.clock.Now(), "a1", "ask")); g.status != 409 && g.status != 503 {
				t.Errorf("during its run: %+v", g)
			}
			// The leases of waiting handlers were extended, and the load continued.
			waitFor(t, func() bool { return c.watched.extended.Load() >= extended+2 && c.taken() >= taken+5 })
		}
		c.end()
		c.free()
		if g := <-answered; g.status != 200 || g.body != "run 1" {
			t.Errorf("the response is %+v", g)
		}
		if g := c.send(at(c.clock.Now(), "a1", "ask")); g.body != "run 1" || !g.replayed() {
			t.Errorf("the duplicate gets %+v", g)
		}
		c.settled()
		if c.runs("l1") != 1 || c.runs("a1") != 1 {
			t.Errorf("%d and %d concurrent runs", c.runs("l1"), c.runs("a1"))
		}
	})
}
