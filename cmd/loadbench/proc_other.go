//go:build !linux

package main

import "time"

// cpuTime is known on Linux only.
func cpuTime(int) time.Duration { return 0 }

// flushes are known on Linux only.
func flushes(string) int64 { return 0 }
