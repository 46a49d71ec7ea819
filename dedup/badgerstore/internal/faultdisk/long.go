//go:build linux

package faultdisk

import (
	"os"
	"runtime/debug"

	"golang.org/x/sys/unix"
)

// Long reports whether EYELET_LONG is set, as in .ci/run: long tests run in full, stores of tests
// are on disk, and tests that need root or a file system of their own fail without it instead of
// being skipped.
func Long() bool { return os.Getenv("EYELET_LONG") != "" }

// SpendMemory lets this process collect garbage less often, which takes a seventh of the processor
// time of tests that open many stores. It changes nothing with Long, or if GOGC is set.
func SpendMemory() {
	if !Long() && os.Getenv("GOGC") == "" {
		debug.SetGCPercent(400)
	}
}

// TempInMemory puts the temporary directories of this process on the file system in memory, where
// a store is opened with half the processor time and no flush waits. It leaves them where they are
// if that file system has less than 4 GiB free, if TMPDIR is set, and with Long.
func TempInMemory() {
	const dir, least = "/dev/shm", 4 << 30
	var st unix.Statfs_t
	if Long() || os.Getenv("TMPDIR") != "" || unix.Statfs(dir, &st) != nil || st.Type != unix.TMPFS_MAGIC {
		return
	}
	if st.Bavail*uint64(st.Bsize) >= least { //nolint:gosec // never negative
		_ = os.Setenv("TMPDIR", dir) // on disk they are slower only
	}
}
