package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// imageSize is the size of the benchmark's file system, in bytes, where half of the free space
// suffices.
const imageSize = 12 << 30

// newDisk creates an ext4 file system in a file under dir, and mounts it. Its flushes are then
// those of the receiver alone. Without root or the tools it returns a folder, with the reason.
func newDisk(ctx context.Context, dir string) (disk, error) {
	root, err := os.MkdirTemp(dir, "eyelet-bench-")
	if err != nil {
		return disk{}, err
	}
	d := disk{root: root, dir: filepath.Join(root, "mnt"), close: func() { _ = os.RemoveAll(root) }}
	if err := os.Mkdir(d.dir, 0o700); err != nil {
		return disk{}, err
	}
	image := filepath.Join(root, "image")
	failed := makeImage(ctx, image)
	if failed == nil {
		failed = run(ctx, "mount", "-o", "loop,noatime", image, d.dir)
	}
	if failed != nil {
		d.shared = failed.Error()
		return d, os.RemoveAll(image)
	}
	ctx = context.WithoutCancel(ctx)
	d.close = func() {
		if run(ctx, "umount", d.dir) != nil {
			_ = run(ctx, "umount", "-l", d.dir) // a process that is ending still uses it
		}
		_ = os.RemoveAll(root)
	}
	return d, nil
}

func makeImage(ctx context.Context, name string) error {
	if os.Geteuid() != 0 {
		return fmt.Errorf("mounting a file system needs root")
	}
	f, err := os.Create(name)
	if err != nil {
		return err
	}
	var st unix.Statfs_t
	if err = unix.Fstatfs(int(f.Fd()), &st); err == nil {
		free := int64(st.Bavail) * st.Bsize
		err = unix.Fallocate(int(f.Fd()), 0, 0, min(imageSize, free/2))
	}
	if err := f.Close(); err != nil {
		return err
	}
	if err != nil {
		return err
	}
	return run(ctx, "mkfs.ext4", "-q", "-F", "-m", "0", "-E", "nodiscard,lazy_itable_init=0,lazy_journal_init=0", name)
}

func run(ctx context.Context, name string, args ...string) error {
	if out, err := exec.CommandContext(ctx, name, args...).CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w %s", name, err, out)
	}
	return nil
}
