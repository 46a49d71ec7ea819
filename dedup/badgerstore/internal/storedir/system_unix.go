//go:build unix

package storedir

import (
	"errors"
	"io/fs"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// take locks the directory itself, and creates the file for the process id.
func (l *DirLock) take() error {
	err := unix.Flock(int(l.dir.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	if errors.Is(err, unix.EWOULDBLOCK) {
		return errLocked
	} else if err != nil {
		return err
	}
	l.owner, _ = os.OpenFile(l.path(), os.O_RDWR|os.O_CREATE|os.O_TRUNC, 0o600)
	return nil
}

// FreeSpace returns the bytes that the file system of a directory has free for this user, and all.
func FreeSpace(dir string) (free, total int64, err error) {
	var st unix.Statfs_t
	if err := unix.Statfs(dir, &st); err != nil {
		return 0, 0, err
	}
	return int64(st.Bavail) * int64(st.Bsize), int64(st.Blocks) * int64(st.Bsize), nil
}

// Allocated returns the bytes that a file occupies.
func Allocated(info fs.FileInfo) int64 {
	if st, ok := info.Sys().(*syscall.Stat_t); ok {
		return st.Blocks * 512 // the unit of POSIX, independent of the file system
	}
	return info.Size()
}
