package redolog

import (
	"errors"
	"slices"

	"golang.org/x/sys/unix"
)

// Datasync flushes the bytes of the file.
func (f osFile) Datasync() error {
	for {
		if err := unix.Fdatasync(int(f.Fd())); !errors.Is(err, unix.EINTR) {
			return err
		}
	}
}

// allocate reserves the space of the file and sets its size.
func (f osFile) allocate(size int64) error { return unix.Fallocate(int(f.Fd()), 0, 0, size) }

// Reserves reports whether the file system of a directory keeps the space of a file that was
// written once, so writing it again never fails for lack of space. That is known of ext4, XFS and
// tmpfs. File systems that copy on write do not keep it.
func Reserves(dir string) bool {
	var st unix.Statfs_t
	known := []int64{unix.EXT4_SUPER_MAGIC, unix.XFS_SUPER_MAGIC, unix.TMPFS_MAGIC}
	if unix.Statfs(dir, &st) != nil {
		return false
	}
	return slices.Contains(known, int64(st.Type)) //nolint:unconvert // of another size elsewhere
}

// noCopyOnWrite is FS_NOCOW_FL of linux/fs.h.
const noCopyOnWrite = 0x00800000

// overwriteInPlace makes Btrfs overwrite the files that are created in a directory instead of
// copying on write. Errors are ignored: most file systems do not know the flag.
func overwriteInPlace(dir string) {
	d, err := unix.Open(dir, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return
	}
	defer func() { _ = unix.Close(d) }()
	if flags, err := unix.IoctlGetUint32(d, unix.FS_IOC_GETFLAGS); err == nil {
		_ = unix.IoctlSetPointerInt(d, unix.FS_IOC_SETFLAGS, int(flags|noCopyOnWrite))
	}
}
