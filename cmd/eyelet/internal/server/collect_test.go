package server

import (
	"runtime"
	"runtime/debug"
	"testing"
	"time"
)

func TestASmallHeapIsCollectedSeldom(t *testing.T) {
	for live, want := range map[uint64]int64{
		0: 400, 10 << 20: 400, 32 << 20: 300, 64 << 20: 100, 128 << 20: 100, 8 << 30: 100,
	} {
		if got := percentOf(live, smallHeap); got != want {
			t.Errorf("%d bytes live: %d percent, want %d", live, got, want)
		}
	}
}

// TestThePercentageFollowsTheHeap also runs the collector, after which it is set.
func TestThePercentageFollowsTheHeap(t *testing.T) {
	t.Setenv("GOGC", "")
	before := debug.SetGCPercent(leastPercent)
	defer debug.SetGCPercent(before)
	collectSeldom()
	await := func(seldom bool) {
		t.Helper()
		for begin := time.Now(); ; time.Sleep(time.Millisecond) {
			percent := debug.SetGCPercent(leastPercent)
			debug.SetGCPercent(percent)
			if percent > leastPercent == seldom {
				return
			}
			if runtime.GC(); time.Since(begin) > 10*time.Second {
				t.Fatalf("the heap grows by %d percent", percent)
			}
		}
	}
	await(true)
	large := make([]byte, smallHeap)
	await(false)
	runtime.KeepAlive(large)
	await(true)
}
