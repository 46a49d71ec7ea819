//go:build !linux

// Package faultdisk is a disk for tests: it loses power at any moment, with what was not flushed,
// and fails single writes. The disk is in the files for Linux. The tests over it are in files for
// Linux too, so on other systems nothing refers to its types. What these tests show about flushes
// and torn writes therefore holds for Linux: elsewhere a store is built from the same code and was
// not tested against power cuts.
package faultdisk

// TempInMemory leaves temporary directories where they are.
func TempInMemory() {}

// SpendMemory changes nothing.
func SpendMemory() {}
