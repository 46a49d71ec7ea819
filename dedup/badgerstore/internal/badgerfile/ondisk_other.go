//go:build !linux

package badgerfile

import (
	"errors"
	"os"
)

// OnDisk flushes a file. Here a flush by others that has failed is not noticed.
func OnDisk(path string) error {
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}
