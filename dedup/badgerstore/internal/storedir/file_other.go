//go:build !linux

package storedir

import "errors"

// Datasync flushes the file.
func (f osFile) Datasync() error { return f.Sync() }

// WriteBack does nothing here.
func (f osFile) WriteBack(int64, int64) error { return nil }

// Raw is documented at [File].
func (f osFile) Raw() bool { return false }

// Allocate is documented at [File].
func (f osFile) Allocate(int64) error { return errors.ErrUnsupported }

// OverwriteInPlace does nothing here.
func OverwriteInPlace(string) {}
