//go:build !linux

package redolog

import "errors"

// Datasync flushes the file.
func (f osFile) Datasync() error { return f.Sync() }

func (f osFile) allocate(int64) error { return errors.ErrUnsupported }

func overwriteInPlace(string) {}
