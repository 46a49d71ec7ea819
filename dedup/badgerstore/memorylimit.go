package badgerstore

import (
	"math"
	"runtime/debug"

	"github.com/KimMachineGun/automemlimit/memlimit"
)

// backlogEventBytes is how much memory the default bound of the backlog counts for a waiting event: about twice what it
// takes of the live heap, as the garbage collector lets the heap grow to twice that, and a reserve.
const backlogEventBytes = 600

// DefaultBacklogRecords returns the default of Options.MaxBacklogRecords: a quarter of the memory that the process may
// use, divided by 600 bytes for an event. That memory is GOMEMLIMIT, else the limit of the cgroup, else the physical
// memory. Where nothing tells it, the default is one million.
func DefaultBacklogRecords() int64 {
	return backlogRecords(debug.SetMemoryLimit(-1), memlimit.FromCgroup, memlimit.FromSystem)
}

// backlogRecords is DefaultBacklogRecords for a machine.
func backlogRecords(goLimit int64, others ...func() (uint64, error)) int64 {
	if goLimit < math.MaxInt64 {
		return max(1, goLimit/4/backlogEventBytes)
	}
	for _, limit := range others {
		if n, err := limit(); err == nil && n > 0 && n < math.MaxInt64 {
			return max(1, int64(n/4/backlogEventBytes))
		}
	}
	return 1_000_000
}
