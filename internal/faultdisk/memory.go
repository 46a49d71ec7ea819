//go:build linux

package faultdisk

import (
	"os"
	"runtime/debug"

	"golang.org/x/sys/unix"
)

// SpendMemory lets this process collect garbage less often, which takes a seventh of the processor
// time of tests that open many stores. It changes nothing with Long, or if GOGC is set.
func SpendMemory() {
	if !Long() && os.Getenv("GOGC") == "" {
		debug.SetGCPercent(400)
	}
}

// TempInMemory puts the temporary directories of this process on the file system in memory, where
// a store is opened with half the processor time and no flush waits. They go with the process. It
// leaves them where they are if that file system has less than 4 GiB free, if TMPDIR is set, and
// with Long.
func TempInMemory() {
	const dir, least = "/dev/shm", 4 << 30
	var st unix.Statfs_t
	if Long() || os.Getenv("TMPDIR") != "" || unix.Statfs(dir, &st) != nil || st.Type != unix.TMPFS_MAGIC {
		return
	}
	if st.Bavail*uint64(st.Bsize) < least { //nolint:gosec // never negative
		return
	}
	own, err := os.MkdirTemp(dir, "eyelet-test-")
	if err != nil {
		return // on disk they are slower only
	}
	if keepTemp, err = guard(`rm -rf "$1"`, own); err != nil {
		_ = os.Remove(own)
		return
	}
	_ = os.Setenv("TMPDIR", own)
}

// keepTemp is never called, but the guard ends with the last reference to it.
var keepTemp func() //nolint:unused // the reference counts
