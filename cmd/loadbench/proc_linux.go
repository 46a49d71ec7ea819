package main

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// cpuTime returns the user and system time that a process has used, from /proc; its unit is 10 ms.
func cpuTime(pid int) time.Duration {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0
	}
	// The command in parentheses may hold spaces: the fields are counted behind it.
	fields := strings.Fields(string(text[strings.LastIndexByte(string(text), ')')+1:]))
	if len(fields) < 13 {
		return 0
	}
	user, _ := strconv.ParseInt(fields[11], 10, 64)
	system, _ := strconv.ParseInt(fields[12], 10, 64)
	return time.Duration(user+system) * 10 * time.Millisecond
}

// flushes returns how many flush requests the device under dir has completed, from /proc/diskstats; 0 where
// that cannot be told. Flushes of other programs on the device count too.
func flushes(dir string) int64 {
	var st unix.Stat_t
	if unix.Stat(dir, &st) != nil {
		return 0
	}
	text, err := os.ReadFile("/proc/diskstats")
	if err != nil {
		return 0
	}
	for _, line := range strings.Split(string(text), "\n") {
		f := strings.Fields(line)
		if len(f) < 19 || f[0] != strconv.Itoa(int(unix.Major(st.Dev))) || f[1] != strconv.Itoa(int(unix.Minor(st.Dev))) {
			continue
		}
		n, _ := strconv.ParseInt(f[18], 10, 64)
		return n
	}
	return 0
}
