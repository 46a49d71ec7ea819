package admission

import (
	"runtime"
	"time"

	"golang.org/x/sys/unix"
)

// start ties the goroutine to its thread, whose processor time is then its own.
func (threadMeter) start(exact bool) time.Duration {
	if !exact {
		return passed()
	}
	runtime.LockOSThread()
	return threadTime()
}

func (threadMeter) stop(since time.Duration, exact bool) time.Duration {
	if !exact {
		return passed() - since
	}
	took := threadTime() - since
	runtime.UnlockOSThread()
	return took
}

func threadTime() time.Duration {
	var used unix.Timespec
	if unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &used) != nil {
		return 0
	}
	return time.Duration(used.Nano())
}
