//go:build unix

package server

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// lock locks the file for this process.
func lock(f *os.File) error {
	err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	if errors.Is(err, unix.EWOULDBLOCK) {
		return errLocked
	}
	return err
}
