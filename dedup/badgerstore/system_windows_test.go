package badgerstore

import (
	"errors"
	"os"
	"time"
)

// cpuTime returns nothing: benchmarks of processor time need Unix.
func cpuTime() time.Duration { return 0 }

// deviceOf returns nothing: there is no /proc/diskstats.
func deviceOf(string) (major, minor string) { return "", "" }

// lockDir is for the lock of Unix, which is on the directory itself.
func lockDir(*os.File) error { return errors.ErrUnsupported }

// limitDescriptors is for Unix: Windows has no such limit.
func limitDescriptors(uint64) error { return errors.ErrUnsupported }
