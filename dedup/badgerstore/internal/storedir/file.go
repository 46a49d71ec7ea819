package storedir

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"github.com/eyelet-dev/eyelet/internal/atomicfile"
)

// File is an open file of the log, or with values. Tests inject faults with it.
type File interface {
	io.ReaderAt
	io.WriterAt
	io.Closer
	Datasync() error // fdatasync, where there is one
	Sync() error
	// WriteBack writes a range to the disk, where that is possible. It makes nothing durable, but
	// leaves less to the next flush.
	WriteBack(at, size int64) error
	// Raw reports that some of the reserved space was never written, where that can be seen.
	Raw() bool
	Truncate(size int64) error
	// Allocate reserves space and sets the size. It fails with [errors.ErrUnsupported] where space
	// cannot be reserved without writing it.
	Allocate(size int64) error
	Stat() (fs.FileInfo, error)
}

type osFile struct{ *os.File }

// Open opens a file as [os.OpenFile] does.
type Open func(name string, flag int, perm fs.FileMode) (File, error)

// OpenFile is an Open.
func OpenFile(name string, flag int, perm fs.FileMode) (File, error) {
	f, err := os.OpenFile(name, flag, perm)
	return osFile{f}, err
}

// NotWrittenError reports that the file system had no space, or the process no descriptor, for
// something. It can be written again.
type NotWrittenError struct{ Err error }

// Error includes the error of the file system.
func (e *NotWrittenError) Error() string { return "not written: " + e.Err.Error() }

// Unwrap returns the error of the file system.
func (e *NotWrittenError) Unwrap() error { return e.Err }

// IsNoSpace reports whether a file was not written because the file system is full, the quota used
// up, or no descriptor left to open it.
func IsNoSpace(err error) bool {
	return errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) || errors.Is(err, syscall.EMFILE) ||
		errors.Is(err, syscall.ENFILE)
}

// WriteWhole writes a file completely or not at all. A crash leaves at most one temporary
// file of each name.
func WriteWhole(dir, name string, text []byte) error {
	temp := filepath.Join(dir, TempPrefix+name)
	if err := os.Remove(temp); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	f, err := os.OpenFile(temp, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(text)
	if err := errors.Join(err, f.Sync(), f.Close()); err != nil {
		return err
	}
	return errors.Join(os.Rename(temp, filepath.Join(dir, name)), atomicfile.SyncDir(dir))
}

// Remove deletes a file, if it is there.
func Remove(dir, name string) error {
	err := os.Remove(filepath.Join(dir, name))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return errors.Join(err, atomicfile.SyncDir(dir))
}
