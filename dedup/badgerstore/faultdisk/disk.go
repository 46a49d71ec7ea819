//go:build linux

package main

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"syscall"

	"github.com/hanwen/go-fuse/v2/fs"
	"github.com/hanwen/go-fuse/v2/fuse"
)

// execute executes a command and returns the epoch. Commands are on, cut, cutin N DEPTH, fail
// HEX, failin N, seed N and stats.
func (d *device) execute(line string) (string, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	command, arg, _ := strings.Cut(line, " ")
	var err error
	switch command {
	case "on":
		d.off, d.cutIn, d.failIn, d.failing = false, 0, 0, nil // what has not come to pass is over
	case "cut":
		d.cut()
	case "cutin":
		_, err = fmt.Sscan(arg, &d.cutIn, &d.depth)
	case "fail":
		d.failing, err = hex.DecodeString(arg)
	case "failin":
		d.failIn, err = strconv.Atoi(arg)
	case "seed":
		var seed uint64
		seed, err = strconv.ParseUint(arg, 10, 64)
		d.chance = rand.New(rand.NewPCG(seed, 1))
	case "stats":
		var b []byte
		b, err = json.Marshal(d.stats)
		return string(b), err
	default:
		err = errors.New("unknown command")
	}
	return fmt.Sprint(d.epoch), err
}

// folder is the file system: one file per epoch, named by its number.
type folder struct {
	fs.Inode
	device *device
}

var (
	_ fs.NodeLookuper  = (*folder)(nil)
	_ fs.NodeOpener    = (*node)(nil)
	_ fs.NodeGetattrer = (*node)(nil)
	_ fs.NodeSetattrer = (*node)(nil)
	_ fs.NodeReader    = (*node)(nil)
	_ fs.NodeWriter    = (*node)(nil)
	_ fs.NodeFsyncer   = (*node)(nil)
)

// Lookup finds the file of an epoch.
func (f *folder) Lookup(ctx context.Context, name string, out *fuse.EntryOut) (*fs.Inode, syscall.Errno) {
	epoch, err := strconv.Atoi(name)
	if err != nil || epoch < 0 {
		return nil, syscall.ENOENT
	}
	out.Mode, out.Size = fuse.S_IFREG|0o600, uint64(len(f.device.seen))
	stable := fs.StableAttr{Mode: fuse.S_IFREG, Ino: uint64(epoch) + 2}
	return f.NewInode(ctx, &node{device: f.device, epoch: epoch}, stable), 0
}

type node struct {
	fs.Inode
	device *device
	epoch  int
}

// Getattr returns the size.
func (n *node) Getattr(_ context.Context, _ fs.FileHandle, out *fuse.AttrOut) syscall.Errno {
	out.Mode, out.Size = fuse.S_IFREG|0o600, uint64(len(n.device.seen))
	return 0
}

// Setattr changes nothing.
func (n *node) Setattr(ctx context.Context, f fs.FileHandle, _ *fuse.SetAttrIn, out *fuse.AttrOut) syscall.Errno {
	return n.Getattr(ctx, f, out)
}

// Open opens the file without a page cache, so every write arrives immediately.
func (n *node) Open(context.Context, uint32) (fs.FileHandle, uint32, syscall.Errno) {
	return nil, fuse.FOPEN_DIRECT_IO, 0
}

// Read reads what was written.
func (n *node) Read(_ context.Context, _ fs.FileHandle, to []byte, at int64) (fuse.ReadResult, syscall.Errno) {
	size, errno := n.device.read(n.epoch, to, at)
	return fuse.ReadResultData(to[:size]), errno
}

// Write writes into the volatile cache.
func (n *node) Write(_ context.Context, _ fs.FileHandle, data []byte, at int64) (uint32, syscall.Errno) {
	if errno := n.device.write(n.epoch, data, at); errno != 0 {
		return 0, errno
	}
	return uint32(len(data)), 0
}

// Fsync makes all writes durable.
func (n *node) Fsync(context.Context, fs.FileHandle, uint32) syscall.Errno {
	return n.device.flush(n.epoch)
}
