//go:build !linux

package main

import (
	"context"
	"time"
)

// cpuTime is supported on Linux only.
func cpuTime(int) time.Duration { return 0 }

// anonymousMemory is supported on Linux only.
func anonymousMemory(int) float64 { return 0 }

// switches is supported on Linux only.
func switches(int) float64 { return 0 }

// calls is supported on Linux only.
func calls(int) float64 { return 0 }

// flushes is supported on Linux only.
func flushes(string) int64 { return 0 }

// newDisk returns a folder.
func newDisk(_ context.Context, dir string) (disk, error) {
	return sharedDisk(dir, "not on this system")
}

// fileSystem is supported on Linux only.
func fileSystem(context.Context, string) string { return "of unknown type" }

// processor is supported on Linux only.
func processor() string { return "" }
