//go:build !linux

package redolog

// Datasync flushes the file.
func (f osFile) Datasync() error { return f.Sync() }

// Reserves returns false: it is not known whether writing a file again needs space.
func Reserves(string) bool { return false }

func overwriteInPlace(string) {}
