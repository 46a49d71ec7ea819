//go:build !linux

package main

import "time"

// cpuTime is supported on Linux only.
func cpuTime(int) time.Duration { return 0 }

// flushes is supported on Linux only.
func flushes(string) int64 { return 0 }
