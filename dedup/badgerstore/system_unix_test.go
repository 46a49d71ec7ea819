//go:build unix

package badgerstore

import (
	"os"
	"strconv"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// cpuTime returns the processor time of this process.
func cpuTime() time.Duration {
	var u syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &u)
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// deviceOf returns the device of the file system of a directory, as in /proc/diskstats.
func deviceOf(dir string) (major, minor string) {
	var st unix.Stat_t
	if unix.Stat(dir, &st) != nil {
		return "", ""
	}
	dev := uint64(st.Dev)
	return strconv.Itoa(int(unix.Major(dev))), strconv.Itoa(int(unix.Minor(dev)))
}

// lockDir takes the lock of a store, as another process does.
func lockDir(dir *os.File) error { return unix.Flock(int(dir.Fd()), unix.LOCK_EX|unix.LOCK_NB) }

// limitDescriptors sets the limit of open files of this process.
func limitDescriptors(n uint64) error {
	return unix.Setrlimit(unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: n, Max: n})
}
