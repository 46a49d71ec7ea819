package storedir

import (
	"errors"
	"io/fs"

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

// WriteBack is documented at [File].
func (f osFile) WriteBack(at, size int64) error {
	const now = unix.SYNC_FILE_RANGE_WAIT_BEFORE | unix.SYNC_FILE_RANGE_WRITE | unix.SYNC_FILE_RANGE_WAIT_AFTER
	err := unix.SyncFileRange(int(f.Fd()), at, size, now)
	if errors.Is(err, errors.ErrUnsupported) || errors.Is(err, fs.ErrPermission) { // as a sandbox says
		return nil
	}
	return err
}

// Raw is documented at [File].
func (f osFile) Raw() bool {
	hole, err := f.Seek(0, unix.SEEK_HOLE)
	info, statErr := f.Stat()
	return err == nil && statErr == nil && hole < info.Size()
}

// Allocate is documented at [File].
func (f osFile) Allocate(size int64) error { return unix.Fallocate(int(f.Fd()), 0, 0, size) }

// noCopyOnWrite is FS_NOCOW_FL of linux/fs.h.
const noCopyOnWrite = 0x00800000

// OverwriteInPlace makes Btrfs overwrite the files that are created in a directory instead of
// copying on write. Errors are ignored: most file systems do not know the flag.
func OverwriteInPlace(dir string) {
	d, err := unix.Open(dir, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return
	}
	defer func() { _ = unix.Close(d) }()
	if flags, err := unix.IoctlGetUint32(d, unix.FS_IOC_GETFLAGS); err == nil {
		_ = unix.IoctlSetPointerInt(d, unix.FS_IOC_SETFLAGS, int(flags|noCopyOnWrite))
	}
}
