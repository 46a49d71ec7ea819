package faultdisk

import (
	"os"
	"testing"
)

// Long reports whether EYELET_LONG is set: long tests run in full, and stores of tests are on disk.
func Long() bool { return os.Getenv("EYELET_LONG") != "" }

// Count returns how often a test does something: full with Long, short otherwise.
func Count(short, full int) int {
	if Long() {
		return full
	}
	return short
}

// NeedLong skips a test without Long. With it, the test fails where something that it needs is
// missing.
func NeedLong(t testing.TB) {
	t.Helper()
	if !Long() {
		t.Skip("skipped: set EYELET_LONG=1 to run it")
	}
}
