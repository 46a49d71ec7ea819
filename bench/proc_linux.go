package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// cpuTime returns the user and system time of a process and of its children that have ended, or 0
// if it has ended.
func cpuTime(pid int) time.Duration {
	// The identifier of a process's CPU clock: clock_getcpuclockid(3).
	var own unix.Timespec
	if unix.ClockGettime(int32(^pid<<3|2), &own) != nil {
		return 0
	}
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0
	}
	// The command in parentheses may contain spaces: count the fields after it.
	fields := strings.Fields(string(text[strings.LastIndexByte(string(text), ')')+1:]))
	if len(fields) < 15 {
		return 0
	}
	user, _ := strconv.ParseInt(fields[13], 10, 64)
	system, _ := strconv.ParseInt(fields[14], 10, 64)
	return time.Duration(own.Nano()) + time.Duration(user+system)*10*time.Millisecond
}

// anonymousMemory returns the resident bytes of a process that are not of files, or 0 if it has
// ended.
func anonymousMemory(pid int) float64 {
	return 1024 * sumOf(fmt.Sprintf("/proc/%d/status", pid), "RssAnon:")
}

// switches returns how often the living threads of a process were switched to another one.
func switches(pid int) (n float64) {
	paths, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/status", pid)) // only a wrong pattern is an error
	for _, path := range paths {
		n += sumOf(path, "voluntary_ctxt_switches:", "nonvoluntary_ctxt_switches:")
	}
	return n
}

// calls returns the number of system calls of a process that read or wrote.
func calls(pid int) float64 { return sumOf(fmt.Sprintf("/proc/%d/io", pid), "syscr:", "syscw:") }

// sumOf returns the sum of the numbers after some names in a file of /proc; a process that has
// ended has none.
func sumOf(path string, names ...string) (sum float64) {
	text, _ := os.ReadFile(path)
	for line := range strings.Lines(string(text)) {
		if f := strings.Fields(line); len(f) >= 2 && slices.Contains(names, f[0]) {
			n, _ := strconv.ParseFloat(f[1], 64)
			sum += n
		}
	}
	return sum
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

// fileSystem returns the type of the file system of a folder.
func fileSystem(ctx context.Context, dir string) string {
	out, err := exec.CommandContext(ctx, "findmnt", "-no", "FSTYPE", "-T", dir).Output()
	if err != nil {
		return "of unknown type"
	}
	return strings.TrimSpace(string(out))
}

// processor returns the model of the processor, or "".
func processor() string {
	text, _ := os.ReadFile("/proc/cpuinfo")
	for line := range strings.Lines(string(text)) {
		if name, value, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(name) == "model name" {
			return strings.TrimSpace(value)
		}
	}
	return ""
}
