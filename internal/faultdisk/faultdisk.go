//go:build linux

// Package faultdisk is a disk for tests with a volatile write cache. Its power can be cut and
// its writes can fail. Tests use the file system on it, or a [Strict] one without a disk.
//
// The disk is a file of a FUSE file system behind a loop device. A program serves it, which is a
// module of its own (dedup/badgerstore/faultdisk): a process that serves a disk must not wait for
// that disk, and the library does not depend on FUSE.
package faultdisk

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"
)

// Disk is a disk with an ext4 file system. One goroutine uses it at a time.
type Disk struct {
	// Dir is where the file system is mounted.
	Dir string

	fuse   string // directory of the file that is the disk
	file   string // one per power cycle
	loop   string
	server *server
}

// Stats counts what happened to a disk.
type Stats struct {
	Writes, Flushes int
	// Cuts counts the power cuts; Dropped and Torn count the writes that they lost completely
	// or in part.
	Cuts, Dropped, Torn int
	// Failed counts the writes that FailWrite and FailIn made fail.
	Failed int
}

// MaxWrite is the length of the longest write, in bytes.
const MaxWrite = 512 << 10

// New makes a disk of size bytes with an empty, mounted file system. It skips the test without
// Long. It needs root, /dev/fuse, loop devices and mkfs.ext4.
func New(t testing.TB, size int64) *Disk {
	t.Helper()
	NeedLong(t)
	d, err := start(t, size)
	if err != nil {
		t.Fatalf("faultdisk cannot be used: %v", err)
	}
	t.Cleanup(d.close)
	_, err = run("mkfs.ext4", "-q", "-F", "-E", "nodiscard,lazy_itable_init=0,lazy_journal_init=0", d.file)
	if err == nil {
		err = d.Mount()
	}
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// start starts the server of a disk.
func start(t testing.TB, size int64) (*Disk, error) {
	if os.Geteuid() != 0 {
		return nil, errors.New("mounting a file system needs root")
	}
	for _, tool := range []string{"mkfs.ext4", "mount", "umount", "losetup"} {
		if _, err := exec.LookPath(tool); err != nil {
			return nil, err
		}
	}
	if _, err := os.Stat("/dev/fuse"); err != nil {
		return nil, err
	}
	dir := t.TempDir()
	d := &Disk{Dir: filepath.Join(dir, "mnt"), fuse: filepath.Join(dir, "fuse")}
	d.file = filepath.Join(d.fuse, "0")
	if err := errors.Join(os.Mkdir(d.Dir, 0o700), os.Mkdir(d.fuse, 0o700)); err != nil {
		return nil, err
	}
	UnmountAtEnd(t, d.Dir, d.fuse)
	var err error
	d.server, err = startServer("disk", strconv.FormatInt(size, 10), d.fuse)
	return d, err
}

// Mount mounts the file system, which recovers its journal. The page cache starts empty.
func (d *Disk) Mount() error {
	epoch, err := d.server.ask("on")
	if err != nil {
		return err
	}
	d.file = filepath.Join(d.fuse, epoch)
	for range 5 { // another process may take the free loop device first
		if d.loop, err = run("losetup", "--find", "--show", d.file); err == nil {
			if err = d.limitRequests(); err == nil {
				_, err = run("mount", "-o", "noatime", d.loop, d.Dir)
			}
			_, detached := run("losetup", "--detach", d.loop) // when it is unmounted, whoever does that
			return errors.Join(err, detached)
		}
	}
	return err
}

// limitRequests keeps the requests of the loop device within one write of FUSE. Of two, the second
// may fail: then FUSE reports a short write, which the loop device takes for a success.
func (d *Disk) limitRequests() error {
	limit := filepath.Join("/sys/block", filepath.Base(d.loop), "queue/max_sectors_kb")
	return os.WriteFile(limit, []byte(strconv.Itoa(MaxWrite>>10)), 0)
}

// Unmount unmounts the file system. It waits up to ten seconds for a killed process to release
// its files.
func (d *Disk) Unmount() error {
	var err error
	for range 500 {
		if _, err = run("umount", d.Dir); err == nil {
			d.loop = ""
			return nil
		}
		time.Sleep(20 * time.Millisecond)
	}
	return err
}

// Seed makes later power cuts reproducible.
func (d *Disk) Seed(seed uint64) error { return d.server.send("seed", seed) }

// Cut cuts the power. Unflushed writes are kept, dropped or torn at random, and all users of the
// file system get errors. Unmount and Mount restart the disk.
func (d *Disk) Cut() error { return d.server.send("cut") }

// CutIn cuts the power at the nth write from now, or at the first later one with depth writes
// that are not flushed.
func (d *Disk) CutIn(n, depth int) error { return d.server.send("cutin", n, depth) }

// FailWrite makes the next write that contains the marker fail once with EIO. Repeating the
// write succeeds.
func (d *Disk) FailWrite(marker []byte) error {
	return d.server.send("fail", hex.EncodeToString(marker))
}

// FailIn makes the nth write from now fail once with EIO.
func (d *Disk) FailIn(n int) error { return d.server.send("failin", n) }

// Stats returns the counts so far.
func (d *Disk) Stats() (Stats, error) {
	var s Stats
	line, err := d.server.ask("stats")
	if err != nil {
		return s, err
	}
	return s, json.Unmarshal([]byte(line), &s)
}

// close stops everything. It ignores errors, because the test is over.
func (d *Disk) close() {
	if d.loop != "" {
		_, _ = run("umount", "-l", d.Dir)
	}
	d.server.close()
	_, _ = run("umount", "-l", d.fuse)
}

// run runs a tool and returns its output without surrounding white space.
func run(tool string, args ...string) (string, error) {
	out, err := exec.CommandContext(context.Background(), tool, args...).CombinedOutput()
	text := strings.TrimSpace(string(out))
	if err != nil {
		return "", fmt.Errorf("%s: %w: %s", tool, err, text)
	}
	return text, nil
}
