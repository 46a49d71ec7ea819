//go:build !linux

// Package faultdisk is a disk for tests: it loses power at any moment, with what was not flushed,
// and fails single writes. A process of its own serves it through FUSE, as the image of a loop
// device or as a file system.
//
// It needs Linux and root. The tests over it are in files for Linux, so on other systems nothing
// refers to its types, and only the test programs themselves ask whether they are its server. What
// these tests show about flushes and torn writes therefore holds for Linux: elsewhere a store is
// built from the same code and was not tested against power cuts.
//
// The parts on Linux:
//
//	faultdisk.go      the disk: mount it, cut its power, fail its writes
//	device.go         the bytes, and which of them a power cut keeps
//	server.go         the process that serves the image
//	strict.go         a directory that keeps only what was flushed
//	strict_server.go  the process that serves the directory
package faultdisk

import "os"

// Main reports whether this process is the server of a disk, which never happens here. A test
// program calls it first in TestMain.
//
// https://docs.kernel.org/filesystems/fuse/fuse.html
func Main() bool { return false }

// Long reports whether EYELET_LONG is set, with which long tests run in full.
func Long() bool { return os.Getenv("EYELET_LONG") != "" }

// TempInMemory leaves temporary directories where they are.
func TempInMemory() {}

// SpendMemory changes nothing.
func SpendMemory() {}
