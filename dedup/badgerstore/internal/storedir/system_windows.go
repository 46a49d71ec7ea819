package storedir

import (
	"errors"
	"io/fs"
	"os"

	"golang.org/x/sys/windows"
)

// lockedByte is the position of the locked byte, far behind the process id, which others read.
const lockedByte = 1 << 30

// take locks the file for the process id. Windows locks no directories.
func (l *DirLock) take() error {
	f, err := os.OpenFile(l.path(), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	const how = windows.LOCKFILE_EXCLUSIVE_LOCK | windows.LOCKFILE_FAIL_IMMEDIATELY
	err = windows.LockFileEx(windows.Handle(f.Fd()), how, 0, 1, 0, &windows.Overlapped{Offset: lockedByte})
	if err == nil {
		l.owner = f
		return f.Truncate(0)
	}
	if errors.Is(err, windows.ERROR_LOCK_VIOLATION) {
		err = errLocked
	}
	return errors.Join(err, f.Close())
}

// FreeSpace returns the bytes that the file system of a directory has free for this user, and all.
func FreeSpace(dir string) (free, total int64, err error) {
	name, err := windows.UTF16PtrFromString(dir)
	if err != nil {
		return 0, 0, err
	}
	var left, all uint64
	err = windows.GetDiskFreeSpaceEx(name, &left, &all, nil)
	return int64(left), int64(all), err //nolint:gosec // less than 2^63 bytes
}

// Allocated returns the bytes that a file occupies. Windows reports its length only.
func Allocated(info fs.FileInfo) int64 { return info.Size() }
