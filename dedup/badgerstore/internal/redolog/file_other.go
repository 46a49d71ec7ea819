//go:build !linux

package redolog

import "errors"

// Datasync flushes the file.
func (f osFile) Datasync() error { return f.Sync() }

func (f osFile) allocate(int64) error { return errors.ErrUnsupported }

// Reserves returns false: it is not known whether writing a file again needs space.
func Reserves(string) bool { return false }

func overwriteInPlace(string) {}
