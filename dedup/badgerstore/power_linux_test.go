package badgerstore

import (
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/eyelet-dev/eyelet/internal/faultdisk"
)

// shutdownIoctl is EXT4_IOC_SHUTDOWN of Linux (include/uapi/linux/ext4.h). shutdownNoFlush is its
// flag for going down without writing the journal: unflushed writes are lost, as in a power cut.
const (
	shutdownIoctl   = 0x8004587d
	shutdownNoFlush = 2
)

// loopFS is a file system in a file.
type loopFS struct{ image, dir string }

// newLoopFS creates and mounts a file system with a command and its options. It skips the test
// without EYELET_LONG, and then needs root and the tools.
func newLoopFS(t *testing.T, size int64, mkfs ...string) *loopFS {
	t.Helper()
	faultdisk.NeedLong(t)
	l := &loopFS{image: filepath.Join(t.TempDir(), "image"), dir: filepath.Join(t.TempDir(), "mnt")}
	if err := os.Mkdir(l.dir, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(l.image, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(l.image, size); err != nil {
		t.Fatal(err)
	}
	//nolint:gosec // of this file
	if out, err := exec.Command(mkfs[0], append(mkfs[1:], l.image)...).CombinedOutput(); err != nil {
		t.Fatalf("%s: %v: %s", mkfs[0], err, out)
	}
	faultdisk.UnmountAtEnd(t, l.dir)
	if err := l.mount(); err != nil {
		t.Fatalf("no loop mount on this machine: %v", err)
	}
	return l
}

func (l *loopFS) mount() error { return exec.Command("mount", "-o", "loop", l.image, l.dir).Run() }

func (l *loopFS) unmount(t *testing.T) {
	t.Helper()
	for range 200 { // until the killed process has released its mappings
		if exec.Command("umount", l.dir).Run() == nil {
			return
		}
		time.Sleep(20 * time.Millisecond)
	}
	t.Fatal("the file system cannot be unmounted")
}

// shutdown cuts the power of the file system.
func (l *loopFS) shutdown() error {
	d, err := os.Open(l.dir)
	if err != nil {
		return err
	}
	defer func() { _ = d.Close() }()
	return unix.IoctlSetPointerInt(int(d.Fd()), shutdownIoctl, shutdownNoFlush)
}

// TestAPowerCutLosesNothingAcknowledged cuts the power of a journaled file system under load, 5
// times or EYELET_POWER_ROUNDS. Acknowledgements read before the cut count. Those in flight may
// be lost or kept, because the kernel lets a flush in progress succeed while the file system
// goes down.
func TestAPowerCutLosesNothingAcknowledged(t *testing.T) {
	t.Parallel()
	rounds := 5
	if n, err := strconv.Atoi(os.Getenv("EYELET_POWER_ROUNDS")); err == nil {
		rounds = n
	}
	l := newLoopFS(t, 3<<30, "mkfs.ext4", "-q", "-F", "-O", "has_journal") // sparse: MinFree is 512 MiB
	dir := filepath.Join(l.dir, "store")
	k := newKilled()
	for round := range rounds {
		k.cut.Store(false)
		var failed error
		k.run(t, dir, round, nil, func(p *os.Process) {
			k.cut.Store(true)
			failed = l.shutdown()
			_ = p.Kill()
		})
		if failed != nil {
			t.Fatalf("the file system cannot be shut down: %v", failed)
		}
		l.unmount(t)
		if err := l.mount(); err != nil {
			t.Fatal(err)
		}
		k.check(t, dir)
		if t.Failed() {
			t.Fatalf("in round %d", round)
		}
	}
	if len(k.events) == 0 || len(k.done) == 0 {
		t.Fatalf("%d events, %d finished: the test tested nothing", len(k.events), len(k.done))
	}
	t.Logf("%d power cuts: %d events, %d finished, %d duplicates; %d lines came too late to count", rounds,
		len(k.events), len(k.done), k.known, k.late)
}
