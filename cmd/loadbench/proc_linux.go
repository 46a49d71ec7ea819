package main

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// cpuTime returns the user and system time of a process, from /proc in units of 10 ms.
func cpuTime(pid int) time.Duration {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0
	}
	// The command in parentheses may contain spaces: count the fields after it.
	fields := strings.Fields(string(text[strings.LastIndexByte(string(text), ')')+1:]))
	if len(fields) < 13 {
		return 0
	}
	user, _ := strconv.ParseInt(fields[11], 10, 64)
	system, _ := strconv.ParseInt(fields[12], 10, 64)
	return time.Duration(user+system) * 10 * time.Millisecond
}

// flushes returns how many flush requests the device under dir has completed, from /proc/diskstats,
// or 0 where that is unknown. Flushes of other programs on the device count too.
func flushes(dir string) int64 {
	var st unix.Stat_t
	if unix.Stat(dir, &st) != nil {
		return 0
	}
	text, err := os.ReadFile("/proc/diskstats")
	if err != nil {
		return 0
	}
	major, minor := strconv.Itoa(int(unix.Major(st.Dev))), strconv.Itoa(int(unix.Minor(st.Dev)))
	for line := range strings.Lines(string(text)) {
		if f := strings.Fields(line); len(f) >= 19 && f[0] == major && f[1] == minor {
			n, _ := strconv.ParseInt(f[18], 10, 64)
			return n
		}
	}
	return 0
}
