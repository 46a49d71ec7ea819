package executor

import (
	"fmt"
	"runtime"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// pool is a pool of a test and what happened to its items.
type pool struct {
	*Pool[int]
	mu   sync.Mutex
	seen []string
}

func (p *pool) note(what string, item int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.seen = append(p.seen, fmt.Sprint(what, " ", item))
}

// same compares what happened since the last call.
func (p *pool) same(t *testing.T, want ...string) {
	t.Helper()
	synctest.Wait()
	p.mu.Lock()
	defer p.mu.Unlock()
	if !slices.Equal(p.seen, want) {
		t.Errorf("%q, want %q", p.seen, want)
	}
	p.seen = nil
}

// on runs a test with a pool in a bubble, which also fails when a goroutine is left.
func on(t *testing.T, goroutines int, run func(int), test func(*pool)) {
	t.Helper()
	t.Parallel()
	synctest.Test(t, func(*testing.T) {
		p := &pool{}
		p.Pool = New(Config[int]{
			Goroutines: goroutines, Patience: time.Second,
			Run:     func(i int) { p.note("ran", i); run(i) },
			Ended:   func(i int) { p.note("ended", i) },
			Expired: func(i int, waited time.Duration) { p.note("waited "+waited.String(), i) },
		})
		defer p.Stop()
		test(p)
	})
}

func TestItemsRunInTheirOrder(t *testing.T) {
	on(t, 1, func(int) { time.Sleep(time.Millisecond) }, func(p *pool) {
		var want []string
		for i := range 500 {
			if !p.Add(i) {
				t.Fatal("not added")
			}
			want = append(want, fmt.Sprint("ran ", i))
			if i%7 == 0 {
				time.Sleep(5 * time.Millisecond) // the queue grows, moves and empties
			}
		}
		time.Sleep(990 * time.Millisecond)
		p.same(t, want...)
	})
}

func TestGoroutinesAreBounded(t *testing.T) {
	on(t, 3, func(int) { time.Sleep(time.Second / 2) }, func(p *pool) {
		for range 2 {
			p.Add(0)
			time.Sleep(time.Second)
		}
		p.same(t, "ran 0", "ran 0")
		for range 5 {
			p.Add(1)
		}
		p.same(t, "ran 1", "ran 1", "ran 1")
		time.Sleep(time.Second)
		p.same(t, "ran 1", "ran 1")
	})
}

func TestGoexitIsReportedAndItsGoroutineReplaced(t *testing.T) {
	on(t, 1, func(i int) {
		if i%2 == 0 {
			runtime.Goexit()
		}
	}, func(p *pool) {
		for i := range 4 { // the others wait
			p.Add(i)
		}
		synctest.Wait()
		slices.Sort(p.seen)
		p.same(t, "ended 0", "ended 2", "ran 0", "ran 1", "ran 2", "ran 3")
	})
}

func TestItemsThatWaitTooLongExpire(t *testing.T) {
	on(t, 1, func(i int) { time.Sleep(time.Duration(i) * time.Millisecond) }, func(p *pool) {
		p.Add(2500)
		p.Add(1)
		time.Sleep(100 * time.Millisecond)
		p.Add(2)
		time.Sleep(900*time.Millisecond - 1)
		p.same(t, "ran 2500")
		time.Sleep(time.Nanosecond)
		p.same(t, "waited 1s 1")
		time.Sleep(100 * time.Millisecond)
		p.same(t, "waited 1s 2")
		p.Add(3) // expires at 2.1 s, after the others have
		time.Sleep(time.Second)
		p.same(t, "waited 1s 3")
		p.Add(4) // runs at 2.5 s
		time.Sleep(time.Second)
		p.same(t, "ran 4")
	})
}

func TestStopReturnsWhatWaitsAndRefusesMore(t *testing.T) {
	on(t, 1, func(int) { time.Sleep(time.Second) }, func(p *pool) {
		for i := range 4 {
			p.Add(i)
		}
		synctest.Wait()
		if left := p.Stop(); !slices.Equal(left, []int{1, 2, 3}) {
			t.Errorf("left %v", left)
		}
		if p.Add(9) {
			t.Error("added after Stop")
		}
		time.Sleep(time.Minute)
		p.same(t, "ran 0")
	})
}
