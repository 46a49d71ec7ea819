package server

import (
	"os"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"sync"

	"github.com/KimMachineGun/automemlimit/memlimit"
)

const (
	smallHeap    = 128 << 20 // bytes to which the heap grows before it is collected, if less lives
	mostPercent  = 400
	leastPercent = 100 // the default of Go
)

// collectSeldom makes the garbage collector wait until a small heap has grown to five times what
// lives in it, but not beyond smallHeap, or a quarter of the memory that the process may have. A
// larger heap is collected as Go does it, and so is every one where the environment sets GOGC.
var collectSeldom = sync.OnceFunc(func() {
	if os.Getenv("GOGC") != "" {
		return
	}
	small := uint64(smallHeap)
	if limit, err := memlimit.FromCgroup(); err == nil {
		small = min(small, limit/4)
	}
	if limit := debug.SetMemoryLimit(-1); limit > 0 {
		small = min(small, uint64(limit)/4)
	}
	setPercent(small)
})

// setPercent sets the percentage for what lives in the heap, and again after each collection.
func setPercent(small uint64) {
	now := []metrics.Sample{{Name: "/gc/heap/live:bytes"}, {Name: "/gc/gogc:percent"}}
	metrics.Read(now)
	want := percentOf(now[0].Value.Uint64(), small)
	if was := int64(now[1].Value.Uint64()); want < was-was/8 || want > was+was/8 { // it stops the world
		debug.SetGCPercent(int(want))
	}
	collected := new([16]byte) // is not allocated together with others
	runtime.AddCleanup(collected, setPercent, small)
}

// percentOf returns by how many percent of what lives in it the heap grows until it is collected.
func percentOf(live, small uint64) int64 {
	if live == 0 {
		return mostPercent
	}
	return max(leastPercent, min(mostPercent, int64(small)*100/int64(live)-100))
}
