package badgerfile

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"unsafe"

	"golang.org/x/sys/unix"
)

const (
	directAlign = 4096    // of memory, offsets and lengths of a read without the page cache
	directChunk = 1 << 20 // bytes read at once
)

// OnDisk flushes a file and reports whether the disk has what the page cache has. Only that shows a
// flush by others that has failed: the kernel takes the pages for clean, and a later flush succeeds
// without them. Where the file system does not read without the page cache, it only flushes.
func OnDisk(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }() // it was only read
	if err := f.Sync(); err != nil {
		return err
	}
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_DIRECT|unix.O_CLOEXEC, 0)
	if errors.Is(err, unix.EINVAL) {
		return nil
	} else if err != nil {
		return &os.PathError{Op: "open", Path: path, Err: err}
	}
	defer func() { _ = unix.Close(fd) }() // it was only read
	disk, cache := aligned(directChunk), make([]byte, directChunk)
	for at := int64(0); ; at += directChunk {
		n, err := unix.Pread(fd, disk, at)
		if errors.Is(err, unix.EINVAL) {
			return nil
		} else if err != nil {
			return &os.PathError{Op: "read", Path: path, Err: err}
		}
		want, err := f.ReadAt(cache, at)
		if err != nil && !errors.Is(err, io.EOF) {
			return err
		}
		if !bytes.Equal(disk[:n], cache[:want]) {
			return fmt.Errorf("%s is not on the disk as it was written", filepath.Base(path))
		}
		if want < directChunk {
			return nil
		}
	}
}

func aligned(size int) []byte {
	b := make([]byte, size+directAlign)
	from := -int(uintptr(unsafe.Pointer(unsafe.SliceData(b)))) & (directAlign - 1) //nolint:gosec // for its alignment
	return b[from:][:size:size]
}
