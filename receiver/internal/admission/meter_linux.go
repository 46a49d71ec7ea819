package admission

import (
	"runtime"
	"syscall"
	"time"
)

// start ties the goroutine to its thread, whose processor time is then its own.
func (threadMeter) start() time.Duration {
	runtime.LockOSThread()
	return threadTime()
}

func (threadMeter) stop(since time.Duration) time.Duration {
	took := threadTime() - since
	runtime.UnlockOSThread()
	return took
}

func threadTime() time.Duration {
	var u syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_THREAD, &u) != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
